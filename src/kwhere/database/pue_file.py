"""A site's own series of PUE, as CSV: `start,pue`, in force until the next row."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from kwhere.core.csv_rows import csv_rows
from kwhere.core.errors import SourceError
from kwhere.database.grid import to_ns
from kwhere.database.local_time import to_utc
from kwhere.energy.steps import Steps

LEAST, MOST = 1.0, 5.0
_MOST_BYTES = 64 << 20
_YEARS = range(1990, 2100)


def read_pue_file(path: Path, zone: ZoneInfo) -> Steps[float]:
    """Return the series of a file. Raises SourceError that names the file, and the line that is wrong."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise SourceError(f"{path}: expected at most {_MOST_BYTES} bytes, found more")
    return parse_pue(content, zone, str(path))


def parse_pue(content: bytes, zone: ZoneInfo, place: str) -> Steps[float]:
    """Return the series of a file's bytes; rows may stand in any order. Raises SourceError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{place}: expected UTF-8, found another byte at {error.start}") from error
    found: dict[int, float] = {}
    for row in csv_rows(text, place, ("start", "pue")):
        start = row.cells["start"]
        start_ns = _start(start, zone, row.place)
        if start_ns in found:
            raise SourceError(f"{row.place}: expected each start once, found {start[:40]!r} again")
        found[start_ns] = _ratio(row.cells["pue"], row.place)
    if not found:
        raise SourceError(f"{place}: expected rows, found none")
    return Steps.of(found.items())


def _start(text: str, zone: ZoneInfo, where: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise SourceError(f"{where}: start: expected a time such as 2026-01-01T00:00, found {text[:40]!r}") from None
    if found.year not in _YEARS:
        raise SourceError(f"{where}: start: expected a time between 1990 and 2100, found {text[:40]!r}")
    try:
        return to_ns(to_utc(found, zone))
    except ValueError as error:
        raise SourceError(f"{where}: start: {error}") from error


def _ratio(text: str, where: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not LEAST <= found <= MOST:  # neither a percentage nor a NaN gets through
        raise SourceError(f"{where}: pue: expected a ratio from {LEAST:g} to {MOST:g}, found {text[:40]!r}")
    return found
