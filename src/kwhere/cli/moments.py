"""Times as sacct's users type them: `today`, `now-7days`, `7d`, `14:30`, `10/25`, `2026-10-25T02:30`, `@1764000000`."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from kwhere.cli.streams import say
from kwhere.core.errors import ConfigError
from kwhere.core.wall_clock import first_instant

_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hr", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86_400),
    **dict.fromkeys(("w", "week"), 604_800),
}
_LENGTH = re.compile(r"(?:\s*\d{1,9}\s*[a-z]+)+", re.ASCII)
_LENGTH_PART = re.compile(r"(\d+)\s*([a-z]+)", re.ASCII)
_RELATIVE = re.compile(r"now\s*(?:([+-])\s*(.+))?")
_EPOCH = re.compile(r"(?:@|uts\s*)(-?\d{1,12}(?:\.\d{1,9})?)|(\d{9,11}(?:\.\d{1,9})?)", re.ASCII)
_PIECE = re.compile(
    r"(?P<day>today|tomorrow|yesterday)|(?P<named>midnight|noon|elevenses|fika|teatime)"
    r"|(?P<clock>(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?\s*(?P<half>am|pm)?)"
    r"|(?P<iso>(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2}))"
    r"|(?P<short>(?P<mm>\d{1,2})[/.](?P<dd>\d{1,2})(?:[/.](?P<yy>\d{4}|\d{2}))?"
    r"|(?P<mm2>\d{2})(?P<dd2>\d{2})(?P<yy2>\d{2})?)",
    re.ASCII,
)
_BETWEEN = re.compile(r"[\s-]*t?[\s-]*(?=.)")
_TIMES = {"noon": time(12), "elevenses": time(11), "fika": time(15), "teatime": time(16)}
_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
EXPECTED = "expected e.g. today, now-7days, 1h30m, 14:30, 10/25, 2026-10-25, 2026-10-25T02:30 or @1764000000"


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, and what is to be known of how it was read."""

    at: datetime
    note: str | None = None

    @property
    def iso(self) -> str:
        """Return it as ISO 8601 in UTC."""
        return self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_window(start: str | None, end: str | None, now: datetime | None = None) -> dict[str, str | None]:
    """Return `from` and `to` as the API takes them; says on stderr where a time is not what it seems.

    Raises ConfigError.
    """
    present = now or datetime.now(UTC)
    first, last = (
        read_moment(text, present, is_end=is_end) if text else None for text, is_end in ((start, False), (end, True))
    )
    for moment in (first, last):
        if moment is not None and moment.note:
            say(moment.note)
    until = last.at if last else present
    if first is not None and (first.at > until or (last is not None and first.at == until)):
        raise ConfigError(f"--endtime: expected one after --starttime, found {_here(until)} and {_here(first.at)}")
    return {"from": first.iso if first else None, "to": last.iso if last else None}


def parse_moment(text: str, now: datetime | None = None) -> str:
    """Return `text` as ISO 8601 in UTC, as the start of a span. Raises ConfigError."""
    return read_moment(text, now or datetime.now(UTC)).iso


def read_moment(text: str, now: datetime, *, is_end: bool = False) -> Moment:
    """Return the instant of `text`; what names no offset is in the system's zone. Raises ConfigError.

    As with sacct: a time alone is of today, a date alone begins with its day, a date without a year is the last one
    whose month is not ahead, and a number after `now` counts seconds. Of a local time that comes twice a span's start
    is the first and its end the second, so that nothing is missed; one that the clocks leave out is their change.
    """
    word = text.strip().lower()
    try:
        moment = _instant(word, now)
        found = Moment(moment) if moment is not None else _local(word, now, is_end=is_end)
        if found.at < _FIRST:
            raise ValueError(word)
    except (ValueError, OverflowError):
        raise ConfigError(f"time {text[:60]!r}: {EXPECTED}") from None
    return found


def _instant(word: str, present: datetime) -> datetime | None:
    """Return what does not depend on a time zone: lengths from now, seconds since 1970."""
    if found := _RELATIVE.fullmatch(word):
        sign = -1 if found[1] == "-" else 1
        return present + sign * _length(found[2]) if found[2] else present
    if found := _EPOCH.fullmatch(word):
        return datetime.fromtimestamp(float(found[1] or found[2]), UTC)
    if _LENGTH.fullmatch(word.removeprefix("-")):
        return present - _length(word.removeprefix("-"))
    return None


