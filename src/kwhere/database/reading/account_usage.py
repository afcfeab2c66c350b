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
_IN_CLUSTERS = frozenset({UsageBy.USER, UsageBy.PROJECT, UsageBy.CLUSTER})
"""What is told apart by cluster: names are unique in one."""


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
        return self._connection.execute(self._grouped(days, figures, [item]).order_by("its")).all()

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

    def _grouped(
        self, days: FromClause, figures: Sequence[ColumnElement[Any]], beside: Sequence[ColumnElement[Any]] = ()
    ) -> Select[Any]:
        """Return the sums by key, cluster and kind: added up by ids, which are then few enough to be named."""
        key, named = self._key(days)
        cluster = days.c.cluster_id if self._by in _IN_CLUSTERS else None
        parts = {"key": key, "cluster": cluster, "kind": days.c.kind}
        columns = [(null() if part is None else part).label(name) for name, part in parts.items()]
        groups = [*(part for part in parts.values() if part is not None), *beside]
        summed = select(*columns, *figures).where(and_(True, *self._conditions(days))).group_by(*groups).subquery()
        shown: FromClause = summed
        words: dict[str, ColumnElement[Any]] = dict(summed.c)
        if named is not None:
            shown = shown.outerjoin(named, named.c.id == summed.c.key)
            words["key"] = named.c.name.label("key")
        if cluster is not None:
            shown = shown.join(schema.clusters, _clusters.id == summed.c.cluster)
            words["cluster"] = _clusters.name.label("cluster")
        return select(*words.values()).select_from(shown)

    def _key(self, days: FromClause) -> tuple[ColumnElement[Any], FromClause | None]:
        """Return what is added up by, and the table that names it."""
        if self._by in PERIODS:
            start = days.c.start_ns
            return (start if self._by is UsageBy.DAY else period_start(days, self._tables.periods)), None
        if self._by is UsageBy.MANAGER:
            return days.c.manager, None
        by_id: dict[UsageBy, tuple[ColumnElement[Any], FromClause]] = {
            UsageBy.USER: (days.c.user_id, schema.users),
            UsageBy.PROJECT: (days.c.project_id, schema.projects),
            UsageBy.CLUSTER: (days.c.cluster_id, schema.clusters.alias("named")),
        }
        return by_id[self._by]

    def _conditions(self, days: FromClause) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self._narrowed.user is not None:
            found.append(days.c.user_id.in_(select(_users.id).where(_users.name == self._narrowed.user)))
        if self._narrowed.project is not None:
            found.append(days.c.project_id.in_(select(_projects.id).where(_projects.name == self._narrowed.project)))
        if self._narrowed.manager is not None:
            found.append(days.c.manager == self._narrowed.manager)
        if self._left_out:
            found.append(days.c.guest_id.not_in(sorted(self._left_out)))
        return found
