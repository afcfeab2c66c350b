"""The open slot: when it ends, at what wall time, and what it becomes."""

from dataclasses import dataclass, field

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Flag
from kwhere.ledger.rows import Slot
from kwhere.sampling.accounts import Account, Accounts
from kwhere.sampling.control import ControlSums
from kwhere.sampling.entries import entries

CLOCK_TOLERANCE_NS = NANOSECONDS_PER_SECOND
"""Wall and monotonic clock may differ by this much within a slot."""


@dataclass(slots=True)
class OpenSlot:
    """A slot under way."""

    start_utc_ns: int
    start_monotonic_ns: int
    flags: set[Flag] = field(default_factory=set)
    node_user_ns: int = 0
    node_busy_ns: int = 0

    def length_ns(self, monotonic_ns: int) -> int:
        """Return how long it has been open by the monotonic clock."""
        return monotonic_ns - self.start_monotonic_ns

    def clock_stepped(self, utc_ns: int, monotonic_ns: int) -> bool:
        """Return whether the wall clock moved by more than a second against the monotonic one."""
        drift_ns = utc_ns - self.start_utc_ns - self.length_ns(monotonic_ns)
        return abs(drift_ns) > CLOCK_TOLERANCE_NS

    def end_utc_ns(self, utc_ns: int, monotonic_ns: int) -> int:
        """Return the wall time of its end: the clock's, or the monotonic length's where the clock stepped."""
        if self.clock_stepped(utc_ns, monotonic_ns) or utc_ns <= self.start_utc_ns:
            return self.start_utc_ns + self.length_ns(monotonic_ns)
        return utc_ns


def close(
    slot: OpenSlot, seq: int, accounts: Accounts, control: ControlSums, *, utc_ns: int, monotonic_ns: int
) -> Slot:
    """Return the slot as it is booked: nothing is moved yet, so that it can be kept open where it cannot be written."""
    controls = control.open()
    flags = set(slot.flags)
    if slot.clock_stepped(utc_ns, monotonic_ns):
        flags.add(Flag.CLOCK)
    end_ns = slot.end_utc_ns(utc_ns, monotonic_ns)
    return Slot(
        seq=seq,
        start_ns=slot.start_utc_ns,
        end_ns=end_ns,
        monotonic_ns=slot.length_ns(monotonic_ns),
        controls=controls,
        entries=entries(
            accounts, {line.component for line in controls}, slot.node_user_ns, to_utc_ns=end_ns - monotonic_ns
        ),
        node_busy_ns=slot.node_busy_ns,
        flags=frozenset(flags),
    )


def settle(accounts: Accounts, control: ControlSums, length_ns: int) -> None:
    """Start the next slot's sums: the last one is durable. Powers become the means of the slot that closed."""
    for account in accounts.all():
        _settle(account, length_ns)
    control.start_slot()


def _settle(account: Account, length_ns: int) -> None:
    used_uj = sum(account.sums.energy_uj) - sum(account.booked.energy_uj)
    account.power_uw = used_uj * NANOSECONDS_PER_SECOND // length_ns if length_ns > 0 else None
    account.booked = account.sums.copy()
    account.flags.clear()
    account.memory_peak_bytes = account.gpu_memory_peak_bytes = None
    account.gpus.clear()
