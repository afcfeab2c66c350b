"""Usage of units, summed from the rows of each."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, FromClause, Select, case, func, literal, literal_column, select

from kwhere.database import schema
from kwhere.database.account_days import BOOKS
from kwhere.database.derived import worst_of
from kwhere.database.periods import PERIODS, Period
from kwhere.database.reading.figures import sums
from kwhere.database.reading.site import Moment
from kwhere.database.reading.usage_tables import Tables
from kwhere.database.records import UsageBy
from kwhere.database.schema import SUM_COLUMNS

_runs, _units, _nodes, _clusters = schema.unit_runs.c, schema.units.c, schema.nodes.c, schema.clusters.c


class UnitUsage:
    """Sums by the rows of units' usage; `found` is what each row fulfils."""

    def __init__(self, moment: Moment, by: UsageBy, tables: Tables, found: Sequence[ColumnElement[bool]]) -> None:
        self._connection = moment.connection
        self._by = by
        self._tables = tables
        self._found = found

    def energy(self) -> Sequence[Any]:
        """Return rows of key, cluster, kind, units and the sums of every figure."""
        query = _energy_query(self._by, self._tables, self._found)
        return self._connection.execute(query).all()

    def amounts(self, name: str) -> Sequence[Any]:
        """Return rows of key, cluster, kind, its (source or kind), amount and rank of a book, by `its`."""
        book = BOOKS[name]
        table = self._tables.emissions if name == "emissions" else self._tables.figures
        column = table.c[book.key]
        figures = [func.sum(table.c[book.amount]).label("amount"), worst_of(book, table.c.quality).label("rank")]
        query = _grouped(self._by, self._tables, table, [column.label("its"), *figures]).group_by(column)
        return self._connection.execute(query.order_by(column).where(*self._found)).all()


def _keys(by: UsageBy, table: FromClause, cut: Sequence[Period]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return the columns of key and cluster; the key of a period is its start."""
    none = literal(None)
    if by in PERIODS:
        return (table.c.start_ns if by is UsageBy.DAY else period_start(table, cut)), none
    return {
        UsageBy.USER: (schema.users.c.name, _clusters.name),
        UsageBy.PROJECT: (schema.projects.c.name, _clusters.name),
        UsageBy.MANAGER: (_runs.manager, none),
        UsageBy.CLUSTER: (_clusters.name, _clusters.name),
        UsageBy.NODE: (_nodes.name, _clusters.name),
    }[by]


def period_start(table: FromClause, cut: Sequence[Period]) -> ColumnElement[int]:
    """Return the start of the period that holds a row."""
    # Written out: PostgreSQL takes two parameters for two values, and the key then for another than it groups by.
    arms: list[tuple[ColumnElement[bool], ColumnElement[int]]] = [
        (table.c.start_ns < literal_column(str(one.end_ns)), literal_column(str(one.start_ns))) for one in cut
    ]
    return case(*arms)


def _joined(table: FromClause) -> FromClause:
    return (
        table.join(schema.unit_runs, _runs.id == table.c.unit_run_id)
        .join(schema.nodes, _nodes.id == table.c.node_id)
        .join(schema.clusters, _clusters.id == _nodes.cluster_id)
        .outerjoin(schema.units, _units.id == _runs.unit_id)
        .outerjoin(schema.users, schema.users.c.id == _units.user_id)
        .outerjoin(schema.projects, schema.projects.c.id == _units.project_id)
    )


def _within(statement: Select[Any], table: FromClause, tables: Tables) -> Select[Any]:
    return statement.where(table.c.start_ns >= tables.start_ns, table.c.start_ns < tables.end_ns)


def _grouped(by: UsageBy, tables: Tables, table: FromClause, figures: Sequence[ColumnElement[Any]]) -> Select[Any]:
    key, cluster = _keys(by, table, tables.periods)
    columns = [key.label("key"), cluster.label("cluster"), _runs.kind.label("kind")]
    statement = select(*columns, *figures).select_from(_joined(table))
    groups = [column for column in (key, cluster, _runs.kind) if not _is_none(column)]
    return _within(statement.group_by(*groups), table, tables)


def _is_none(column: ColumnElement[Any]) -> bool:
    return isinstance(column, BindParameter) and column.value is None


def _energy_query(by: UsageBy, tables: Tables, found: Sequence[ColumnElement[bool]]) -> Select[Any]:
    table = tables.usage
    figures: list[ColumnElement[Any]] = [func.count(_runs.unit_id.distinct()).label("units"), *sums(table, SUM_COLUMNS)]
    return _grouped(by, tables, table, figures).where(*found)
