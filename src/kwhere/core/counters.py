"""Arithmetic of counters that wrap, stall, jump and restart. Every function is pure."""

from dataclasses import dataclass
from enum import StrEnum

from kwhere.core.quantities import NANOSECONDS_PER_SECOND

UPDATE_SLACK_NS = 50_000_000
"""Counters move in ticks, and a reader may sleep between clock and counter: P_max over this much more time."""


class GapCause(StrEnum):
    """Why an interval adds no energy; label `cause` of `kwhere_energy_gaps_total`."""

    AMBIGUOUS = "ambiguous"
    """The counter may have turned more than once."""
    RESET = "reset"
    """It fell in a way that no wrap explains: driver reload, kexec, another physical counter."""
    IMPLAUSIBLE = "implausible"
    """It rose by more than the largest plausible power."""
    SUSPEND = "suspend"
    """The machine slept in between."""
    STALE = "stale"
    """Two samples of a power reading lie further apart than the hold time."""
    EPOCH = "epoch"
    """The counter is another one than before: a guest's feed after a migration or a new start of its host's agent."""
    LATE = "late"
    """A component inside the platform meter has no valid delta over the platform's span."""


def unwrap(
    previous: int, current: int, *, modulus: int | None, elapsed_ns: int, p_max_uw: int | None
) -> int | GapCause:
    """Return the microjoules from `previous` to `current`, one turn of `modulus` at most, or why they are not known.

    `modulus` None: the counter never wraps. `p_max_uw` None: any power is plausible.
    """
    if p_max_uw is not None and modulus is not None and elapsed_ns * p_max_uw > modulus * NANOSECONDS_PER_SECOND:
        return GapCause.AMBIGUOUS
    delta = current - previous
    fell = delta < 0
    if fell:
        if modulus is None or modulus <= previous:
            return GapCause.RESET
        delta += modulus
    if p_max_uw is not None and delta * NANOSECONDS_PER_SECOND > p_max_uw * (elapsed_ns + UPDATE_SLACK_NS):
        return GapCause.RESET if fell else GapCause.IMPLAUSIBLE
    return delta


def modulus_of(range_uj: int | None, reading_uj: int) -> int | None:
    """Return `max_energy_range_uj` plus one hardware unit; None where the range is missing, 0 or below the reading.

    The range is (2^32 - 1) units, cut to whole microjoules (kernel: intel_rapl_common.c), so the counter returns to 0
    one unit later.
    """
    if not range_uj or range_uj < reading_uj:
        return None
    return range_uj + round(range_uj / (2**32 - 1))


def nonnegative_delta(previous: int, current: int) -> int:
    """Return how far a kernel time rose; 0 where it fell (proc(5): iowait, and others after hotplug, may)."""
    return max(0, current - previous)


def capped_delta(delta_ns: int, elapsed_ns: int, cpus: int) -> int:
    """Return the CPU time of a unit's first step: at most all CPUs for the time that passed."""
    return max(0, min(delta_ns, elapsed_ns * cpus))


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a whole after its parts; `carry` (never positive) goes into the next step."""

    amount: int
    carry: int


def rest(whole: int, parts: int, carry: int) -> Rest:
    """Return `whole` - `parts` + `carry` as a non-negative amount and the debt that stays.

    Files read one after another never agree to the nanosecond: a negative rest is owed by the next step, not dropped.
    """
    left = whole - parts + carry
    return Rest(max(0, left), min(0, left))
