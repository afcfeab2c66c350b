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
    else at most its time on all CPUs, and what one cannot have used is the others'. Where all of them stood still
    before, time lived decides.
    """
    expected = [_expected_ns(use) for use in ended]
    if rest_ns <= 0:
        return EndedShares([0] * len(ended), 0)
    if parent_is_unit:
        shares = _fill(rest_ns, expected, expected)
    else:
        most = [use.lived_ns * cpus for use in ended]
        shares = _fill(rest_ns, expected, most)
        room = [cap - share for cap, share in zip(most, shares, strict=True)]
        more = _fill(rest_ns - sum(shares), room, room)
        shares = [share + extra for share, extra in zip(shares, more, strict=True)]
    return EndedShares(shares, rest_ns - sum(shares))


def _fill(amount: int, weights: Sequence[int], caps: Sequence[int]) -> list[int]:
    """Return shares by weight, none above its cap; what stays above goes to those that still have room."""
    shares = [0] * len(weights)
    left = amount
    while left > 0:  # each turn ends it or fills somebody up
        open_weights = [weight if share < cap else 0 for weight, share, cap in zip(weights, shares, caps, strict=True)]
        if not any(open_weights):
            break
        given = apportion(left, open_weights)
        shares = [min(share + more, cap) for share, more, cap in zip(shares, given, caps, strict=True)]
        left = amount - sum(shares)
    return shares


def _expected_ns(use: EndedUse) -> int:
    if use.rate_cpu_ns is None or use.rate_span_ns <= 0:
        return use.lived_ns
    return use.rate_cpu_ns * use.lived_ns // use.rate_span_ns
