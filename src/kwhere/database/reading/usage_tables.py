"""Which resolution answers a span: 5-minute buckets while they last and the span is short, then hours, then days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Table

from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import BUCKET_NS, HOUR_NS, Grid, from_ns, to_ns
from kwhere.database.periods import Period, periods
from kwhere.database.reading.completeness import aligned
from kwhere.database.reading.site import Moment
from kwhere.database.records import UsageBy
from kwhere.database.retention import buckets_from, hours_from

FINE = timedelta(hours=36)
"""Longer spans are summed from hours: their edges matter less, and rows are a twelfth."""
COARSE = timedelta(days=14)
"""From then on whole days are read, which are summed up by account."""
COARSE_OF_DAYS = timedelta(days=6)
"""From then on where the span is whole days: a week of the site is, which lacks an hour where clocks go ahead."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one resolution, and the span widened to its grid."""

    usage: Table
    node: Table
    emissions: Table
    figures: Table
    span: Span
    periods: Sequence[Period] = ()
    """The days, weeks or months that it is cut into."""

    @property
    def start_ns(self) -> int:
        """Return the first start."""
        return to_ns(self.span.start)

    @property
    def end_ns(self) -> int:
        """Return the end, exclusive."""
        return to_ns(self.span.end)


def tables_for(moment: Moment, span: Span) -> Tables:
    """Return the tables that hold all of `span` at the finest resolution that makes sense."""
    start_ns, grid = to_ns(span.start), moment.grid
    if span.end - span.start >= (COARSE_OF_DAYS if _is_whole_days(grid, start_ns, to_ns(span.end)) else COARSE):
        return day_tables(moment, span)
    if span.end - span.start <= FINE and start_ns >= buckets_from(moment.connection):
        return Tables(schema.usage_5m, schema.node_5m, schema.emissions_hour, schema.figures_hour, aligned(span))
    if start_ns >= hours_from(moment.connection):
        wide = Span(from_ns(grid.hour_start(start_ns)), from_ns(grid.hour_start(to_ns(span.end) - 1) + HOUR_NS))
        return Tables(schema.usage_hour, schema.node_hour, schema.emissions_hour, schema.figures_hour, wide)
    return day_tables(moment, span)


def _is_whole_days(grid: Grid, start_ns: int, end_ns: int) -> bool:
    return grid.day_start(start_ns) == start_ns and grid.day_start(end_ns) == end_ns


def day_tables(moment: Moment, span: Span, by: UsageBy = UsageBy.DAY) -> Tables:
    """Return the tables of days, and `span` widened to whole days, weeks or months."""
    cut = periods(moment.grid, by, to_ns(span.start), to_ns(span.end))
    wide = Span(from_ns(cut[0].start_ns), from_ns(cut[-1].end_ns))
    return Tables(schema.usage_day, schema.node_day, schema.emissions_day, schema.figures_day, wide, cut)


def node_table_for(moment: Moment, span: Span) -> Table:
    """Return the node table that answers `span`."""
    return tables_for(moment, span).node


def bucket_ns_of(table: Table) -> int:
    """Return the width of a table's buckets; days may be an hour longer or shorter."""
    if table.name.endswith("_5m"):
        return BUCKET_NS
    return HOUR_NS if table.name.endswith("_hour") else 24 * HOUR_NS
