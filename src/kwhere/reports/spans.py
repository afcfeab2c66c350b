"""Spans as people and scripts write them: `24h`, ISO 8601, Unix seconds."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from kwhere.core.iso_week import IsoWeek
from kwhere.core.timespan import Span

_DURATION = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w)", re.ASCII)
_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SiteWeek:
    """A week as the site has it."""

    week: IsoWeek
    span: Span
    zone: ZoneInfo


def parse_week(text: str, time_zone: str) -> SiteWeek:
    """Return the ISO week of `2026-W53` in a time zone. Raises ValueError."""
    week, zone = IsoWeek.parse(text), ZoneInfo(time_zone)
    if not _FIRST.year < week.year < _LAST.year:
        raise ValueError(f"expected a week of the years {_FIRST.year + 1} to {_LAST.year - 1}, found {text}")
    return SiteWeek(week, week.span(zone), zone)


def parse_duration(text: str) -> timedelta:
    """Return the length of `15min`, `1h`, `7d`, `2w` or `90s`. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if not match or match[1].strip("0") == "":
        raise ValueError(f"expected a length such as 15min, 1h or 7d, found {text!r}")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def parse_moment(text: str, now: datetime) -> datetime:
    """Return the instant of `now`, `-1h`, Unix seconds or ISO 8601 (else UTC). Raises ValueError."""
    text = text.strip()
    if text == "now":
        return now
    if text.startswith("-"):
        return now - parse_duration(text[1:])
    moment = _from_seconds(text) or _from_iso(text)
    if moment is None or not _FIRST <= moment <= _LAST:
        raise ValueError(f"expected ISO 8601, Unix seconds, `now` or a length back such as -1h, found {text!r}")
    return moment


def parse_span(start: str | None, end: str | None, now: datetime, default: timedelta | None) -> Span | None:
    """Return [start, end); a missing end is `now`, a missing start `default` before the end. Raises ValueError.

    Without both and without a default: None.
    """
    if start is None and end is None and default is None:
        return None
    until = parse_moment(end, now) if end else now
    since = parse_moment(start, now) if start else until - default if default else _FIRST
    if since >= until:
        raise ValueError(f"expected `from` before `to`, found {since.isoformat()} and {until.isoformat()}")
    return Span(since, until)


def _from_seconds(text: str) -> datetime | None:
    try:
        return _FIRST + timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        return None


def _from_iso(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+") if text.count(" ") and "T" in text else text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
