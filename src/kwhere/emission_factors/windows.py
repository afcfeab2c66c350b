"""When a job would emit least: the greenest window of a forecast; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Factor

TOLERANCE = 1e-9
"""Means closer than this, relative, are equal: the earlier window is better."""


@dataclass(frozen=True, slots=True)
class Window:
    """A span with the mean factor over it, in grams per kWh."""

    span: Span
    grams_per_kwh: float


def greenest_window(factors: Sequence[Factor], within: Span, length: timedelta) -> Window | None:
    """Return the window of `length` within `within` whose mean factor is least, the earliest of equals.

    `factors` are of one provider, in time order, without overlap. A window lies wholly on factors: a hole is no zero.
    None where none fits. The mean of a window moves on a straight line between edges, so it is least where the window
    begins or ends at one.
    """
    if length <= timedelta(0):
        raise ValueError(f"length: expected more than 0, found {length}")
    edges = {edge for factor in factors for edge in (factor.span.start, factor.span.end)} | {within.start, within.end}
    starts = edges | {edge - length for edge in edges}
    best: Window | None = None
    for start in sorted(start for start in starts if within.start <= start and start + length <= within.end):
        mean = mean_over(factors, Span(start, start + length))
        if mean is not None and (best is None or mean < best.grams_per_kwh * (1 - TOLERANCE)):
            best = Window(Span(start, start + length), mean)
    return best


def mean_over(factors: Sequence[Factor], span: Span) -> float | None:
    """Return the mean factor over `span` by time, in g/kWh; None where some of it has none."""
    weighted, reached = 0.0, span.start
    for factor in factors:
        if factor.span.end <= reached:
            continue
        if factor.span.start > reached:
            return None
        until = min(factor.span.end, span.end)
        weighted += factor.grams_per_kwh * _seconds(reached, until)
        reached = until
        if reached >= span.end:
            return weighted / span.seconds
    return None


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
