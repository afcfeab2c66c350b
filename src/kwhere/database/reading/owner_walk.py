"""An owner's units in the order of a figure, by the owner's own indexes: nothing of anybody else's is looked at.

Each owner is an arm: up to a page is taken from every arm, and of these the first. What lives is sorted on the spot,
for nobody has very much of it. What has ended is read off an index that is in order; where more is asked than that
index holds, a stretch of it is looked through, then a longer one, then all. Within a span that few lie in, these are
sorted instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select, union, union_all

from kwhere.database import schema
from kwhere.database.grid import to_ns
from kwhere.database.identities import RUNNING
from kwhere.database.reading.owner_arms import Arm, arms_of, count_lived, ended_since
from kwhere.database.reading.unit_filters import conditions
from kwhere.database.reading.unit_order import UnitOrder
from kwhere.database.records import UnitQuery, UnitSort
from kwhere.database.total_tables import ENDED_OWNERS
from kwhere.database.visibility import Sight

FEW_OF_OWNER = 2000
"""So many are sorted faster than an owner's index is walked for them."""
_units, _totals = schema.units.c, schema.unit_totals.c
_TIMES: dict[UnitSort, ColumnElement[Any]] = {
    UnitSort.STARTED_AT: _units.started_ns,
    UnitSort.ENDED_AT: _units.ended_ns,
}
_WALKED = frozenset({UnitSort.ENERGY_JOULES, *_TIMES})
"""The sorts for which each owner has an index."""
_STRETCHES = (10, 200)
"""In pages."""
_Filters = Sequence[ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class OwnerWalk:
    """The units of some owners that a query wants."""

    query: UnitQuery
    arms: Sequence[tuple[Arm, _Filters]]
    """Each with what its units fulfil beside."""
    are_few: bool
    """Few live, or ended within the query's span."""

    def conditions(self) -> Sequence[ColumnElement[bool]]:
        """Return what each unit fulfils, with or without the figure."""
        return [or_(*(and_(_units[arm.column] == arm.owner_id, *filters) for arm, filters in self.arms))]

    def known(self, order: UnitOrder, limit: int) -> Iterator[Select[Any]]:
        """Yield statements for the first `limit` units that have the figure, as `id` and `sort`.

        One is enough that finds so many; the last finds all there are.
        """
        if not self._sorts_all and any(filters for _, filters in self.arms):
            for pages in _STRETCHES:
                yield self._within(order, limit, pages * limit)
        yield self._within(order, limit, None)

    @property
    def _sorts_all(self) -> bool:
        """Return whether no index is walked: only what lives is wanted, or few lie in the span."""
        return self.query.states == (RUNNING,) or (self.are_few and self.query.span is not None)

    def _within(self, order: UnitOrder, limit: int, stretch: int | None) -> Select[Any]:
        parts = [part.limit(limit) for arm, filters in self.arms for part in self._parts(arm, filters, order, stretch)]
        if len(parts) == 1:
            return parts[0]
        # A unit may be a user's that is seen and in a project that is seen as well.
        join = union_all if len(self.arms) == 1 else union
        every = join(*(select(part.subquery()) for part in parts)).subquery()
        return order.arranged(select(every.c.id, every.c.sort), every.c.sort, every.c.id).limit(limit)

    def _parts(self, arm: Arm, filters: _Filters, order: UnitOrder, stretch: int | None) -> list[Select[Any]]:
        span, is_live = self.query.span, _units.ended_ns.is_(None)
        if self.query.states == (RUNNING,):
            return [self._sorted(arm, filters, order, is_live)]
        if self.are_few and span is not None:
            return [self._sorted(arm, filters, order, its) for its in (is_live, ended_since(span))]
        if self.query.sort in _TIMES:
            return [_filtered(order, self._by_time(arm, order).limit(stretch), filters)]
        ended = _filtered(order, self._ended(arm, order).limit(stretch), filters)
        return [ended, self._sorted(arm, filters, order, is_live)]

    def _sorted(self, arm: Arm, filters: _Filters, order: UnitOrder, which: ColumnElement[bool]) -> Select[Any]:
        """Return an owner's units of which `which` holds: found by the owner, and sorted."""
        figure = _TIMES.get(self.query.sort, _totals.energy_uj)
        found = select(_units.id, figure.label("sort")).where(_units[arm.column] == arm.owner_id, which, *filters)
        if self.query.sort not in _TIMES:
            found = found.select_from(schema.units.join(schema.unit_totals, _totals.unit_id == _units.id))
        # A sum is no column of an index.
        behind = order.behind(found.where(figure.is_not(None)), figure + 0, _units.id)
        return order.arranged(behind, figure + 0, _units.id)

    def _ended(self, arm: Arm, order: UnitOrder) -> Select[Any]:
        figure, key, held = _totals.energy_uj, _totals.unit_id, _totals[ENDED_OWNERS[arm.column]]
        found: Select[Any] = select(key.label("id"), figure.label("sort")).where(held == arm.owner_id)
        return order.arranged(order.behind(found, figure, key), figure, key)

    def _by_time(self, arm: Arm, order: UnitOrder) -> Select[Any]:
        column, span = _TIMES[self.query.sort], self.query.span
        found = select(_units.id, column.label("sort")).where(_units[arm.column] == arm.owner_id, column.is_not(None))
        if span is not None and self.query.sort is UnitSort.ENDED_AT:
            found = found.where(ended_since(span))
        elif span is not None and not self.query.running:
            found = found.where(column < to_ns(span.end))
        return order.arranged(order.behind(found, column, _units.id), column, _units.id)


def owner_walk(connection: Connection, query: UnitQuery, sight: Sight) -> OwnerWalk | None:
    """Return the walk that answers a query; None where no owner narrows it, too many do, or no index has the sort."""
    if query.sort not in _WALKED:
        return None
    arms = arms_of(connection, query, sight)
    if not arms:
        return None
    are_few = query.span is not None and count_lived(connection, arms, query.span, FEW_OF_OWNER) <= FEW_OF_OWNER
    return OwnerWalk(query, [(arm, _beside(connection, query, sight, arm)) for arm in arms], are_few)


def _beside(connection: Connection, query: UnitQuery, sight: Sight, arm: Arm) -> _Filters:
    """Return what is left to ask of an arm's units: that they are its owner's is known.

    What is known is not asked again, for PostgreSQL would take it for a rare coincidence.
    """
    asked, found = query, list[ColumnElement[bool]]()
    if arm.is_asked:
        asked = replace(query, **{arm.column.removesuffix("_id"): None})  # type: ignore[arg-type]
        if asked == replace(asked, project=None, user=None, node=None, jobs=None):
            asked = replace(asked, cluster=None)  # the owner's own
    if not sight.everything and not sight.shows(arm.column, arm.owner_id):
        found += sight.units(by_index=False)
    return [*conditions(connection, asked), *found]


def _filtered(order: UnitOrder, ordered: Select[Any], filters: _Filters) -> Select[Any]:
    """Return what passes, in order; made within, so that it is read off the index however few are expected to pass."""
    if not filters:
        return ordered
    every = ordered.subquery()
    passed = select(every.c.id, every.c.sort).select_from(every.join(schema.units, _units.id == every.c.id))
    return order.arranged(passed.where(*filters), every.c.sort, every.c.id)
