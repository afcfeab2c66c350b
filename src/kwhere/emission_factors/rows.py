"""Reading what providers write: times, numbers, rows; pure.

A value that is null, no number or beyond reason is absent, never 0; one bad row takes no other with it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kwhere.core.errors import NoData, SourceError
from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System

MOST_GRAMS_PER_KWH = 5000.0
"""Four times the worst coal: beyond it is another unit or a fault."""
EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of a provider over its span."""

    span: Span
    grams_per_kwh: float
    quality: Quality
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """What all factors of one answer share."""

    provider: str
    zone: str
    basis: Basis
    scope: Scope
    system: System
    source: str

    def factors(self, rows: Sequence[Row], now: datetime) -> tuple[Factor, ...]:
        """Return rows as factors; one without a date of publication was published by `now` at the latest."""
        return tuple(
            Factor(
                provider=self.provider,
                zone=self.zone,
                span=row.span,
                grams_per_kwh=row.grams_per_kwh,
                published_at=row.published_at or now,
                basis=self.basis,
                scope=self.scope,
                system=self.system,
                quality=row.quality,
                source=self.source,
            )
            for row in rows
        )


def parse_time(value: object) -> datetime | None:
    """Return an ISO 8601 time as aware UTC; None for anything else, for one without an offset, for an absurd year."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        if found.utcoffset() is None:
            return None
        found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if EARLIEST <= found < LATEST else None


def parse_grams(value: object, factor: float = 1.0) -> float | None:
    """Return a number times `factor`; None for null, for no number, for one below 0 or beyond reason."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value) * factor
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and 0 <= found <= MOST_GRAMS_PER_KWH else None


def span_of(start: datetime | None, length: timedelta) -> Span | None:
    """Return the span from `start` on; None without a start."""
    return None if start is None else Span(start, start + length)


def objects(value: object) -> Iterator[Mapping[str, object]]:
    """Yield the objects of a list; what is no object is left out."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield item


def listed(document: object, names: Iterable[str], place: str) -> list[Mapping[str, object]]:
    """Return the objects of the first list of one of `names`. Raises SourceError where there is none."""
    wanted = tuple(names)
    if isinstance(document, dict):
        for name in wanted:
            if isinstance(document.get(name), list):
                return list(objects(document[name]))
    raise SourceError(f"{place}: expected a list {' or '.join(wanted)}, found {_kind(document)}")


def _kind(value: object) -> str:
    if isinstance(value, dict):
        keys = ", ".join(sorted(str(key)[:20] for key in value)[:6])
        return f"an object with {keys}" if keys else "an empty object"
    return {list: "a list", str: "text", type(None): "null"}.get(type(value), "a number")


def in_order(rows: Iterable[Row], span: Span) -> list[Row]:
    """Return the rows that touch `span`, in time order, without overlap: of two for one time the later one counts."""
    by_start: dict[datetime, Row] = {}
    for row in rows:
        if row.span.overlaps(span):
            by_start[row.span.start] = row
    ordered: list[Row] = []
    for start in sorted(by_start):
        row = by_start[start]
        if ordered and ordered[-1].span.end > start:
            before = ordered.pop()
            ordered.append(replace(before, span=Span(before.span.start, start)))
        ordered.append(row)
    return [row for row in ordered if row.span.overlaps(span)]


def some(rows: Sequence[Row], count: int, place: str) -> Sequence[Row]:
    """Return `rows` if there is one. Raises NoData that says whether the answer was empty or its `count` rows were."""
    if rows:
        return rows
    if count:
        raise NoData(f"{place}: none of {count} rows has a figure for this time")
    raise NoData(f"{place}: no rows for this time")


def up_to(rows: Iterable[Row], now: datetime) -> list[Row]:
    """Return rows that began by `now`: what lies ahead is no measurement, whatever it says."""
    return [row for row in rows if row.span.start <= now]


def pieces(span: Span, length: timedelta) -> Iterator[Span]:
    """Yield `span` in pieces of at most `length`: services answer only so much at once."""
    start = span.start
    while start < span.end:
        yield Span(start, min(start + length, span.end))
        start += length


def utc_text(moment: datetime, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
    """Return `moment` in UTC, with its offset written as `Z`: a literal offset would have to be true and escaped."""
    return moment.astimezone(UTC).strftime(form)
