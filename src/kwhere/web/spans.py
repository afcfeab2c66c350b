"""The span a page shows: chips for the usual ones, `from` and `to` for any other; the URL holds it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from kwhere.core.timespan import Span
from kwhere.reports.spans import parse_duration, parse_span

CHIPS: Mapping[str, str] = {"15min": "15 min", "1h": "1 h", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
CHART_STEPS_SECONDS: Sequence[tuple[float, float]] = (
    (3600, 10),
    (6 * 3600, 60),
    (48 * 3600, 300),
    (8 * 86400, 1800),
    (32 * 86400, 7200),
)
"""Spans up to so long → a chart's step, seconds."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One choice: a link that keeps every other filter."""

    text: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class SpanChoice:
    """What is shown, how it was asked for, and what else may be."""

    span: Span
    name: str
    chips: Sequence[Chip]
    start_text: str
    end_text: str
    """For the custom form, in the site's zone."""
    others: Sequence[tuple[str, str]]
    """Every other filter of the URL, for forms."""

    @property
    def text(self) -> str:
        """Return the span in words: `last 1 h`."""
        return f"last {_spaced(self.name)}" if self.name else "custom span"

    @property
    def live_query(self) -> str:
        """Return the query that shows the same filters with a span that moves along."""
        named = [("span", self.name)] if self.name else list(self.query.items())
        return urlencode([*self.others, *named])

    @property
    def query(self) -> dict[str, str]:
        """Return the parameters that name this span again."""
        return {"from": self.span.start.isoformat(), "to": self.span.end.isoformat()}


def _spaced(name: str) -> str:
    """Return the name of a span with a space before each unit: `90 d`, `1 h 30 min`."""
    return CHIPS.get(name) or re.sub(r"(\d)([a-z])", r"\1 \2", name)


def choose_span(path: str, params: Mapping[str, str], now: datetime, zone: ZoneInfo, default: str = "1h") -> SpanChoice:
    """Return the span of a URL. Raises ValueError for one that cannot be read."""
    name = "" if params.get("from") or params.get("to") else params.get("span") or default
    span = _named(name, now) if name else _custom(params, now, zone)
    others = [(key, value) for key, value in params.items() if key not in ("span", "from", "to", "after")]
    chips = [Chip(text, f"{path}?{urlencode([*others, ('span', key)])}", key == name) for key, text in CHIPS.items()]
    return SpanChoice(span, name, chips, _local(span.start, zone), _local(span.end, zone), others)


def chart_step(span: Span) -> float:
    """Return the step of a chart over `span`, seconds."""
    return next((step for limit, step in CHART_STEPS_SECONDS if span.seconds <= limit), 86400)


SHORTEST = timedelta(minutes=2)
"""A chart is at least that long."""


def is_chosen(params: Mapping[str, str]) -> bool:
    """Return whether the URL names a span."""
    return any(params.get(key) for key in ("span", "from", "to"))


def span_with_data(span: Span, first: datetime | None) -> Span:
    """Return the part of `span` from `first` on where that is less than a third: a new account is not a sliver."""
    if first is None or span.end - first > (span.end - span.start) / 3:
        return span
    return Span(max(span.start, min(first, span.end - SHORTEST)), span.end)


def _named(name: str, now: datetime) -> Span:
    return Span(now - parse_duration(name), now)


def _custom(params: Mapping[str, str], now: datetime, zone: ZoneInfo) -> Span:
    start, end = (_with_zone(params.get(key), zone) for key in ("from", "to"))
    span = parse_span(start, end, now, timedelta(hours=1))
    assert span is not None
    return span


def _with_zone(text: str | None, zone: ZoneInfo) -> str | None:
    """A browser's date field names no zone; it means the site's."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return moment.replace(tzinfo=zone).isoformat() if moment.tzinfo is None else moment.isoformat()


def _local(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%dT%H:%M")
