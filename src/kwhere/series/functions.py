"""Rates, alignment, joins and sums over raw series: pure, and the same for every store.

A grid point stands for the step that ends there. Between two neighbours no further apart than `max_gap_seconds` a
counter is taken to grow evenly, so the increases over a grid sum up to the counter's own, whatever the step; between
others nothing is known.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from kwhere.core.timespan import Span
from kwhere.series.store import RawSeries

_MISSED_SCRAPES = 2.5
"""Two scrapes may be missed before a curve breaks."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Points at multiples of `step_seconds` since the Unix epoch: the ends of the steps that lie within a span."""

    first: int
    """Number of the first point; its time is first · step_seconds."""
    count: int
    step_seconds: float

    @property
    def times(self) -> tuple[float, ...]:
        """Return the points as UTC seconds."""
        return tuple((self.first + i) * self.step_seconds for i in range(self.count))


@dataclass(frozen=True, slots=True)
class Column:
    """One value per grid point; None where nothing is known."""

    labels: Mapping[str, str]
    values: tuple[float | None, ...]


class Reduction(StrEnum):
    """What becomes of several samples within one step."""

    LAST = "last"
    MIN = "min"
    MEAN = "mean"
    MAX = "max"


_REDUCTIONS: Mapping[Reduction, Callable[[Sequence[float]], float]] = {
    Reduction.LAST: lambda values: values[-1],
    Reduction.MIN: min,
    Reduction.MEAN: lambda values: math.fsum(values) / len(values),
    Reduction.MAX: max,
}


def grid_of(span: Span, step_seconds: float) -> Grid:
    """Return the whole steps within `span`; a last, unfinished one is left out."""
    first = math.floor(span.start.timestamp() / step_seconds) + 1
    last = math.floor(span.end.timestamp() / step_seconds)
    return Grid(first, max(0, last - first + 1), step_seconds)


def reach_seconds(step_seconds: float, scrape_seconds: float) -> float:
    """Return how far apart two samples of a curve may be and still be neighbours."""
    return step_seconds + _MISSED_SCRAPES * scrape_seconds


def growth(values: Sequence[float]) -> Iterator[float]:
    """Yield what a counter grew by from each value to the next; a fall is a restart from zero."""
    for before, after in pairwise(values):
        yield after - before if after >= before else after


def increase(series: RawSeries, grid: Grid, max_gap_seconds: float) -> Column:
    """Return what a counter grew by in each step, where any of the step is known."""
    return Column(series.labels, tuple(grown for grown, _ in spread(series, grid, max_gap_seconds)))


def rate(series: RawSeries, grid: Grid, max_gap_seconds: float) -> Column:
    """Return a counter's growth per second over the part of each step that is known."""
    found = spread(series, grid, max_gap_seconds)
    return Column(series.labels, tuple(None if grown is None else grown / known for grown, known in found))


def spread(series: RawSeries, grid: Grid, max_gap_seconds: float) -> list[tuple[float | None, float]]:
    """Return growth and known seconds of each step; each pair of neighbours is spread over the steps it touches."""
    grown = [0.0] * grid.count
    known = [0.0] * grid.count
    for (start, end), amount in zip(pairwise(series.times), growth(series.values), strict=True):
        if not 0 < end - start <= max_gap_seconds:
            continue
        for index, seconds in _steps_touched(start, end, grid):
            grown[index] += amount * (seconds / (end - start))
            known[index] += seconds
    return [(g, k) if k > 0 else (None, 0.0) for g, k in zip(grown, known, strict=True)]


def _steps_touched(start: float, end: float, grid: Grid) -> Iterator[tuple[int, float]]:
    """Yield number and seconds of each step that shares time with [start, end]."""
    step = grid.step_seconds
    point = max(math.floor(start / step) + 1, grid.first)
    low = max(start, (point - 1) * step)
    while low < end and point < grid.first + grid.count:
        bound = point * step
        high = bound if bound < end else end
        if high > low:
            yield point - grid.first, high - low
        low = bound
        point += 1


def align(series: RawSeries, grid: Grid, max_age_seconds: float, reduction: Reduction = Reduction.LAST) -> Column:
    """Return a gauge on the grid: its samples within each step, else its last one while that is young enough."""
    reduce = _REDUCTIONS[reduction]
    values: list[float | None] = []
    for point in grid.times:
        low = bisect_right(series.times, point - grid.step_seconds)
        high = bisect_right(series.times, point)
        if high > low:
            values.append(reduce(series.values[low:high]))
        elif high and point - series.times[high - 1] <= max_age_seconds:
            values.append(series.values[high - 1])
        else:
            values.append(None)
    return Column(series.labels, tuple(values))


def sum_by(columns: Sequence[Column], labels: Sequence[str]) -> list[Column]:
    """Return the sums of the columns that agree in `labels`, ordered by them; None only where all are None."""
    return _grouped(columns, labels, math.fsum)


def mean_by(columns: Sequence[Column], labels: Sequence[str]) -> list[Column]:
    """Return the means of the columns that agree in `labels`, ordered by them, over those that are known."""
    return _grouped(columns, labels, _REDUCTIONS[Reduction.MEAN])


def _grouped(
    columns: Sequence[Column], labels: Sequence[str], reduce: Callable[[Sequence[float]], float]
) -> list[Column]:
    groups: dict[tuple[str, ...], list[Column]] = {}
    for column in columns:
        groups.setdefault(tuple(column.labels.get(name, "") for name in labels), []).append(column)
    return [
        Column(dict(zip(labels, key, strict=True)), tuple(_present(row, reduce) for row in _rows(groups[key])))
        for key in sorted(groups)
    ]


def _rows(columns: Sequence[Column]) -> Iterator[tuple[float | None, ...]]:
    return zip(*(column.values for column in columns), strict=True)


def _present(row: Sequence[float | None], reduce: Callable[[Sequence[float]], float]) -> float | None:
    known = [value for value in row if value is not None]
    return reduce(known) if known else None


def join(
    left: Sequence[Column],
    right: Sequence[Column],
    on: Sequence[str],
    combine: Callable[[float, float], float | None],
) -> list[Column]:
    """Return `left` combined with the one column of `right` that agrees in the labels `on`; others fall away.

    Raises ValueError where `right` has two columns of the same labels: a silent choice would be a wrong number.
    """
    partners: dict[tuple[str, ...], Column] = {}
    for column in right:
        key = tuple(column.labels.get(name, "") for name in on)
        if key in partners:
            raise ValueError(f"join: two columns on the right agree in {dict(zip(on, key, strict=True))}")
        partners[key] = column
    joined = []
    for column in left:
        partner = partners.get(tuple(column.labels.get(name, "") for name in on))
        if partner is not None:
            values = tuple(
                None if a is None or b is None else combine(a, b)
                for a, b in zip(column.values, partner.values, strict=True)
            )
            joined.append(Column(column.labels, values))
    return joined


def ratio(numerator: float, denominator: float) -> float | None:
    """Return numerator over denominator; None over zero."""
    return numerator / denominator if denominator else None


def last_per_step(
    times: Sequence[float], values: Sequence[float], step_seconds: float
) -> Iterator[tuple[float, float]]:
    """Yield the last sample of each step (k·step, (k+1)·step] that has one. `times` are in order."""
    start = 0
    while start < len(times):
        end_of_step = math.ceil(times[start] / step_seconds) * step_seconds
        # Rounding may put the end a hair before the sample itself.
        following = max(start + 1, bisect_right(times, end_of_step, start))
        yield times[following - 1], values[following - 1]
        start = following
