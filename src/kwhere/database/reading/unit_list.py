"""Lists of units: sorted by a stored figure, paged by it and the id."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, false, or_, select

from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import DAY_NS, from_ns
from kwhere.database.reading.completeness import aligned, overall
from kwhere.database.reading.figures import Row
from kwhere.database.reading.host_names import named_nodes
from kwhere.database.reading.paging import BadCursor, decode_cursor, encode_cursor
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_filters import FEW, MANY, candidates, cluster_ids, conditions
from kwhere.database.reading.unit_places import PLACE_KINDS, id_of, words_of
from kwhere.database.reading.unit_records import UNIT_COLUMNS, records_of, unit_join
from kwhere.database.reading.usage_tables import node_table_for
from kwhere.database.records import UnitPage, UnitQuery, UnitSort

MOST = 1000
_units, _totals = schema.units.c, schema.unit_totals.c
_SORTS: dict[UnitSort, ColumnElement[Any]] = {
    UnitSort.ENERGY_JOULES: _totals.energy_uj,
    UnitSort.POWER_WATTS: _totals.power_uw,
    UnitSort.CPU_SECONDS: _totals.cpu_ns,
    UnitSort.GPU_BUSY_SECONDS: _totals.gpu_busy_ns,
    UnitSort.STARTED_AT: _units.started_ns,
    UnitSort.ENDED_AT: _units.ended_ns,
}
_OF_UNITS = frozenset({UnitSort.STARTED_AT, UnitSort.ENDED_AT})
_WITHOUT: dict[UnitSort, ColumnElement[bool]] = {
    UnitSort.ENERGY_JOULES: _units.is_reported.is_(False),
    UnitSort.CPU_SECONDS: _units.is_reported.is_(False),
    UnitSort.GPU_BUSY_SECONDS: _totals.gpu_busy_ns.is_(None),
    UnitSort.ENDED_AT: _units.ended_ns.is_(None),
}
"""Which units lack the figure: they stand at the end, either way. Of those that no agent reported none are there."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Behind which unit a page begins; `value` is None among those without the figure."""

    value: int | None
    unit_id: int


def list_units(moment: Moment, query: UnitQuery) -> UnitPage:
    """Return one page. Raises BadCursor."""
    limit = max(1, min(query.limit, MOST))
    rows = _rows(moment, query, limit + 1)
    items = records_of(moment, rows[:limit])
    last = rows[limit - 1] if len(rows) > limit else None
    after = None if last is None else _cursor(moment, query, last)
    span = query.span or Span(from_ns(moment.now_ns - DAY_NS), from_ns(moment.now_ns))
    return UnitPage(tuple(items), after, span, _completeness(moment, query, span))


def _cursor(moment: Moment, query: UnitQuery, last: Row) -> str:
    return encode_cursor([query.sort.value, int(query.descending), last["sort"], *words_of(moment, last["id"])])


def _completeness(moment: Moment, query: UnitQuery, span: Span) -> float | None:
    nodes = schema.nodes.c
    node_ids: list[int] | None = None
    if query.cluster is not None or query.node is not None:
        within = cluster_ids(moment.connection, query.cluster)
        if query.node is not None:
            node_ids = named_nodes(moment.connection, query.node, within)
        else:
            wanted = select(nodes.id).where(nodes.cluster_id.in_(within))
            node_ids = list(moment.connection.execute(wanted).scalars())
    return overall(moment, node_table_for(moment, span), aligned(span), node_ids).completeness_ratio


def _rows(moment: Moment, query: UnitQuery, limit: int) -> list[Row]:
    place, listing = _place(moment, query), _listing(moment, query)
    rows: list[Row] = []
    if place is None or place.value is not None:
        rows = _take(moment, listing.known(place).limit(limit))
        place = None
    if query.sort in _WITHOUT and len(rows) < limit:
        rows += _take(moment, listing.unknown(place).limit(limit - len(rows)))
    return rows


def _take(moment: Moment, picked: Select[Any]) -> list[Row]:
    """Fill in the units of a page: names are looked up for these alone, not for all that were sorted."""
    page = [(row.id, row.sort) for row in moment.connection.execute(picked)]
    names = select(*UNIT_COLUMNS).select_from(unit_join()).where(_units.id.in_([unit_id for unit_id, _ in page]))
    rows = {row.id: row._mapping for row in moment.connection.execute(names)}
    return [{**rows[unit_id], "sort": sort} for unit_id, sort in page if unit_id in rows]


def _place(moment: Moment, query: UnitQuery) -> _Place | None:
    if query.after is None:
        return None
    sort, descending, value, *words = decode_cursor(query.after, (str, int, (int, type(None)), *PLACE_KINDS))
    if (sort, descending) != (query.sort.value, int(query.descending)):
        raise BadCursor("after: the cursor belongs to another sort")
    return _Place(value if isinstance(value, int) else None, id_of(moment, words))


def _listing(moment: Moment, query: UnitQuery) -> "_Listing":
    column = _SORTS[query.sort]
    few = candidates(moment.connection, query, moment.sight, FEW if query.sort in _OF_UNITS else MANY)
    wanted = [*conditions(moment.connection, query), *moment.sight.units(by_index=False)]
    if few is not None:
        wanted.append(_units.id.in_(few))
    picked = select(_units.id, column.label("sort"))
    known = picked.select_from(_source(query.sort)).where(*wanted)
    if query.sort is UnitSort.POWER_WATTS:
        known = known.where(_totals.power_until_ns > moment.now_ns, _units.ended_ns.is_(None))
    every = schema.units.outerjoin(schema.unit_totals, _units.id == _totals.unit_id)
    unknown = picked.select_from(every).where(*wanted, _WITHOUT.get(query.sort, false()))
    # A sum is no column of an index: the few are then found first and sorted afterwards.
    order = column if few is None else column + 0
    key = _units.id if query.sort in _OF_UNITS else _totals.unit_id
    return _Listing(known, unknown, column, order, key, query.descending)


def _source(sort: UnitSort) -> FromClause:
    """Return where the figure stands; what is sorted by a time needs no totals."""
    if sort in _OF_UNITS:
        return schema.units
    return schema.unit_totals.join(schema.units, _units.id == _totals.unit_id)


@dataclass(frozen=True, slots=True)
class _Listing:
    """Statements of the units that have the figure and of those that lack it, and how the first are ordered."""

    having: Select[Any]
    lacking: Select[Any]
    column: ColumnElement[Any]
    order: ColumnElement[Any]
    key: ColumnElement[int]
    descending: bool

    def known(self, place: _Place | None) -> Select[Any]:
        """Return the units that have the figure, behind `place`."""
        column, key = self.column, self.key
        statement = self.having.where(column.is_not(None))
        if self.descending:
            if place is not None:
                behind = or_(column < place.value, key < place.unit_id)
                statement = statement.where(column <= place.value, behind)
            return statement.order_by(self.order.desc(), key.desc())
        if place is not None:
            statement = statement.where(column >= place.value, or_(column > place.value, key > place.unit_id))
        return statement.order_by(self.order, key)

    def unknown(self, place: _Place | None) -> Select[Any]:
        """Return the units that lack the figure, newest first."""
        statement = self.lacking
        if place is not None:
            statement = statement.where(_units.id < place.unit_id)
        return statement.order_by(_units.id.desc())
