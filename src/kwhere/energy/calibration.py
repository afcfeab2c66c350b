"""Fits the model's two figures, idle power and watts per busy CPU, to what a real meter showed under known load."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from kwhere.core.errors import SourceError
from kwhere.core.quantities import MICROJOULES_PER_JOULE, NANOSECONDS_PER_SECOND

FORMAT = 1
FEWEST_POINTS = 2
LEAST_UNCERTAINTY_RATIO = 0.05
"""No calibration is better than its meter, and no work is quite like ours."""
HAND_UNCERTAINTY_RATIO = 0.15
"""Watts that a person read from a plug meter: two or three readings of a figure that moves. Our estimate."""
LEAST_RISE_RATIO = 0.02
"""A meter whose power rises by less than this from idle to full load does not see the CPUs."""
_T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Student's t, two-sided 95 %, for 1 to 10 degrees of freedom."""
_T_95_MANY = 2.1
_LARGEST_WATTS = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Mark:
    """The moment of a fresh reading: energy and busy time so far, from any beginning."""

    time_ns: int
    energy_uj: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """Mean power and mean number of busy CPUs over some seconds, which are its weight."""

    busy_cpus: float
    watts: float
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """watts = idle_watts + watts_per_cpu x busy CPUs. Errors are half widths of the 95 % interval."""

    idle_watts: float
    watts_per_cpu: float
    idle_error_watts: float | None
    """None with two points: a line through them has no error to show."""
    slope_error_watts: float | None
    r_squared: float | None
    """Share of the variance that the line explains; None where power never changed, or with two points."""
    residual_watts: float
    """Root mean square of what is left."""

    def watts(self, busy_cpus: float) -> float:
        """Return the line's watts at so many busy CPUs."""
        return self.idle_watts + self.watts_per_cpu * busy_cpus


class Scope(StrEnum):
    """What the meter saw of the node."""

    CPU = "cpu"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration file holds: figures of the whole node, and of which machine they are."""

    source: str
    """The meter: `powercap`, `redfish`, …, or `hand`."""
    scope: Scope
    cpu_model: str
    sockets: int
    cpus: int
    idle_watts: float
    watts_per_cpu: float
    uncertainty_ratio: float
    measured_utc: str
    """ISO 8601."""
    dram_idle_watts: float | None = None
    """Of all memory, where the meter shows it by itself."""
    r_squared: float | None = None
    residual_watts: float | None = None

    def misfit(self, cpu_model: str, sockets: int, cpus: int) -> str:
        """Return why this is not of that machine; empty where it is."""
        ours = f"{cpus} CPUs of {cpu_model or 'unknown'} on {sockets} socket(s)"
        theirs = f"{self.cpus} CPUs of {self.cpu_model or 'unknown'} on {self.sockets} socket(s)"
        return "" if ours == theirs else f"is of {theirs}, this machine has {ours}"

    def to_json(self) -> str:
        """Return the file's text."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def points_between(marks: Sequence[Mark], begin_ns: int, end_ns: int, window_ns: int) -> list[PowerPoint]:
    """Return mean power over consecutive windows of at least `window_ns` between fresh readings within the span."""
    inside = [mark for mark in marks if begin_ns <= mark.time_ns <= end_ns]
    points: list[PowerPoint] = []
    first = inside[0] if inside else None
    for mark in inside:
        if first is not None and mark.time_ns - first.time_ns >= max(1, window_ns):
            points.append(_point(first, mark))
            first = mark
    return points


