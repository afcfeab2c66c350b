"""Single values as OAR's four dialects write them: ids, times, lengths, lists. What cannot be read is None."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from kwhere.core.errors import SourceError

_DIGITS = re.compile(r"[0-9]{1,18}")
_LOCAL = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})[ T]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?")
_LENGTH = re.compile(r"([0-9]{1,9}):([0-9]{1,2}):([0-9]{1,2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)
_KEPT_FAULTS = 5


@dataclass(slots=True)
class Faults:
    """Records that could not be read: how many, and what the first ones were."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, fault: str) -> None:
        """Count one record."""
        self.count += 1
        if len(self.first) < _KEPT_FAULTS:
            self.first.append(fault)


def decode(body: bytes, place: str) -> object:
    """Return the JSON of an answer in UTF-8, else in ISO 8859-1, which OAR 2 also sends. Raises SourceError."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = body.decode("latin-1")
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{place}: expected JSON, found {text.strip()[:80]!r}") from error
    return document


def first_of(record: Mapping[str, object], names: Iterable[str]) -> object:
    """Return the first value there is: each dialect has its own name for one thing."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def parse_id(value: object) -> str | None:
    """Return a positive whole number as text, whether it came as a number or as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return str(int(value)) if _DIGITS.fullmatch(value) and value.isascii() and int(value) > 0 else None
    return str(value) if isinstance(value, int) and 0 < value < 10**18 else None


def parse_number(value: object) -> float | None:
    """Return a finite number from a number or its text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def parse_time(value: object, zone: ZoneInfo | None) -> datetime | None:
    """Return an instant from epoch seconds, or from local text if `zone` says where; 0 and less are "not yet"."""
    number = parse_number(value)
    if number is not None:
        if number <= 0 or number > (_LAST - _EPOCH).total_seconds():
            return None
        return _EPOCH + timedelta(seconds=number)
    found = _LOCAL.fullmatch(value.strip()) if isinstance(value, str) and zone is not None else None
    if found is None:
        return None
    try:
        instant = datetime(*(int(part) for part in found.groups()[:6]), tzinfo=zone)  # type: ignore[misc,arg-type]
        instant = instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return instant if _EPOCH < instant < _LAST else None


def is_said(value: object) -> bool:
    """Return whether a time is given at all, readable or not: null, 0, -1 and empty text are not."""
    number = parse_number(value)
    if number is not None:
        return number > 0
    return isinstance(value, str) and value.strip() not in ("", "0000-00-00 00:00:00", "1970-01-01 00:00:00")


def parse_length(value: object) -> float | None:
    """Return seconds from a number or from `2:00:00`."""
    found = _LENGTH.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        hours, minutes, seconds = (int(part) for part in found.groups())
        return float(hours * 3600 + minutes * 60 + seconds)
    number = parse_number(value)
    return number if number is not None and number > 0 else None


def parse_text(value: object) -> str | None:
    """Return text with something in it, of text or a number; half characters are replaced."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip().encode("utf-8", errors="replace").decode()
    return text.replace("\0", "\ufffd") or None


def parse_words(value: object) -> tuple[str, ...]:
    """Return a list of words, of a list or of text with commas between."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(text for part in parts if (text := parse_text(part)) is not None)
