"""Usage of accounts by whole days: what was summed up is read as such, days that wait from their units."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, FromClause, Select, and_, case, func, not_, null, select

from kwhere.database import account_days, account_marks, schema
from kwhere.database.periods import PERIODS
from kwhere.database.reading.figures import sums
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_filters import cluster_ids
from kwhere.database.reading.unit_usage import period_start
from kwhere.database.reading.usage_tables import Tables
from kwhere.database.records import UsageBy
from kwhere.database.schema import SUM_COLUMNS

_users, _projects, _clusters = schema.users.c, schema.projects.c, schema.clusters.c


class Narrowed(Protocol):
    """What usage is narrowed to; None is everything."""

    cluster: str | None
    user: str | None
    project: str | None
    manager: str | None


class AccountUsage:
    """Sums by accounts' days; guests of `left_out` are in their hosts' rows."""

    def __init__(
        self, moment: Moment, by: UsageBy, tables: Tables, narrowed: Narrowed, left_out: Collection[int]
    ) -> None:
        self._connection = moment.connection
        self._by = by
        self._tables = tables
        self._narrowed = narrowed
        self._left_out = left_out
        self._clusters = cluster_ids(moment.connection, narrowed.cluster)
        marks = account_marks.read_marks(moment.connection, self._clusters, tables.end_ns)
        found = account_days.marked_days(moment.connection, moment.grid, marks, (tables.start_ns, tables.end_ns))
        self._waiting = found

    def energy(self) -> Sequence[Any]:
        """Return rows of key, cluster, kind, units and the sums of every figure."""
        days = self._days(schema.account_days, account_days.sums_of_days(self._waiting))
        firsts = {period.start_ns for period in self._tables.periods} if self._by in PERIODS else set()
        begins = days.c.start_ns.in_(sorted(firsts or {self._tables.start_ns}))
        units = func.sum(case((begins, days.c.units), else_=days.c.new_units)).label("units")
        return self._connection.execute(self._grouped(days, [units, *sums(days, SUM_COLUMNS)])).all()

    def amounts(self, name: str) -> Sequence[Any]:
        """Return rows of key, cluster, kind, its (source or kind), amount and rank of a book, by `its`."""
        kept = schema.account_day_amounts
        days = self._days(kept, account_days.amounts_of_days(name, self._waiting), kept.c.book == name)
        item = days.c.item_id
        figures = [item.label("its"), func.sum(days.c.amount).label("amount"), func.max(days.c.rank).label("rank")]
        return self._connection.execute(self._grouped(days, figures).group_by(item).order_by(item)).all()

    def _days(self, kept: FromClause, waiting: Select[Any], *conditions: ColumnElement[bool]) -> FromClause:
        """Return the days that were summed up, and beside them those that wait, from their units."""
        columns = kept.c
        within = (columns.start_ns >= self._tables.start_ns, columns.start_ns < self._tables.end_ns)
        names = [column.name for column in waiting.selected_columns]
        summed = select(*(columns[name] for name in names)).where(
            columns.cluster_id.in_(self._clusters), *within, *conditions
        )
        if not self._waiting:
            return summed.subquery("days")
        is_waiting = account_days.of_days(columns.cluster_id, columns.start_ns, self._waiting)
        return summed.where(not_(is_waiting)).union_all(waiting).subquery("days")

    def _grouped(self, days: FromClause, figures: Sequence[ColumnElement[Any]]) -> Select[Any]:
        key, cluster = self._keys(days)
        columns = [null() if column is None else column for column in (key, cluster)]
        named = [columns[0].label("key"), columns[1].label("cluster"), days.c.kind.label("kind")]
        joined = (
            days.join(schema.clusters, _clusters.id == days.c.cluster_id)
            .outerjoin(schema.users, _users.id == days.c.user_id)
            .outerjoin(schema.projects, _projects.id == days.c.project_id)
        )
        groups = [column for column in (key, cluster, days.c.kind) if column is not None]
        return select(*named, *figures).select_from(joined).where(and_(True, *self._conditions(days))).group_by(*groups)

    def _keys(self, days: FromClause) -> tuple[ColumnElement[Any], ColumnElement[Any] | None]:
        if self._by in PERIODS:
            start = days.c.start_ns
            return (start if self._by is UsageBy.DAY else period_start(days, self._tables.periods)), None
        return {
            UsageBy.USER: (_users.name, _clusters.name),
            UsageBy.PROJECT: (_projects.name, _clusters.name),
            UsageBy.MANAGER: (days.c.manager, None),
            UsageBy.CLUSTER: (_clusters.name, _clusters.name),
        }[self._by]

    def _conditions(self, days: FromClause) -> list[ColumnElement[bool]]:
        asked = (
            (_users.name, self._narrowed.user),
            (_projects.name, self._narrowed.project),
            (days.c.manager, self._narrowed.manager),
        )
        found = [column == value for column, value in asked if value is not None]
        if self._left_out:
            found.append(days.c.guest_id.not_in(sorted(self._left_out)))
        return found
