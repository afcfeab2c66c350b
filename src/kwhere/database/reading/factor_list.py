"""Emission factors as they are kept."""

from typing import Any

from sqlalchemy import select

from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.factors import QUALITIES
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.reading.site import Moment, reporting_sources
from kwhere.database.records import FactorRecord

_factors, _sources = schema.factors.c, schema.factor_sources.c


def list_factors(moment: Moment, span: Span | None) -> tuple[FactorRecord, ...]:
    """Return factors that touch `span` by source and time, each as last published.

    Without a span: the one of each source that is in force now, where several touch the present the newest; first the
    one that grams are derived from: of those the site reports by, the one of the best quality.
    """
    start_ns = moment.now_ns if span is None else to_ns(span.start)
    end_ns = moment.now_ns + 1 if span is None else to_ns(span.end)
    query = (
        select(*_sources, *(column for column in _factors if column.name not in ("id", "source_id")))
        .join(schema.factor_sources, _sources.id == _factors.source_id)
        .where(_factors.start_ns < end_ns, _factors.end_ns > start_ns)
        .order_by(*_order(at_present=span is None))
    )
    reporting = reporting_sources(moment.connection)
    newest: dict[tuple[int, ...], FactorRecord] = {}
    for row in moment.connection.execute(query):
        key = (row.id,) if span is None else (row.id, row.start_ns, row.end_ns)
        newest[key] = FactorRecord(
            provider=row.provider,
            zone=row.zone,
            basis=row.basis,
            scope=row.scope,
            system=row.system,
            quality=row.quality,
            span=Span(from_ns(row.start_ns), from_ns(row.end_ns)),
            grams_per_kwh=row.grams_per_kwh,
            published_at=from_ns(row.published_ns),
            source=row.source,
            reporting=row.id in reporting,
        )
    if span is not None:
        return tuple(newest.values())
    return tuple(sorted(newest.values(), key=lambda each: (not each.reporting, QUALITIES.index(each.quality))))


def _order(*, at_present: bool) -> tuple[Any, ...]:
    """Of one source and key the last row counts: by publication, as derived grams have it."""
    if at_present:
        return _sources.id, _factors.published_ns, _factors.start_ns, _factors.id
    return _sources.id, _factors.start_ns, _factors.end_ns, _factors.published_ns
