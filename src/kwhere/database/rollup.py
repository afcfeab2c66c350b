"""Hours and days: computed anew from what lies below, replaced and never added to; so a pass can be repeated."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Table,
    bindparam,
    delete,
    func,
    literal,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from kwhere.database import schema
from kwhere.database.account_marks import mark_nodes
from kwhere.database.booking import SLOTS, touch_all
from kwhere.database.derived import Book, Hours, NodeHour, derive, derive_day
from kwhere.database.emissions import EMISSIONS, gram_worths
from kwhere.database.engine import POSTGRESQL, writing
from kwhere.database.flags import ALL_BITS
from kwhere.database.grid import HOUR_NS, Grid
from kwhere.database.pue import pue_in_force
from kwhere.database.retention import buckets_from, hours_from
from kwhere.database.schema import BALANCE_COLUMNS, PEAK_COLUMNS, SUM_COLUMNS
from kwhere.database.settings import SiteSettings
from kwhere.database.site_figures import FIGURES, SiteTerms, figure_worths, site_terms
from kwhere.energy.steps import Steps

_touched = schema.touched.c
_BATCH = 200
"""Marks per pass and width; the next pass goes on."""


@dataclass(frozen=True, slots=True)
class Touched:
    """An hour or day of a node that must be computed anew."""

    node_id: int
    start_ns: int
    version: int
    cause: str


def roll_hours(engine: Engine, site: SiteSettings, now_ns: int, limit: int = _BATCH) -> int:
    """Compute up to `limit` touched hours, oldest first, those of one time in one transaction; return how many."""
    grid = Grid(site.tz)
    marks = _marks(engine, "hour", limit)
    terms = _terms(engine, site)
    for start_ns, group in groupby(marks, lambda mark: mark.start_ns):
        its = list(group)
        with writing(engine).begin() as connection:
            _roll_hour(connection, site, terms, its, now_ns)
            touch_all(connection, "day", [(mark.node_id, grid.day_start(start_ns), mark.cause) for mark in its])
            _clear(connection, "hour", its)
    return len(marks)


def roll_days(engine: Engine, site: SiteSettings, now_ns: int, limit: int = _BATCH) -> int:
    """Compute up to `limit` touched days, oldest first, those of one date in one transaction; return how many."""
    grid = Grid(site.tz)
    marks = _marks(engine, "day", limit)
    books = (EMISSIONS, FIGURES) if _terms(engine, site).has_figures else (EMISSIONS,)
    for start_ns, group in groupby(marks, lambda mark: mark.start_ns):
        its = list(group)
        with writing(engine).begin() as connection:
            span_ns = (start_ns, grid.day_end(start_ns))
            _roll_day(connection, books, its, span_ns, now_ns)
            mark_nodes(connection, [one.node_id for one in its], span_ns)
            _clear(connection, "day", its)
    return len(marks)


def _marks(engine: Engine, width: str, limit: int) -> list[Touched]:
    query = (
        select(_touched.node_id, _touched.start_ns, _touched.version, _touched.cause)
        .where(_touched.width == width)
        .order_by(_touched.start_ns, _touched.node_id)
        .limit(limit)
    )
    with engine.connect() as connection:
        return [Touched(*row) for row in connection.execute(query)]


def _clear(connection: Connection, width: str, marks: Sequence[Touched]) -> None:
    """Clear marks unless they were touched again: what came since may not have been seen."""
    connection.execute(
        delete(schema.touched).where(
            _touched.width == width,
            _touched.node_id == bindparam("its_node"),
            _touched.start_ns == bindparam("its_start"),
            _touched.version == bindparam("its_version"),
        ),
        [{"its_node": mark.node_id, "its_start": mark.start_ns, "its_version": mark.version} for mark in marks],
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    """What figures are derived with."""

    pue: Steps[float]
    site: SiteTerms
    has_figures: bool
    """Cost or water is on, or was."""


def _terms(engine: Engine, site: SiteSettings) -> _Terms:
    terms = site_terms(site)
    with engine.connect() as connection:
        kinds = connection.execute(select(schema.figure_kinds.c.id).limit(1)).first()
        return _Terms(pue_in_force(connection, site), terms, terms.has_any or kinds is not None)


def _roll_hour(
    connection: Connection, site: SiteSettings, terms: _Terms, marks: Sequence[Touched], now_ns: int
) -> None:
    """Compute one hour of several nodes."""
    start_ns = marks[0].start_ns
    has_buckets = start_ns >= buckets_from(connection)
    changed = [mark.node_id for mark in marks if mark.cause == SLOTS]
    if has_buckets and changed:
        span_ns = (start_ns, start_ns + HOUR_NS)
        _replace_usage(connection, schema.usage_hour, schema.usage_5m, changed, span_ns)
        _replace_node(connection, schema.node_hour, schema.node_5m, changed, span_ns)
    grams = gram_worths(connection, site, [mark.node_id for mark in marks], start_ns, terms.pue)
    hours = Hours(start_ns, [NodeHour(m.node_id, m.cause, grams[m.node_id]) for m in marks], has_buckets)
    derive(connection, EMISSIONS, hours, now_ns)
    if terms.has_figures:
        worths = figure_worths(connection, site, terms.site, start_ns, terms.pue)
        hours = Hours(start_ns, [NodeHour(mark.node_id, mark.cause, worths) for mark in marks], has_buckets)
        derive(connection, FIGURES, hours, now_ns)


def _roll_day(
    connection: Connection, books: Sequence[Book], marks: Sequence[Touched], span_ns: tuple[int, int], now_ns: int
) -> None:
    """Compute one day of several nodes."""
    if span_ns[0] < hours_from(connection):
        return
    changed = [mark.node_id for mark in marks if mark.cause == SLOTS]
    if changed:
        _replace_usage(connection, schema.usage_day, schema.usage_hour, changed, span_ns)
        _replace_node(connection, schema.node_day, schema.node_hour, changed, span_ns)
    for book in books:
        derive_day(connection, book, [mark.node_id for mark in marks], span_ns, now_ns)


def _replace_usage(
    connection: Connection, target: Table, source: Table, node_ids: Sequence[int], span_ns: tuple[int, int]
) -> None:
    figures = source.c
    start_ns, end_ns = span_ns
    columns = ("unit_run_id", "start_ns", "node_id", "flags", *SUM_COLUMNS, *PEAK_COLUMNS)
    query = (
        select(
            figures.unit_run_id,
            literal(start_ns, BigInteger),
            figures.node_id,
            _any_bits(figures.flags),
            *(func.sum(figures[name]) for name in SUM_COLUMNS),
            *(func.max(figures[name]) for name in PEAK_COLUMNS),
        )
        .where(figures.node_id.in_(node_ids), figures.start_ns >= start_ns, figures.start_ns < end_ns)
        .group_by(figures.unit_run_id, figures.node_id)
    )
    _replace(connection, target, ("unit_run_id", "start_ns"), columns, query)


def _replace_node(
    connection: Connection, target: Table, source: Table, node_ids: Sequence[int], span_ns: tuple[int, int]
) -> None:
    figures = source.c
    start_ns, end_ns = span_ns
    names = ("accounted_ns", "measured_uj", *BALANCE_COLUMNS)
    query = (
        select(figures.node_id, literal(start_ns, BigInteger), *(func.sum(figures[name]) for name in names))
        .where(figures.node_id.in_(node_ids), figures.start_ns >= start_ns, figures.start_ns < end_ns)
        .group_by(figures.node_id)
    )
    _replace(connection, target, ("node_id", "start_ns"), ("node_id", "start_ns", *names), query)


def _any_bits(flags: ColumnElement[int]) -> ColumnElement[int]:
    """Return the bits that any row has: a bitwise OR that both databases know."""
    found: ColumnElement[int] = literal_column("0")
    for bit in ALL_BITS:
        found = found + func.max(flags.bitwise_and(bit))
    return found


def _replace(connection: Connection, target: Table, key: Sequence[str], columns: Sequence[str], query: object) -> None:
    build = postgresql.insert if connection.dialect.name == POSTGRESQL else sqlite.insert
    statement = build(target).from_select(columns, query)  # type: ignore[arg-type]
    changes = {name: statement.excluded[name] for name in columns if name not in key}
    connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=changes))
