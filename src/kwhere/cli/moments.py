"""Times as sacct's users type them: `today`, `now-7days`, `7d`, `14:30`, `10/25`, `2026-10-25T02:30`, `@1764000000`."""

import re
from datetime import UTC, datetime, time, timedelta

from kwhere.core.errors import ConfigError

_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_UNITS |= {"m": 60, "w": 604800, "week": 604800}
_LENGTH = re.compile(r"(\d{1,9})\s*(s|[a-z]*?)s?", re.ASCII)
_RELATIVE = re.compile(r"now\s*(?:([+-])\s*(.+))?")
_EPOCH = re.compile(r"@?(\d{9,11}(?:\.\d{1,9})?)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?", re.ASCII)
_DATE = re.compile(r"(\d{1,2})[/.](\d{1,2})(?:[/.](\d{2}|\d{4}))?", re.ASCII)
_PACKED = re.compile(r"(\d{2})(\d{2})(\d{2})?", re.ASCII)
_TIMES = {"midnight": time(), "noon": time(12), "elevenses": time(11), "fika": time(15), "teatime": time(16)}
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
EXPECTED = "expected e.g. today, now-7days, 14:30, 2026-10-25, 2026-10-25T02:30 or @1764000000"


def parse_moment(text: str, now: datetime | None = None) -> str:
    """Return `text` as ISO 8601 in UTC; what names no offset is in the system's zone. Raises ConfigError.

    As with sacct: a time alone is of today, a date alone begins at midnight, a date without a year is of this one, and
    a number after `now` counts seconds.
    """
    present = now or datetime.now(UTC)
    word = text.strip().lower()
    try:
        moment = _instant(word, present) or _local(word, present).astimezone()
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        raise ConfigError(f"time {text[:60]!r}: {EXPECTED}") from None


def _instant(word: str, present: datetime) -> datetime | None:
    """Return what does not depend on a time zone: lengths from now, seconds since 1970."""
    if found := _RELATIVE.fullmatch(word):
        sign = -1 if found[1] == "-" else 1
        return present + sign * _length(found[2]) if found[2] else present
    if found := _EPOCH.fullmatch(word):
        return datetime.fromtimestamp(float(found[1]), UTC)
    ago = _LENGTH.fullmatch(word.removeprefix("-"))
    if ago and ago[2]:
        return present - _length(ago[0])
    return None


def _length(word: str) -> timedelta:
    found = _LENGTH.fullmatch(word)
    if found is None or (found[2] and found[2] not in _UNITS):
        raise ValueError(word)
    return timedelta(seconds=int(found[1]) * (_UNITS[found[2]] if found[2] else 1))


def _local(word: str, present: datetime) -> datetime:
    """Return what a person means by their own clock; naive, but for an ISO time with its offset."""
    today = present.astimezone().date()
    day, separator, clock = word.partition("-") if "/" in word or "." in word.partition("-")[0] else (word, "", "")
    if word in _DAYS:
        return datetime.combine(today + timedelta(days=_DAYS[word]), time())
    if (alone := _time(word)) is not None:
        return datetime.combine(today, alone)
    found = _DATE.fullmatch(day) or _PACKED.fullmatch(day)
    if found is None:
        return datetime.fromisoformat(word.upper())
    at = _time(clock) if separator else time()
    if at is None:
        raise ValueError(word)
    year = today.year if found[3] is None else int(found[3]) + (2000 if len(found[3]) == 2 else 0)
    return datetime.combine(datetime(year, int(found[1]), int(found[2])), at)  # noqa: DTZ001 - local, as people mean it


def _time(word: str) -> time | None:
    if word in _TIMES:
        return _TIMES[word]
    found = _CLOCK.fullmatch(word)
    if found is None:
        return None
    hour = int(found[1])
    if found[4] is not None:
        if not 1 <= hour <= 12:
            raise ValueError(word)
        hour = hour % 12 + (12 if found[4] == "pm" else 0)
    return time(hour, int(found[2]), int(found[3] or 0))
