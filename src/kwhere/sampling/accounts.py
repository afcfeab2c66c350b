"""Running sums of every unit, of `system` and of `unallocated` since the process began."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.terms import Component, Flag, Part
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading, TrackedUnit, UnitDetail
from kwhere.energy.split import DomainSplit
from kwhere.ledger.gpu_uses import Place
from kwhere.ledger.rows import ENERGY_COLUMNS
from kwhere.sampling.gpu_slot import GpuSlot

DYNAMIC_COLUMN = {component: ENERGY_COLUMNS.index((component, Part.DYNAMIC)) for component in Component}
"""Where a component's dynamic energy stands in an account's row; its idle energy stands one further."""


@dataclass(slots=True)
class Sums:
    """Sums that only rise. A slot's figures are the difference of two copies. None: never measured."""

    energy_uj: list[int] = field(default_factory=lambda: [0] * len(ENERGY_COLUMNS))
    cpu_ns: int = 0
    cpu_user_ns: int = 0
    """User and system time as the unit's own directory tells them: only their proportion is used."""
    cpu_system_ns: int = 0
    cpu_allocated_ns: int | None = None
    memory_allocated_byte_ns: int | None = None
    memory_byte_ns: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    io_read_operations: int | None = None
    io_write_operations: int | None = None
    throttled_ns: int | None = None
    gpu_allocated_ns: int | None = None
    """GPU time held: a whole device for a second is one second, a seventh of it a seventh."""
    gpu_busy_ns: int | None = None
    gpu_memory_byte_ns: int | None = None
    gpu_unknown_ns: int | None = None
    """GPU time held of which nobody knows whether it was used."""
    gpu_held_idle_ns: int | None = None
    gpu_held_idle_uj: int | None = None

    def copy(self) -> "Sums":
        """Return a copy that does not move any more."""
        return Sums(
            self.energy_uj[:],
            self.cpu_ns,
            self.cpu_user_ns,
            self.cpu_system_ns,
            self.cpu_allocated_ns,
            self.memory_allocated_byte_ns,
            self.memory_byte_ns,
            self.io_read_bytes,
            self.io_write_bytes,
            self.io_read_operations,
            self.io_write_operations,
            self.throttled_ns,
            self.gpu_allocated_ns,
            self.gpu_busy_ns,
            self.gpu_memory_byte_ns,
            self.gpu_unknown_ns,
            self.gpu_held_idle_ns,
            self.gpu_held_idle_uj,
        )


@dataclass(slots=True)
class Account:
    """One unit run, or `system`, or `unallocated`: its sums, and where they stood when the open slot began."""

    unit: TrackedUnit | None = None
    sums: Sums = field(default_factory=Sums)
    booked: Sums = field(default_factory=Sums)
    flags: set[Flag] = field(default_factory=set)
    """Of the open slot."""
    memory_peak_bytes: int | None = None
    """Of the open slot."""
    gpu_memory_peak_bytes: int | None = None
    """Of the open slot, over all its GPUs."""
    gpus: dict[Place, GpuSlot] = field(default_factory=dict)
    cpu: CpuReading | None = None
    detail: UnitDetail | None = None
    detail_total_ns: int | None = None
    """CPU time as it stood when `detail` was read."""
    ended_ns: int | None = None
    """Boot time at which it was seen to be gone."""
    power_uw: int | None = None
    """Mean over the newest closed slot."""
    shown_user_ns: int = 0
    """User and system time as last shown to a reader: they never fall."""
    shown_system_ns: int = 0
    past_user_ns: int = 0
    """User and system time of lives that ended: a process group comes back under the same run."""
    past_system_ns: int = 0

    def come_back(self) -> None:
        """Begin a new life: its readings count from 0 again, what is shown goes on."""
        user_ns, system_ns = self.shown_modes()
        self.past_user_ns, self.past_system_ns = user_ns or self.past_user_ns, system_ns or self.past_system_ns
        self.ended_ns = self.cpu = self.detail = self.detail_total_ns = None

    def shown_modes(self) -> tuple[int | None, int | None]:
        """Return cumulative user and system time to show, which never fall; None where the kernel does not tell them.

        Where each step reads their sum alone, what came since the last full reading is added in its proportion.
        """
        cpu, detail = self.cpu, self.detail
        if cpu is not None and cpu.user_ns is not None and cpu.system_ns is not None:
            user_ns, system_ns = cpu.user_ns, cpu.system_ns
        elif detail is not None and detail.cpu_user_ns is not None and detail.cpu_system_ns is not None:
            user_ns, system_ns = detail.cpu_user_ns, detail.cpu_system_ns
            known_ns = user_ns + system_ns
            since_ns = cpu.total_ns - self.detail_total_ns if cpu and self.detail_total_ns is not None else 0
            user_ns += since_ns * user_ns // known_ns if known_ns else 0
            system_ns += since_ns * detail.cpu_system_ns // known_ns if known_ns else 0
        else:
            return None, None
        self.shown_user_ns = max(self.shown_user_ns, self.past_user_ns + user_ns)
        self.shown_system_ns = max(self.shown_system_ns, self.past_system_ns + system_ns)
        return self.shown_user_ns, self.shown_system_ns

    def touched(self) -> bool:
        """Return whether the open slot holds anything of it."""
        return self.ended_ns is None or self.sums != self.booked or bool(self.flags)


