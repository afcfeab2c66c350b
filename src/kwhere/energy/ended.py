"""What units that ended between two readings used: the rest that their parent directory kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.energy.apportion import apportion


@dataclass(frozen=True, slots=True)
class EndedUse:
    """A unit that ended: how long it lived since its last reading and how fast it ran before that."""

    lived_ns: int
    rate_cpu_ns: int | None = None
    """CPU time of its last full step; None: never read, taken for one CPU."""
    rate_span_ns: int = 0
    """Length of that step."""


@dataclass(frozen=True, slots=True)
class EndedShares:
    """CPU time of each ended unit, and what goes on as if nobody had ended."""

    units: list[int]
    left: int


def share_ended(rest_ns: int, ended: Sequence[EndedUse], *, cpus: int, parent_is_unit: bool) -> EndedShares:
    """Return `rest_ns` (parent minus live children) shared by rate x time lived, each within what it can have used.

    Within a parent that is a unit itself each gets at most rate x time, for the parent's own work is in the rest too;
    else at most its time on all CPUs. Where all of them stood still before, time lived decides.
    """
    expected = [_expected_ns(use) for use in ended]
    if parent_is_unit:
        caps = expected
    else:
        caps = [use.lived_ns * cpus for use in ended]
        expected = expected if any(expected) else [use.lived_ns for use in ended]
    if rest_ns <= 0 or not any(expected):
        return EndedShares([0] * len(ended), max(0, rest_ns))
    shares = [min(share, cap) for share, cap in zip(apportion(rest_ns, expected), caps, strict=True)]
    return EndedShares(shares, rest_ns - sum(shares))


def _expected_ns(use: EndedUse) -> int:
    if use.rate_cpu_ns is None or use.rate_span_ns <= 0:
        return use.lived_ns
    return use.rate_cpu_ns * use.lived_ns // use.rate_span_ns
