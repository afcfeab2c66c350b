"""Lists of units: sorted by a stored figure, paged by it and the id."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, false, select
from sqlalchemy import Row as SqlRow

from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import DAY_NS, from_ns
from kwhere.database.reading.completeness import aligned, completeness_ratio
from kwhere.database.reading.figures import Row
from kwhere.database.reading.host_names import named_nodes
from kwhere.database.reading.owner_walk import FEW_OF_OWNER, OwnerWalk, owner_walk
from kwhere.database.reading.paging import BadCursor, decode_cursor, encode_cursor
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_filters import FEW, MANY, beside_owners, candidates, cluster_ids, conditions
from kwhere.database.reading.unit_order import Place, UnitOrder
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
    return completeness_ratio(moment, node_table_for(moment, span), aligned(span), node_ids)


def _rows(moment: Moment, query: UnitQuery, limit: int) -> list[Row]:
    place, listing = _place(moment, query), _listing(moment, query)
    rows: list[Row] = []
    if place is None or place.value is not None:
        rows = _take(moment, _first(moment, listing.known(UnitOrder(query.descending, place), limit), limit))
        place = None
    if query.sort in _WITHOUT and len(rows) < limit:
        missing = _unknown(query, listing.conditions(), place).limit(limit - len(rows))
        rows += _take(moment, moment.connection.execute(missing).all())
    return rows


def _first(moment: Moment, statements: Iterator[Select[Any]], limit: int) -> Sequence[SqlRow[Any]]:
    """Return the answer of the first statement that finds so many, else of the last."""
    found: Sequence[SqlRow[Any]] = ()
    for statement in statements:
        found = moment.connection.execute(statement).all()
        if len(found) == limit:
            break
    return found


def _unknown(query: UnitQuery, wanted: Sequence[ColumnElement[bool]], place: Place | None) -> Select[Any]:
    """Return the units that lack the figure, newest first."""
    every = schema.units.outerjoin(schema.unit_totals, _units.id == _totals.unit_id)
    statement = select(_units.id, _SORTS[query.sort].label("sort")).select_from(every)
    statement = statement.where(*wanted, _WITHOUT.get(query.sort, false()))
    if place is not None:
        statement = statement.where(_units.id < place.unit_id)
    return statement.order_by(_units.id.desc())


def _take(moment: Moment, picked: Sequence[SqlRow[Any]]) -> list[Row]:
    """Fill in the units of a page: names are looked up for these alone, not for all that were sorted."""
    if not picked:
        return []
    names = select(*UNIT_COLUMNS).select_from(unit_join()).where(_units.id.in_([row.id for row in picked]))
    # Whatever index they were found by: `units` says whose they are.
    seen = names.where(*moment.sight.units(by_index=False))
    rows = {row.id: row._mapping for row in moment.connection.execute(seen)}
    return [{**rows[row.id], "sort": row.sort} for row in picked if row.id in rows]


def _place(moment: Moment, query: UnitQuery) -> Place | None:
    if query.after is None:
        return None
    sort, descending, value, *words = decode_cursor(query.after, (str, int, (int, type(None)), *PLACE_KINDS))
    if (sort, descending) != (query.sort.value, int(query.descending)):
        raise BadCursor("after: the cursor belongs to another sort")
    return Place(value if isinstance(value, int) else None, id_of(moment, words))


def _listing(moment: Moment, query: UnitQuery) -> "OwnerWalk | _Sorted":
    walk = owner_walk(moment.connection, query, moment.sight)
    few: Sequence[int] | Select[tuple[int]] | None
    if walk is None:
        few = candidates(moment.connection, query, moment.sight, FEW if query.sort in _OF_UNITS else MANY)
    else:
        few = beside_owners(moment.connection, query, FEW_OF_OWNER)
        if few is None:
            return walk
    wanted = [*conditions(moment.connection, query), *moment.sight.units(by_index=False)]
    if few is not None:
        wanted.append(_units.id.in_(few))
    return _Sorted(query.sort, wanted, few is not None, moment.now_ns)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Units that are found and then sorted where they are few, else looked for along the index of the figure."""

    sort: UnitSort
    wanted: Sequence[ColumnElement[bool]]
    are_few: bool
    now_ns: int

    def conditions(self) -> Sequence[ColumnElement[bool]]:
        """Return what each unit fulfils, with or without the figure."""
        return self.wanted

    def known(self, order: UnitOrder, limit: int) -> Iterator[Select[Any]]:
        """Yield the statement for the first units that have the figure, behind the order's place."""
        column, key = _SORTS[self.sort], _units.id
        found = select(_units.id, column.label("sort")).where(*self.wanted, column.is_not(None))
        if self.sort not in _OF_UNITS:  # what is sorted by a time needs no totals
            key = _totals.unit_id
            found = found.select_from(schema.unit_totals.join(schema.units, _units.id == _totals.unit_id))
        if self.sort is UnitSort.POWER_WATTS:
            found = found.where(_totals.power_until_ns > self.now_ns, _units.ended_ns.is_(None))
        # A sum is no column of an index: the few are then found first and sorted afterwards.
        by = column + 0 if self.are_few else column
        yield order.arranged(order.behind(found, column, key), by, key).limit(limit)