def _length(word: str) -> timedelta:
    """Return `7days`, `1h30m`, or a number of seconds."""
    if word.isascii() and word.isdigit():
        return timedelta(seconds=int(word))
    if not _LENGTH.fullmatch(word):
        raise ValueError(word)
    parts = [(int(number), unit if unit in _SECONDS else unit.removesuffix("s")) for number, unit in _parts(word)]
    if not all(unit in _SECONDS for _, unit in parts):
        raise ValueError(word)
    return timedelta(seconds=sum(number * _SECONDS[unit] for number, unit in parts))


def _parts(word: str) -> list[tuple[str, str]]:
    return _LENGTH_PART.findall(word)


def _local(word: str, present: datetime, *, is_end: bool) -> Moment:
    """Return what a person means by their own clock."""
    pieces = _pieces(word)
    if pieces is None:
        moment = datetime.fromisoformat(word.upper())
        if moment.utcoffset() is not None:
            return Moment(moment)
        day, at = moment.date(), moment.time() if re.search(r"\d[t ]\d", word) else None
    else:
        today = present.astimezone().date()
        days = [_date(piece, today) for piece in pieces if not _is_time(piece)]
        times = [_time(piece) for piece in pieces if _is_time(piece)]
        if len(days) > 1 or len(times) > 1:
            raise ValueError(word)
        day, at = days[0] if days else today, times[0] if times else None
    if at is None:
        return Moment(_instants(datetime.combine(day, time()))[0])
    return _clocked(datetime.combine(day, at), is_end=is_end)


def _pieces(word: str) -> list[re.Match[str]] | None:
    """Return dates and times in the order they stand in; None for what is written otherwise."""
    found: list[re.Match[str]] = []
    place = 0
    while place < len(word):
        piece = _PIECE.match(word, place)
        if piece is None:
            return None
        found.append(piece)
        between = _BETWEEN.match(word, piece.end())
        # Of `2026-10-25 tomorrow` the t is no separator.
        place = piece.end() if between is None else between.end()
        if between is not None and between[0].strip(" \t-") == "t" and _PIECE.match(word, place - 1):
            place -= 1
    return found or None


def _is_time(piece: re.Match[str]) -> bool:
    return bool(piece["clock"] or piece["named"])


def _date(piece: re.Match[str], today: date) -> date:
    if piece["day"]:
        return today + timedelta(days=_DAYS[piece["day"]])
    if piece["iso"]:
        return date(int(piece["y"]), int(piece["m"]), int(piece["d"]))
    month, day, year = (int(piece[name] or piece[f"{name}2"] or 0) for name in ("mm", "dd", "yy"))
    if not year:
        return date(today.year - (month > today.month), month, day)
    return date(year + (2000 if year < 100 else 0), month, day)


def _time(piece: re.Match[str]) -> time | None:
    """Return a time of the day; None for its beginning."""
    if piece["named"]:
        return _TIMES.get(piece["named"])
    hour = int(piece["hour"])
    if piece["half"] is not None:
        if not 1 <= hour <= 12:
            raise ValueError(piece[0])
        hour = hour % 12 + (12 if piece["half"] == "pm" else 0)
    return time(hour, int(piece["minute"]), int(piece["second"] or 0))


def _clocked(local: datetime, *, is_end: bool) -> Moment:
    instants = _instants(local)
    if len(instants) == 2:
        which = "second" if is_end else "first"
        taken, other = (instants[1], instants[0]) if is_end else (instants[0], instants[1])
        return Moment(
            taken, f"{local.isoformat()} comes twice here: taken is the {which}, {_here(taken)}, not {_here(other)}"
        )
    taken = instants[0]
    if taken.astimezone().replace(tzinfo=None) != local:
        return Moment(
            taken, f"{local.isoformat()} is left out by the clocks here: taken is their change, {_here(taken)}"
        )
    return Moment(taken)


def _instants(local: datetime) -> tuple[datetime, ...]:
    """Return the instant of a local time: two where clocks go back, their change where they leave it out."""
    early, late = (local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if early == late:
        return (early,)
    if early.astimezone().replace(tzinfo=None) == local:
        return (early, late)
    return (first_instant(local, None),)


def _here(moment: datetime) -> str:
    return moment.astimezone().isoformat()
