"""The site's own factors as CSV or JSON, read strictly: the site can mend what is wrong, so it is told; pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from kwhere.core.csv_rows import csv_rows
from kwhere.core.errors import SourceError
from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Quality
from kwhere.emission_factors.rows import EARLIEST, LATEST, Row, parse_grams

ROW_NAMES = ("start", "end", "grams_per_kwh", "zone", "published_at", "quality")


@dataclass(frozen=True, slots=True)
class FileForm:
    """How a file is written."""

    columns: Mapping[str, str]
    """The file's name of a column, by ours, where they differ."""
    rows_at: str
    """JSON: dotted path to the list of rows; empty: the document is the list."""
    grams_per_unit: float
    """What one of the file's units is in g/kWh."""
    time_zone: ZoneInfo | None
    """Of times without an offset; None: there are none."""
    quality: Quality

    def column(self, name: str) -> str:
        """Return the file's name of our column."""
        return self.columns.get(name, name)


@dataclass(frozen=True, slots=True)
class _Line:
    place: str
    start: datetime
    end: datetime | None
    grams_per_kwh: float
    zone: str
    published_at: datetime | None
    quality: Quality


def read_rows(text: str, form: FileForm, place: str, zone: str, *, is_json: bool) -> list[Row]:
    """Return the rows of `zone` in time order. Raises SourceError that names the line that is wrong.

    A row without an end lasts until the next one begins, the last one as long as the one before it.
    """
    records = _json_records(text, form, place) if is_json else _csv_records(text, form, place)
    lines = [_line(record, form, where) for where, record in records]
    ours = sorted((line for line in lines if line.zone in ("", zone)), key=lambda line: line.start)
    rows = [_row(line, following, before) for before, line, following in _neighbours(ours)]
    for (one, row), (other, following) in pairwise(zip(ours, rows, strict=True)):
        if row.span.end > following.span.start:
            raise SourceError(f"{other.place}: begins at {other.start:%Y-%m-%d %H:%M} UTC, before {one.place} ends")
    return rows


def _csv_records(text: str, form: FileForm, place: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    for row in csv_rows(text, place, [form.column(name) for name in ("start", "grams_per_kwh")]):
        yield row.place, row.cells


def _json_records(text: str, form: FileForm, place: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{place}: expected JSON: {str(error)[:100]}") from error
    for step in filter(None, form.rows_at.split(".")):
        found = found.get(step) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise SourceError(f"{place}: expected a list of rows{f' at {form.rows_at}' if form.rows_at else ''}")
    for number, record in enumerate(found, 1):
        if not isinstance(record, dict):
            raise SourceError(f"{place} row {number}: expected an object, found {str(record)[:40]!r}")
        yield f"{place} row {number}", record


def _line(record: Mapping[str, object], form: FileForm, place: str) -> _Line:
    values = {name: record.get(form.column(name)) for name in ROW_NAMES}
    start = _time(values["start"], form, f"{place}: {form.column('start')}")
    if start is None:
        raise SourceError(f"{place}: expected {form.column('start')}, found none")
    grams = parse_grams(values["grams_per_kwh"], form.grams_per_unit)
    if grams is None:
        found = str(values["grams_per_kwh"])[:40]
        raise SourceError(f"{place}: {form.column('grams_per_kwh')}: expected a number of 0 or more, found {found!r}")
    end = _time(values["end"], form, f"{place}: {form.column('end')}")
    if end is not None and end <= start:
        raise SourceError(f"{place}: ends at {end:%Y-%m-%d %H:%M} UTC, not after its start")
    published = _time(values["published_at"], form, f"{place}: {form.column('published_at')}")
    zone = values["zone"]
    return _Line(place, start, end, grams, str(zone) if zone else "", published, _quality(values, form, place))


def _quality(values: Mapping[str, object], form: FileForm, place: str) -> Quality:
    if not values["quality"]:
        return form.quality
    try:
        return Quality(str(values["quality"]))
    except ValueError:
        expected = ", ".join(Quality)
        raise SourceError(
            f"{place}: quality: expected one of {expected}, found {str(values['quality'])[:40]!r}"
        ) from None


def _time(value: object, form: FileForm, place: str) -> datetime | None:
    """Return a time as UTC; None for an empty cell. Raises SourceError for what is none, or is not one alone."""
    if value is None or value == "":
        return None
    try:
        found = datetime.fromisoformat(str(value).strip())
        if found.utcoffset() is None:
            found = _located(found, form.time_zone, place)
        found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise SourceError(
            f"{place}: expected a time like 2026-11-29T12:00:00+01:00, found {str(value)[:40]!r}"
        ) from None
    if not EARLIEST <= found < LATEST:
        raise SourceError(f"{place}: expected a time between 1990 and 2100, found {str(value)[:40]!r}")
    return found


def _located(found: datetime, time_zone: ZoneInfo | None, place: str) -> datetime:
    """Return local time with its offset; an hour that the clocks skip, or pass twice, is nobody's to guess."""
    if time_zone is None:
        raise SourceError(f"{place}: {found} has no offset; write one, or set time_zone")
    first, second = found.replace(tzinfo=time_zone, fold=0), found.replace(tzinfo=time_zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return first
    why = "is skipped by" if first.astimezone(UTC) > second.astimezone(UTC) else "comes twice with"
    raise SourceError(f"{place}: {found} {why} the change of clocks in {time_zone.key}; write its offset")


def _neighbours(lines: Sequence[_Line]) -> Iterator[tuple[_Line | None, _Line, _Line | None]]:
    for place, line in enumerate(lines):
        yield lines[place - 1] if place else None, line, lines[place + 1] if place + 1 < len(lines) else None


def _row(line: _Line, following: _Line | None, before: _Line | None) -> Row:
    end = line.end or (following.start if following is not None else None)
    if end is None and before is not None:
        end = line.start + max(timedelta(0), (before.end or line.start) - before.start)
    if end is None or end <= line.start:
        raise SourceError(f"{line.place}: needs an end, or another row after it that begins later")
    return Row(Span(line.start, end), line.grams_per_kwh, line.quality, line.published_at)
