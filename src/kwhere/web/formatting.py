"""Figures and times as pages show them: three digits on screen, full precision in the title, `–` with its reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from markupsafe import Markup

from kwhere.core.terms import Component, Part
from kwhere.reports.figures import (
    BYTES,
    CPU_TIME,
    ENERGY,
    FREQUENCY,
    GPU_TIME,
    MASS,
    NO_DATA,
    POWER,
    Scale,
    choose_scale,
    significant,
)

JOULES = (Scale("MJ", 1e6), Scale("kJ", 1e3), Scale("J", 1.0, is_natural=True), Scale("mJ", 1e-3))
NARROW_SPACE = "\u202f"
SCALES: dict[str, tuple[Scale, ...]] = {
    "energy": ENERGY,
    "joules": JOULES,
    "power": POWER,
    "mass": MASS,
    "bytes": BYTES,
    "cpu_time": CPU_TIME,
    "gpu_time": GPU_TIME,
    "frequency": FREQUENCY,
}
"""What templates call a quantity → the scales it may be shown on."""
BASE_UNITS = {
    "energy": "J",
    "joules": "J",
    "power": "W",
    "mass": "g",
    "bytes": "B",
    "cpu_time": "s",
    "gpu_time": "s",
    "frequency": "Hz",
}
SMALLEST = 0.001
"""Below this share of a column's unit a cell says `<0.001`."""
CARBON = " CO₂e"


@dataclass(frozen=True, slots=True)
class Column:
    """How one column of figures is shown."""

    quantity: str
    scale: Scale
    has_data: bool = True

    @property
    def unit(self) -> str:
        """Return the unit for the header; none where no cell holds a figure."""
        return self.scale.unit + (CARBON if self.quantity == "mass" else "") if self.has_data else ""

    def text(self, value: float) -> str:
        """Return a figure on this column's scale, without its unit."""
        return number_text(value / self.scale.divisor)

    def cell(self, value: float | None, reason: str = "not measured") -> Markup:
        """Return a cell: the figure, its full precision in the title; or `–` with the reason it is not there."""
        if value is None:
            return no_data(reason)
        title = f"{full(value)} {BASE_UNITS[self.quantity]}"
        return Markup('<span title="{}">{}</span>').format(title, self.text(value))


def column_of(values: Iterable[float | None], quantity: str) -> Column:
    """Return the one scale on which all of `values` (base units) are shown."""
    known = [value for value in values if value is not None]
    return Column(quantity, choose_scale(known, SCALES[quantity]), bool(known))


def sentence(text: str) -> str:
    """Return words with a capital at their beginning and the rest as it is."""
    return text[:1].upper() + text[1:]


def short_model(model: str) -> str:
    """Return a GPU's model without its maker, for which a column has no room."""
    return model.replace("NVIDIA ", "")


def number_text(value: float) -> str:
    """Return three significant digits, thousands apart, `<0.001` for what would be a row of zeros."""
    if 0 < abs(value) < SMALLEST:
        return f"<{SMALLEST}" if value > 0 else f"-<{SMALLEST}"
    text = significant(value)
    whole, point, decimals = text.partition(".")
    digits = whole.lstrip("-")
    if len(digits) > 4 and digits.isdigit():
        whole = whole[: len(whole) - len(digits)] + f"{int(digits):,}".replace(",", NARROW_SPACE)
    return whole + point + decimals


