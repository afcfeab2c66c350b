"""Numbers as people read them: three significant digits, one scale per column. Pages and command line share it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NO_DATA = "–"
SMALLEST = 0.001
"""Below this share of a scale's unit a figure is `<0.001`."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How a column is shown: the value in base units divided by `divisor`, with `unit` in the header."""

    unit: str
    divisor: float
    is_natural: bool = False
    """Whether this is the scale of a column of zeros."""

    def text(self, value: float | None) -> str:
        """Return `value` (base units) on this scale, without its unit; `<0.001` for what is next to nothing."""
        return NO_DATA if value is None else figure(value / self.divisor)


def _scales(natural: str, *sizes: tuple[str, float]) -> tuple[Scale, ...]:
    return tuple(Scale(unit, size, unit == natural) for unit, size in sizes)


ENERGY = _scales("Wh", ("MWh", 3.6e9), ("kWh", 3.6e6), ("Wh", 3.6e3), ("mWh", 3.6))
POWER = _scales("W", ("MW", 1e6), ("kW", 1e3), ("W", 1.0), ("mW", 1e-3))
MASS = _scales("g", ("t", 1e6), ("kg", 1e3), ("g", 1.0), ("mg", 1e-3))
BYTES = _scales(
    "B",
    ("EiB", 2.0**60),
    ("PiB", 2.0**50),
    ("TiB", 2.0**40),
    ("GiB", 2.0**30),
    ("MiB", 2.0**20),
    ("KiB", 2.0**10),
    ("B", 1.0),
)
CPU_TIME = _scales("CPU-s", ("CPU-h", 3600.0), ("CPU-s", 1.0))
GPU_TIME = _scales("GPU-s", ("GPU-h", 3600.0), ("GPU-s", 1.0))
FREQUENCY = _scales("GHz", ("GHz", 1e9), ("MHz", 1e6))


def choose_scale(values: Iterable[float | None], scales: tuple[Scale, ...]) -> Scale:
    """Return the scale on which the largest of `values` (base units) is at least 1; the base unit for no data."""
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    if largest == 0.0:
        return next(scale for scale in scales if scale.is_natural)
    return next((scale for scale in scales if largest >= 0.9995 * scale.divisor), scales[-1])


def quantity(value: float | None, scales: tuple[Scale, ...]) -> str:
    """Return one value with its unit, on the scale that suits it alone: `1.24 kWh`."""
    if value is None:
        return NO_DATA
    scale = choose_scale([value], scales)
    return f"{scale.text(value)} {scale.unit}"


def significant(value: float, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits, never in scientific notation below 10^15; 0 is `0`."""
    if not math.isfinite(value):
        return NO_DATA
    if value == 0.0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    decimals = max(0, digits - 1 - exponent)
    if decimals > 9:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{decimals}f}"


def figure(value: float) -> str:
    """Return three significant digits, `<0.001` for what would be a row of zeros; 0 is `0`."""
    if 0 < abs(value) < SMALLEST:
        return f"<{SMALLEST}" if value > 0 else f"-<{SMALLEST}"
    return significant(value)


def share(ratio: float | None) -> str:
    """Return a ratio 0…1 in percent with one decimal: `94.1 %`."""
    return NO_DATA if ratio is None else f"{100 * ratio:.1f} %"


def money_text(amount: float) -> str:
    """Return an amount with two digits behind the point; one under 1 with three significant digits."""
    return f"{amount:,.2f}" if abs(amount) >= 1 or amount == 0 else significant(amount)


def duration(seconds: float | None) -> str:
    """Return seconds as `1-02:03:04`, `02:03:04` or, below a minute, `4.1 s`."""
    if seconds is None:
        return NO_DATA
    if seconds < 60:
        return f"{significant(max(seconds, 0.0))} s"
    return clock(seconds)


def clock(seconds: float) -> str:
    """Return whole seconds as SLURM writes them: `1-02:03:04`, `00:00:07`."""
    days, rest = divmod(round(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    time = f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{days}-{time}" if days else time


def ago(moment: datetime, now: datetime) -> str:
    """Return how long before `now` it was, in the largest unit that fits: `12 min ago`."""
    seconds = (now - moment) / timedelta(seconds=1)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now" if seconds < 5 else f"{int(seconds)} s ago"


def utc_of(time_ns: int) -> datetime:
    """Return Unix nanoseconds as an aware datetime."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // 1000)
