"""How far meters agree: one of the whole node against the components inside it, and two of one thing.

All work on energies by equal windows, joules, None where a meter does not know the whole window: such a window is left
out for all, never taken for 0. A BMC lags and averages over up to a minute, so windows are at least two minutes long.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

LIMIT_RATIO = 0.10
"""Beyond this meters disagree: more than what power supplies lose (5 to 10 %) and meters are off by."""
LEAST_WINDOWS = 3
LEAST_WINDOWS_FOR_SLOPE = 5
LEAST_SWING_RATIO = 0.05
"""A load that varies by less, standard deviation over mean, does not tell how a meter follows it."""
WITHIN_SHARE = 0.9
"""`within ± x` holds for this share of the windows."""


class Verdict(StrEnum):
    """What a meter of the whole node is found to do, the worst first."""

    BELOW_COMPONENTS = "below_components"
    """It shows less than what lies inside it."""
    MISSES_LOAD = "misses_load"
    """It rises by less than the components inside it."""
    UNSTEADY = "unsteady"
    """What it shows beside them swings, and not with their load."""
    AGREES = "agrees"


@dataclass(frozen=True, slots=True)
class Shared:
    """Two meters of one thing, over the windows that both know."""

    reference_joules: float
    other_joules: float
    windows: int

    @property
    def difference_ratio(self) -> float | None:
        """Return by how much the other is above the reference, of the reference; None where that shows nothing."""
        if self.reference_joules <= 0:
            return None
        return (self.other_joules - self.reference_joules) / self.reference_joules


@dataclass(frozen=True, slots=True)
class Residual:
    """A meter of the whole node less the measured components inside it, over the windows that all know."""

    platform_joules: float
    inside_joules: float
    windows: int
    slope_ratio: float | None
    """What the residual rises by per joule of the components; None where their load hardly varied."""
    spread_ratio: float
    """Nine windows of ten lie within this, of the mean window, around the straight line over the components."""

    @property
    def joules(self) -> float:
        """Return what the platform shows beside the components; negative where it shows less than they."""
        return self.platform_joules - self.inside_joules

    @property
    def below_ratio(self) -> float:
        """Return by how much the platform is below its components, of theirs; 0 where it is not."""
        return max(0.0, -self.joules / self.inside_joules) if self.inside_joules > 0 else 0.0

    @property
    def within_ratio(self) -> float:
        """Return the x of "agrees within ± x"."""
        return max(self.spread_ratio, self.below_ratio)

    @property
    def verdict(self) -> Verdict:
        """Return what is found, by `LIMIT_RATIO`."""
        if self.below_ratio > LIMIT_RATIO:
            return Verdict.BELOW_COMPONENTS
        if self.slope_ratio is not None and self.slope_ratio < -LIMIT_RATIO:
            return Verdict.MISSES_LOAD
        return Verdict.UNSTEADY if self.spread_ratio > LIMIT_RATIO else Verdict.AGREES


def total(parts: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """Return the sum of several meters by window; None wherever one of them does not know it, or there is none."""
    return tuple(_sum(window) for window in zip(*parts, strict=True))


def known_windows(tracks: Sequence[Sequence[float | None]]) -> list[tuple[float, ...]]:
    """Return the windows that all of `tracks` know, each with one energy per track."""
    rows = zip(*tracks, strict=True)
    return [row for row in (tuple(v for v in window if v is not None) for window in rows) if len(row) == len(tracks)]


def compare(reference: Sequence[float | None], other: Sequence[float | None]) -> Shared | None:
    """Return both over the windows that both know; None where there are fewer than three."""
    rows = known_windows([reference, other])
    if len(rows) < LEAST_WINDOWS:
        return None
    return Shared(math.fsum(row[0] for row in rows), math.fsum(row[1] for row in rows), len(rows))


def against_components(platform: Sequence[float | None], inside: Sequence[float | None]) -> Residual | None:
    """Return the residual of `platform` over the components `inside` it; None below three windows, or without power.

    Fans and power supplies draw more when components do, so the residual is held against the straight line
    r = a + b·inside (least squares), not against a constant; where the load hardly varied, b is 0.
    """
    rows = known_windows([platform, inside])
    if len(rows) < LEAST_WINDOWS:
        return None
    platforms, insides = [row[0] for row in rows], [row[1] for row in rows]
    mean_platform = math.fsum(platforms) / len(rows)
    if mean_platform <= 0:
        return None
    rests = [whole - part for whole, part in rows]
    slope = _slope(insides, rests)
    off = sorted(abs(error) / mean_platform for error in _errors(insides, rests, slope or 0.0))
    return Residual(
        platform_joules=math.fsum(platforms),
        inside_joules=math.fsum(insides),
        windows=len(rows),
        slope_ratio=slope,
        spread_ratio=off[math.ceil(WITHIN_SHARE * len(off)) - 1],
    )


def idle_share(rests: Sequence[float | None], idle_joules: float) -> tuple[float, float]:
    """Return the idle and the dynamic part of the residual: idle is at most `idle_joules` of each known window."""
    known = [max(0.0, rest) for rest in rests if rest is not None]
    idle = math.fsum(min(rest, idle_joules) for rest in known)
    return idle, math.fsum(known) - idle


def _sum(window: Sequence[float | None]) -> float | None:
    known = [value for value in window if value is not None]
    return math.fsum(known) if len(known) == len(window) else None


def _slope(insides: Sequence[float], rests: Sequence[float]) -> float | None:
    count = len(insides)
    mean_inside, mean_rest = math.fsum(insides) / count, math.fsum(rests) / count
    square = math.fsum((value - mean_inside) ** 2 for value in insides)
    if count < LEAST_WINDOWS_FOR_SLOPE or math.sqrt(square / count) < LEAST_SWING_RATIO * mean_inside or square == 0.0:
        return None
    return math.fsum((x - mean_inside) * (y - mean_rest) for x, y in zip(insides, rests, strict=True)) / square


def _errors(insides: Sequence[float], rests: Sequence[float], slope: float) -> list[float]:
    base = math.fsum(rest - slope * inside for inside, rest in zip(insides, rests, strict=True)) / len(rests)
    return [rest - base - slope * inside for inside, rest in zip(insides, rests, strict=True)]
