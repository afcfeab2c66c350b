"""How far back a store of series goes, and why no further."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kwhere.core.errors import SourceError


class KeptBy(StrEnum):
    """What a store's reach is known by."""

    TIME = "time"
    """It drops what is older."""
    SIZE = "size"
    """It drops the oldest when it is full: this is the oldest that it has."""
    OLDEST = "oldest sample"
    """It does not say what it drops; this is the oldest that it has."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How far back a store goes: it has nothing of before `since`."""

    since: datetime
    by: KeptBy
    limits: str
    """As the store says them, such as `15d or 50GiB`; empty where it does not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a store was told to keep; None: no limit of that kind."""

    time: timedelta | None
    has_size: bool
    text: str


_DURATION = re.compile("".join(rf"(?:(\d{{1,9}}){unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")))
_PART_MS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGTPE]i?)?B", re.I)
_LONGEST = timedelta(days=36_500)


def parse_duration(text: str) -> timedelta:
    """Return a duration as Prometheus writes it (`15d`, `1y2w`, `0s`); a century at most. Raises SourceError."""
    found = _DURATION.fullmatch(text) if text and text.isascii() else None
    if found is None:
        raise SourceError(f"retention: expected a duration such as 15d, found {text[:40]!r}")
    total_ms = sum(int(amount or 0) * each for amount, each in zip(found.groups(), _PART_MS, strict=True))
    return timedelta(milliseconds=min(total_ms, int(_LONGEST.total_seconds() * 1000)))


def parse_limits(text: str) -> Limits | None:
    """Return what `15d`, `50GiB` or `15d or 50GiB` limits; None for an empty text, or limits of nothing.

    The text is what /api/v1/status/runtimeinfo calls storageRetention. Raises SourceError.
    """
    time: timedelta | None = None
    has_size = False
    for word in (word.strip() for word in text.split(" or ")):
        size = _SIZE.fullmatch(word)
        if size is not None:
            has_size = has_size or float(size[1]) > 0
        elif word:
            time = parse_duration(word) or None
    if time is None and not has_size:
        return None
    return Limits(time, has_size, text.strip())
