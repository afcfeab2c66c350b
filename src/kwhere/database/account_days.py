"""Usage by account and day: the sums of a day's units, kept so that months of all accounts are read at once."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Engine,
    FromClause,
    Select,
    Table,
    case,
    cast,
    delete,
    false,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
)

from kwhere.database import account_marks, schema
from kwhere.database.account_marks import Mark
from kwhere.database.account_tables import ACCOUNT_KEY
from kwhere.database.derived import Book, worst_of
from kwhere.database.emissions import EMISSIONS
from kwhere.database.engine import writing
from kwhere.database.grid import Grid
from kwhere.database.schema import SUM_COLUMNS
from kwhere.database.site_figures import FIGURES

BOOKS: dict[str, Book] = {"emissions": EMISSIONS, "figures": FIGURES}
Days = Sequence[tuple[int, int]]
"""Cluster and start of each day."""
_runs, _units, _nodes = schema.unit_runs.c, schema.units.c, schema.nodes.c


def sums_of_days(days: Days) -> Select[Any]:
    """Return the rows of `account_days` as they follow from the units' usage of these days."""
    usage, before = schema.usage_day.c, schema.usage_day.alias("before")
    had_usage = (
        select(before.c.unit_run_id)
        .where(before.c.unit_run_id == usage.unit_run_id, before.c.start_ns < usage.start_ns)
        .exists()
    )
    units, old = _runs.unit_id, case((had_usage, _runs.unit_id))
    figures = [func.sum(cast(usage[name], Double)).label(name) for name in SUM_COLUMNS]
    counts = [
        func.count(units.distinct()).label("units"),
        (func.count(units.distinct()) - func.count(old.distinct())).label("new_units"),
    ]
    return _grouped(schema.usage_day, days, [*counts, *figures])


def amounts_of_days(name: str, days: Days) -> Select[Any]:
    """Return the rows of `account_day_amounts` of one book as they follow from the units' figures of these days."""
    book = BOOKS[name]
    table = book.day.c
    item = table[book.key].label("item_id")
    figures = [
        literal(name).label("book"),
        item,
        func.sum(table[book.amount]).label("amount"),
        worst_of(book, table.quality).label("rank"),
    ]
    return _grouped(book.day, days, figures).group_by(table[book.key])


def _grouped(table: Table, days: Days, figures: Sequence[ColumnElement[Any]]) -> Select[Any]:
    start = table.c.start_ns
    # Written out: PostgreSQL takes two parameters for two values, and the key then for another than it groups by.
    none: ColumnElement[int] = literal_column("0")
    guest = case((_nodes.parent.is_(None), none), else_=_nodes.id)
    user, project = func.coalesce(_units.user_id, none), func.coalesce(_units.project_id, none)
    key = (_nodes.cluster_id, start, _runs.kind, _runs.manager, user, project, guest)
    joined: FromClause = (
        table.join(schema.unit_runs, _runs.id == table.c.unit_run_id)
        .join(schema.nodes, _nodes.id == table.c.node_id)
        .outerjoin(schema.units, _units.id == _runs.unit_id)
    )
    named = [column.label(name) for column, name in zip(key, ACCOUNT_KEY, strict=True)]
    statement = select(*named, *figures).select_from(joined).where(of_days(_nodes.cluster_id, start, days))
    return statement.group_by(*key)


def of_days(cluster: ColumnElement[int], start: ColumnElement[int], days: Days) -> ColumnElement[bool]:
    """Return whether a row is of one of these days."""
    by_cluster: dict[int, list[int]] = defaultdict(list)
    for cluster_id, start_ns in days:
        by_cluster[cluster_id].append(start_ns)
    return or_(false(), *((cluster == cluster_id) & start.in_(starts) for cluster_id, starts in by_cluster.items()))


EVER = (0, 2**63 - 1)


def marked_days(connection: Connection, grid: Grid, marks: Sequence[Mark], span_ns: tuple[int, int] = EVER) -> Days:
    """Return the days with usage, within a span, that marks lie upon, in time order."""
    by_cluster: dict[int, list[Mark]] = defaultdict(list)
    for one in marks:
        if one.to_ns > span_ns[0] and one.from_ns < span_ns[1]:
            by_cluster[one.cluster_id].append(one)
    found: list[tuple[int, int]] = []
    for cluster_id, its in by_cluster.items():
        from_ns = max(span_ns[0], min(one.from_ns for one in its))
        to_ns = min(span_ns[1], max(one.to_ns for one in its))
        for start_ns in account_marks.booked_days(connection, cluster_id, from_ns, to_ns):
            end_ns = grid.day_end(start_ns)
            if start_ns >= span_ns[0] and any(one.from_ns < end_ns and one.to_ns > start_ns for one in its):
                found.append((cluster_id, start_ns))
    return sorted(found, key=lambda day: (day[1], day[0]))


def roll_day(engine: Engine, day: tuple[int, int]) -> None:
    """Sum up one day of one cluster anew."""
    cluster_id, start_ns = day
    tables = (schema.account_days, schema.account_day_amounts)
    with writing(engine).begin() as connection:
        for table in tables:
            connection.execute(delete(table).where(table.c.cluster_id == cluster_id, table.c.start_ns == start_ns))
        _write(connection, schema.account_days, sums_of_days([day]))
        for name in BOOKS:
            _write(connection, schema.account_day_amounts, amounts_of_days(name, [day]))


def _write(connection: Connection, table: Table, query: Select[Any]) -> None:
    connection.execute(insert(table).from_select([column.name for column in query.selected_columns], query))


def clear_marks(engine: Engine, marks: Sequence[Mark]) -> None:
    """Clear marks whose days were summed up, unless they were set again meanwhile."""
    with writing(engine).begin() as connection:
        account_marks.clear(connection, marks)