def full(value: float) -> str:
    """Return a value as precise as it is stored, without an exponent where a person can read it."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.12g}"


def no_data(reason: str) -> Markup:
    """Return `–` that says why."""
    return Markup('<span class="none" title="{0}">{1}<span class="hidden-text"> ({0})</span></span>').format(
        reason, NO_DATA
    )


@dataclass(frozen=True, slots=True)
class Headline:
    """One large figure: number and unit apart, so that the unit can be small."""

    number: str
    unit: str
    title: str


def headline(value: float | None, quantity: str, reason: str = "") -> Headline:
    """Return a figure on the scale that suits it alone."""
    if value is None:
        return Headline(NO_DATA, "", reason)
    column = column_of([value], quantity)
    title = f"{full(value)} {BASE_UNITS[quantity]}"
    return Headline(number_text(value / column.scale.divisor), column.unit, title)


def percent(ratio: float | None) -> str:
    """Return a share: `94 %`; one decimal under 10 % (0 is `0.0 %`) and from 99 %; never rounded to nothing or all."""
    if ratio is None:
        return NO_DATA
    value = 100 * ratio
    if 0 < value < 0.1:
        return "<0.1 %"
    if 99 <= value < 100:
        return f"{min(round(value, 1), 99.9):.1f} %"
    return f"{value:.1f} %" if 0 <= value < 9.95 else f"{value:.0f} %"


def length(seconds: float | None) -> str:
    """Return a duration in its two largest units: `6 h 12 min`, `3 d 4 h`, `41 s`."""
    if seconds is None:
        return NO_DATA
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


TIME_PATTERNS = {"minutes": "%Y-%m-%d %H:%M", "seconds": "%Y-%m-%d %H:%M:%S", "short": "%m-%d %H:%M"}
"""How precise a time is shown; the page's script knows the same words."""


def clock_text(moment: datetime, zone: ZoneInfo, kind: str = "minutes") -> str:
    """Return a moment in the site's zone: `2026-11-29 19:00`."""
    return moment.astimezone(zone).strftime(TIME_PATTERNS[kind])


def time_tag(moment: datetime | None, zone: ZoneInfo, kind: str = "minutes", reason: str = "not known") -> Markup:
    """Return a `<time>` in the site's zone, UTC in its title."""
    if moment is None:
        return no_data(reason)
    utc = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{0}" title="{0}" data-absolute="{1}">{2}</time>').format(
        utc, kind, clock_text(moment, zone, kind)
    )


def recent_time_tag(moment: datetime | None, zone: ZoneInfo, now: datetime) -> Markup:
    """Return a `<time>` without its year where it is not longer ago than 300 days: for tables."""
    is_recent = moment is not None and timedelta(0) <= now - moment < timedelta(days=300)
    return time_tag(moment, zone, "short" if is_recent else "minutes")


def ago_tag(moment: datetime | None, now: datetime, reason: str = "never") -> Markup:
    """Return how long ago it was; the page's script keeps it running."""
    if moment is None:
        return no_data(reason)
    utc = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{0}" title="{0}" data-relative>{1}</time>').format(utc, ago_text(moment, now))


def ago_text(moment: datetime, now: datetime) -> str:
    """Return `now`, `12 s ago`, `3 min ago`, … as the page's script writes it."""
    seconds = (now - moment) / timedelta(seconds=1)
    if seconds < 1.5:
        return "now"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{round(seconds / size)} {unit} ago"
    return f"{round(seconds / 86400)} d ago"


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A piece of a stacked bar, in percent of its width."""

    css_class: str
    start: float
    width: float
    title: str


def bar_pieces(amounts: Sequence[tuple[str, str, float | None]], whole: float) -> list[BarPiece]:
    """Return the pieces of (class, title, amount) against `whole`; what is not measured or 0 has none."""
    pieces: list[BarPiece] = []
    start = 0.0
    if whole <= 0:
        return pieces
    for css_class, title, amount in amounts:
        if amount is None or amount <= 0:
            continue
        width = min(100.0 * amount / whole, 100.0 - start)
        pieces.append(BarPiece(css_class, round(start, 3), round(width, 3), title))
        start += width
    return pieces


def fill_of(component: Component | str, part: Part | str) -> str:
    """Return the class of a component's colour; its idle part is hatched."""
    return f"fill-{component}-idle" if part == Part.IDLE else f"fill-{component}"
