"""What a counter grew by in whole windows: for comparing meters that refresh at different times.

A slow meter's counter stands still between its answers and then jumps, so its growth is spread over the time between
two changes, not between two samples. A window that is not known from edge to edge is None.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

from kwhere.series.functions import Grid, spread
from kwhere.series.store import RawSeries

_WHOLE = 0.999
"""Share of a window that has to be known; the rest is rounding."""


def whole_windows(series: RawSeries, grid: Grid, max_gap_seconds: float) -> tuple[float | None, ...]:
    """Return the growth in each window; None where samples lie further apart than `max_gap_seconds`, or end."""
    grown: list[float | None] = [None] * grid.count
    for piece in _pieces(series, max_gap_seconds):
        for at, (amount, seconds) in enumerate(spread(_changes(piece), grid, float("inf"))):
            if amount is not None and seconds >= _WHOLE * grid.step_seconds:
                grown[at] = amount
    return tuple(grown)


def gap_windows(gap_seconds: RawSeries, grid: Grid) -> frozenset[int]:
    """Return the windows in which gaps lie, by a counter of their seconds: it grows when a gap is over."""
    found: set[int] = set()
    values = gap_seconds.values
    for (before_s, at_s), (before, after) in zip(pairwise(gap_seconds.times), pairwise(values), strict=True):
        seconds = after - before if after >= before else after
        if seconds > 0:
            found |= _between(min(before_s, at_s - seconds), at_s, grid)
    return frozenset(found)


def down_windows(up: RawSeries, grid: Grid) -> frozenset[int]:
    """Return the windows with a sample that says 0: the source could not be read."""
    downs = (time for time, value in zip(up.times, up.values, strict=True) if value == 0)
    return frozenset(index for time in downs for index in _between(time, time, grid))


def _pieces(series: RawSeries, max_gap_seconds: float) -> Iterator[RawSeries]:
    """Yield the stretches without a gap; a fall is a restart, of which nobody knows when in between it was."""
    start = 0
    for at in range(1, len(series.times) + 1):
        ends = at == len(series.times) or series.times[at] - series.times[at - 1] > max_gap_seconds
        if ends or series.values[at] < series.values[at - 1]:
            yield RawSeries(series.labels, series.times[start:at], series.values[start:at])
            start = at


def _changes(piece: RawSeries) -> RawSeries:
    """Return the samples at which the counter had moved; the first sample may lie anywhere between two."""
    kept = [at for at in range(1, len(piece.times)) if piece.values[at] != piece.values[at - 1]]
    return RawSeries(piece.labels, tuple(piece.times[i] for i in kept), tuple(piece.values[i] for i in kept))


def _between(start_s: float, end_s: float, grid: Grid) -> set[int]:
    """Return the windows that share time with [start, end]."""
    last = math.ceil(end_s / grid.step_seconds)
    first = min(math.floor(start_s / grid.step_seconds) + 1, last)
    return set(range(max(0, first - grid.first), min(grid.count, last + 1 - grid.first)))
