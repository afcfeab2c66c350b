"""From running sums to the entries of one slot."""

from collections.abc import Collection

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, EntryKind
from kwhere.core.unit import UnitKey
from kwhere.ledger.rows import ENERGY_COLUMNS, Entry, Figures
from kwhere.sampling.accounts import Account, Accounts, Sums


def entries(
    accounts: Accounts, components: Collection[Component], node_user_ns: int, *, to_utc_ns: int = 0
) -> tuple[Entry, ...]:
    """Return what the open slot holds: units in the order of their keys, then `system`, then `unallocated`.

    `components` are those that a meter spoke of in this slot; the others are null. `node_user_ns` is the node's user
    time in the slot: what units did not use of it is the system's. `to_utc_ns` added to a monotonic time is the wall's.
    """
    units = [
        _unit_entry(key, account, components, to_utc_ns)
        for key, account in sorted(accounts.units.items())
        if account.touched()
    ]
    units_user_ns = sum(entry.figures.cpu_user_ns or 0 for entry in units)
    system = figures(accounts.system, components, cpu=False)
    total_ns = accounts.system.sums.cpu_ns - accounts.system.booked.cpu_ns
    system.cpu_user_ns = min(total_ns, max(0, node_user_ns - units_user_ns))
    system.cpu_system_ns = total_ns - system.cpu_user_ns
    unallocated = figures(accounts.unallocated, components, cpu=False)
    return (
        *units,
        Entry(EntryKind.SYSTEM, None, system, flags=frozenset(accounts.system.flags)),
        Entry(EntryKind.UNALLOCATED, None, unallocated, flags=frozenset(accounts.unallocated.flags)),
    )


def figures(account: Account, components: Collection[Component], *, cpu: bool = True) -> Figures:
    """Return what an account added since the open slot began."""
    now, then = account.sums, account.booked
    found = Figures(
        energy_uj={
            column: now.energy_uj[i] - then.energy_uj[i]
            for i, column in enumerate(ENERGY_COLUMNS)
            if column[0] in components or now.energy_uj[i] != then.energy_uj[i]
        },
        cpu_allocated_ns=_difference(now.cpu_allocated_ns, then.cpu_allocated_ns),
        memory_allocated_byte_seconds=_seconds(now.memory_allocated_byte_ns, then.memory_allocated_byte_ns),
        memory_byte_seconds=_seconds(now.memory_byte_ns, then.memory_byte_ns),
        memory_peak_bytes=account.memory_peak_bytes,
        io_read_bytes=_difference(now.io_read_bytes, then.io_read_bytes),
        io_write_bytes=_difference(now.io_write_bytes, then.io_write_bytes),
        io_read_operations=_difference(now.io_read_operations, then.io_read_operations),
        io_write_operations=_difference(now.io_write_operations, then.io_write_operations),
        throttled_ns=_difference(now.throttled_ns, then.throttled_ns),
        gpu_allocated_ns=_difference(now.gpu_allocated_ns, then.gpu_allocated_ns),
        gpu_busy_ns=_difference(now.gpu_busy_ns, then.gpu_busy_ns),
        gpu_memory_byte_seconds=_seconds(now.gpu_memory_byte_ns, then.gpu_memory_byte_ns),
        gpu_memory_peak_bytes=account.gpu_memory_peak_bytes,
        gpu_unknown_ns=_difference(now.gpu_unknown_ns, then.gpu_unknown_ns),
        gpu_held_idle_ns=_difference(now.gpu_held_idle_ns, then.gpu_held_idle_ns),
        gpu_held_idle_uj=_difference(now.gpu_held_idle_uj, then.gpu_held_idle_uj),
    )
    if cpu:
        found.cpu_user_ns, found.cpu_system_ns = _modes(now, then)
    return found


def _unit_entry(key: UnitKey, account: Account, components: Collection[Component], to_utc_ns: int) -> Entry:
    found = figures(account, components)
    flags = frozenset(account.flags)
    gpus = tuple(account.gpus[place].use(to_utc_ns) for place in sorted(account.gpus))
    if account.unit is None:
        return Entry(EntryKind.UNIT, key, found, flags=flags, gpus=gpus)
    info = account.unit.info
    words = (info.name, info.user, info.project, info.node_name)
    return Entry(EntryKind.UNIT, key, found, *words, info.labels, flags=flags, gpus=gpus)


def _modes(now: Sums, then: Sums) -> tuple[int, int]:
    """Return CPU time as user and system time; their sum is exact, their proportion the kernel's.

    A slot without a reading of both takes the proportion of the unit's whole life; none at all: user.
    """
    total_ns = now.cpu_ns - then.cpu_ns
    user_ns, system_ns = now.cpu_user_ns - then.cpu_user_ns, now.cpu_system_ns - then.cpu_system_ns
    if user_ns + system_ns == 0:
        user_ns, system_ns = now.cpu_user_ns, now.cpu_system_ns
    if user_ns + system_ns == 0:
        return total_ns, 0
    user_share_ns = total_ns * user_ns // (user_ns + system_ns)
    return user_share_ns, total_ns - user_share_ns


def _difference(now: int | None, then: int | None) -> int | None:
    return None if now is None else now - (then or 0)


def _seconds(now: int | None, then: int | None) -> int | None:
    """Return byte-seconds of the slot: cut at whole seconds of the running sum, so that slots add up."""
    if now is None:
        return None
    return now // NANOSECONDS_PER_SECOND - (then or 0) // NANOSECONDS_PER_SECOND