class Accounts:
    """All accounts of a node. Written by the sampler thread alone."""

    def __init__(self) -> None:
        self.units: dict[UnitKey, Account] = {}
        self.system = Account()
        self.unallocated = Account()
        self.retired_uj: dict[Component, int] = dict.fromkeys(Component, 0)
        """Energy of units whose accounts were put away."""

    def of(self, unit: TrackedUnit) -> Account:
        """Return the unit's account, opened on first use."""
        account = self.units.get(unit.key)
        if account is None:
            account = self.units[unit.key] = Account(unit)
        return account

    def tell(self, unit: TrackedUnit) -> None:
        """Take what has become known of a unit since it ended; the open slot names it once more."""
        account = self.units.get(unit.key)
        if account is not None and account.ended_ns is not None:
            account.unit = unit
            account.flags.add(Flag.ENDED)

    def book(
        self, component: Component, keys: Sequence[UnitKey], split: DomainSplit, *, overcommitted: Sequence[int] = ()
    ) -> None:
        """Add one domain's shares; units at the positions `overcommitted` are flagged so."""
        column = DYNAMIC_COLUMN[component]
        units = self.units
        for key, dynamic_uj, idle_uj in zip(keys, split.dynamic, split.idle, strict=True):
            if dynamic_uj or idle_uj:
                row = (units.get(key) or self._reopened(key)).sums.energy_uj
                row[column] += dynamic_uj
                row[column + 1] += idle_uj
        self.system.sums.energy_uj[column] += split.system_dynamic
        self.system.sums.energy_uj[column + 1] += split.system_idle
        self.unallocated.sums.energy_uj[column + 1] += split.unallocated
        for i in overcommitted:
            (units.get(keys[i]) or self._reopened(keys[i])).flags.add(Flag.OVERCOMMITTED)

    def all(self) -> Iterator[Account]:
        """Yield every account, `system` and `unallocated` last."""
        yield from self.units.values()
        yield self.system
        yield self.unallocated

    def energy_uj(self) -> Mapping[Component, int]:
        """Return everything ever booked, by component."""
        found = dict(self.retired_uj)
        for account in self.all():
            for component, column in DYNAMIC_COLUMN.items():
                found[component] += account.sums.energy_uj[column] + account.sums.energy_uj[column + 1]
        return found

    def retire(self, ended_before_ns: int) -> None:
        """Put away accounts of units that ended before that boot time and owe the open slot nothing."""
        gone = [
            key
            for key, account in self.units.items()
            if account.ended_ns is not None and account.ended_ns < ended_before_ns and not account.touched()
        ]
        for key in gone:
            row = self.units.pop(key).sums.energy_uj
            for component, column in DYNAMIC_COLUMN.items():
                self.retired_uj[component] += row[column] + row[column + 1]

    def rebase(self) -> None:
        """Let energy totals begin at 0 from here on; differences to what is booked stay as they are."""
        for account in self.all():
            sums, booked = account.sums.energy_uj, account.booked.energy_uj
            account.booked.energy_uj = [then - now for now, then in zip(sums, booked, strict=True)]
            account.sums.energy_uj = [0] * len(sums)
        self.retired_uj = dict.fromkeys(Component, 0)

    def _reopened(self, key: UnitKey) -> Account:
        """Return an account for a unit put away before a slow meter spoke of its time."""
        account = self.units[key] = Account(ended_ns=0)
        return account