def fit_power(points: Sequence[PowerPoint]) -> Fit:
    """Return the line of least squares, weighted by time. Raises ValueError where load never changed."""
    weight = sum(point.seconds for point in points)
    if len(points) < FEWEST_POINTS or weight <= 0:
        raise ValueError(f"fit: expected at least {FEWEST_POINTS} points, found {len(points)}")
    mean_busy = sum(point.busy_cpus * point.seconds for point in points) / weight
    mean_watts = sum(point.watts * point.seconds for point in points) / weight
    spread = sum(point.seconds * (point.busy_cpus - mean_busy) ** 2 for point in points)
    if spread <= 1e-9 * weight:
        raise ValueError("fit: expected different loads, found one")
    together = sum(point.seconds * (point.busy_cpus - mean_busy) * (point.watts - mean_watts) for point in points)
    slope = together / spread
    idle = mean_watts - slope * mean_busy
    left = sum(point.seconds * (point.watts - idle - slope * point.busy_cpus) ** 2 for point in points)
    whole = sum(point.seconds * (point.watts - mean_watts) ** 2 for point in points)
    freedom = len(points) - 2
    variance = left / weight * len(points) / freedom if freedom else None
    return Fit(
        idle_watts=idle,
        watts_per_cpu=slope,
        idle_error_watts=_half_width(variance, freedom, 1 / len(points) + mean_busy**2 * weight / spread / len(points)),
        slope_error_watts=_half_width(variance, freedom, weight / spread / len(points)),
        r_squared=1 - left / whole if whole > 0 and freedom else None,
        residual_watts=math.sqrt(left / weight),
    )


def objection(fit: Fit, cpus: int) -> str:
    """Return why a fit must not be used; empty where nothing speaks against it."""
    rise = fit.watts_per_cpu * cpus
    if fit.idle_watts <= 0:
        return f"idle power comes out as {fit.idle_watts:.1f} W"
    if rise < LEAST_RISE_RATIO * fit.idle_watts or fit.watts_per_cpu <= (fit.slope_error_watts or 0.0):
        return f"the meter does not move with load: {fit.idle_watts:.1f} W idle, full load adds {rise:+.1f} W"
    return ""


def uncertainty_ratio(fit: Fit, cpus: int) -> float:
    """Return twice the residual over the power at half load, at least what a meter itself may be off."""
    half_load = fit.watts(cpus / 2)
    return max(LEAST_UNCERTAINTY_RATIO, 2 * fit.residual_watts / half_load if half_load > 0 else 1.0)


def parse_calibration(text: str, place: str) -> Calibration:
    """Return what a calibration file says. Raises SourceError that names `place`."""
    try:
        record = json.loads(text)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ValueError(f"format {FORMAT} is what this version reads")
        return _from_record(record)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError(f"{place}: expected what `kwhere calibrate` writes, found {error!r}") from None


def _point(first: Mark, last: Mark) -> PowerPoint:
    span_ns = last.time_ns - first.time_ns
    seconds = span_ns / NANOSECONDS_PER_SECOND
    watts = (last.energy_uj - first.energy_uj) / MICROJOULES_PER_JOULE / seconds
    return PowerPoint((last.busy_ns - first.busy_ns) / span_ns, watts, seconds)


def _half_width(variance: float | None, freedom: int, factor: float) -> float | None:
    if variance is None:
        return None
    t = _T_95[freedom - 1] if freedom <= len(_T_95) else _T_95_MANY
    return t * math.sqrt(max(0.0, variance * factor))


def _from_record(record: Mapping[str, object]) -> Calibration:
    return Calibration(
        source=_text(record["source"]),
        scope=Scope(_text(record["scope"])),
        cpu_model=_text(record["cpu_model"]),
        sockets=_count(record["sockets"]),
        cpus=_count(record["cpus"]),
        idle_watts=_positive(record["idle_watts"]),
        watts_per_cpu=_positive(record["watts_per_cpu"]),
        uncertainty_ratio=_positive(record["uncertainty_ratio"]),
        measured_utc=_text(record["measured_utc"]),
        dram_idle_watts=_optional(record.get("dram_idle_watts")),
        r_squared=_optional(record.get("r_squared")),
        residual_watts=_optional(record.get("residual_watts")),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise ValueError(f"a text was expected, not {str(value)[:40]!r}")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1_000_000:
        raise ValueError(f"a count was expected, not {str(value)[:40]!r}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"a number was expected, not {str(value)[:40]!r}")
    if not abs(value) <= _LARGEST_WATTS:  # also says no to NaN
        raise ValueError("a number was expected, found one beyond all reason")
    return float(value)


def _positive(value: object) -> float:
    number = _number(value)
    if number <= 0:
        raise ValueError(f"more than 0 was expected, not {number}")
    return number


def _optional(value: object) -> float | None:
    return None if value is None else _number(value)
