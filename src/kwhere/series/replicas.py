"""One series out of several that are the same one: scraped twice, by a pair of servers, or under changing labels."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

Samples = Mapping[float, float]


def one_of(replicas: Sequence[Samples], gap_seconds: float) -> Samples:
    """Return the fullest replica, with what the others have where it has nothing for longer than `gap_seconds`.

    Samples of two are never mixed closely: clocks of scrapers differ, and a counter that seems to fall by a second's
    worth would count as begun anew.
    """
    if len(replicas) == 1:
        return replicas[0]
    ordered = sorted(replicas, key=lambda samples: (-len(samples), min(samples, default=0.0)))
    chosen = dict(ordered[0])
    for other in ordered[1:]:
        chosen.update(_outside(other, sorted(chosen), gap_seconds))
    return chosen


def _outside(other: Samples, times: Sequence[float], gap_seconds: float) -> Samples:
    """Return the samples of `other` that are as far as half a gap from each of `times` on a stretch without any."""
    found: dict[float, float] = {}
    for time, value in other.items():
        at = bisect_right(times, time)
        before = times[at - 1] if at else None
        after = times[at] if at < len(times) else None
        is_open = before is None or after is None or after - before > gap_seconds
        near = gap_seconds / 2
        if is_open and (before is None or time - before >= near) and (after is None or after - time >= near):
            found[time] = value
    return found
