"""Times as sacct's users type them: `today`, `now-7days`, `7d`, `2026-10-25`, `2026-10-25T02:30:00+02:00`."""

import re
from datetime import UTC, datetime, timedelta

from kwhere.core.errors import ConfigError

_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_UNITS |= {"w": 604800, "week": 604800}
_RELATIVE = re.compile(r"(?:now)?-?(\d+)([a-z]+?)s?")


def parse_moment(text: str, now: datetime | None = None) -> str:
    """Return `text` as ISO 8601 in UTC; times without an offset are in the system's zone. Raises ConfigError."""
    present = (now or datetime.now(UTC)).astimezone()
    word = text.strip().lower()
    if word == "now":
        moment = present
    elif word in ("today", "midnight"):
        moment = present.replace(hour=0, minute=0, second=0, microsecond=0)
    elif (match := _RELATIVE.fullmatch(word)) and match[2] in _UNITS:
        moment = present - timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    else:
        moment = _absolute(text)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _absolute(text: str) -> datetime:
    for form in ("%m/%d/%y", "%m/%d/%Y"):
        try:
            return datetime.strptime(text, form).astimezone()
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ConfigError(f"time {text!r}: expected e.g. today, now-7days, 2026-10-25 or 2026-10-25T02:30") from None
