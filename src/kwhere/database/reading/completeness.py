"""How much of the expected node time is accounted, and how much of the energy is measured."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Select,
    Table,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
)

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import BUCKET_NS, HOUR_NS, from_ns, to_ns
from kwhere.database.node_states import LOST_NS, PULL_SECONDS, SLOT_SECONDS, UP_SLOTS
from kwhere.database.reading.figures import balance_total
from kwhere.database.reading.owner_arms import arms_of, count_lived, lived_in
from kwhere.database.reading.site import Moment, left_out_nodes
from kwhere.database.reading.unit_filters import FEW, candidates, conditions
from kwhere.database.records import UnitQuery


@dataclass(frozen=True, slots=True)
class Coverage:
    """Ratios 0..1; None where nothing was expected, or nothing used."""

    completeness_ratio: float | None
    measured_ratio: float | None
    accounted_seconds: float
    energy_uj: float = 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """A table of node figures and the part of a span that is read from it, UTC ns."""

    table: Table
    start_ns: int
    end_ns: int


def pieces(moment: Moment, table: Table, span: Span) -> list[Piece]:
    """Return what to read for `span`: of 5-minute figures, whole hours that have been summed up are read as such.

    Ten thousand nodes have three million 5-minute rows a day.
    """
    start_ns, end_ns = to_ns(span.start), to_ns(span.end)
    first_ns = moment.grid.hour_start(start_ns + HOUR_NS - 1)
    last_ns = min(moment.grid.hour_start(moment.now_ns) - HOUR_NS, moment.grid.hour_start(end_ns))
    if table is not schema.node_5m or last_ns <= first_ns or _waits(moment, first_ns, last_ns):
        return [Piece(table, start_ns, end_ns)]
    edges = [Piece(table, start_ns, first_ns), Piece(table, last_ns, end_ns)]
    return [Piece(schema.node_hour, first_ns, last_ns), *(edge for edge in edges if edge.end_ns > edge.start_ns)]


def _waits(moment: Moment, start_ns: int, end_ns: int) -> bool:
    """Return whether any hour within the span waits to be summed up."""
    touched = schema.touched.c
    query = select(touched.node_id).where(
        touched.width == "hour", touched.start_ns >= start_ns, touched.start_ns < end_ns
    )
    return moment.connection.execute(query.limit(1)).first() is not None


def coverage(moment: Moment, table: Table, span: Span, node_ids: Collection[int] | None = None) -> dict[int, Coverage]:
    """Return the coverage of each node that was expected within `span`, by id; `table` is one of the node tables."""
    figures = table.c
    query = (
        select(
            figures.node_id,
            func.sum(cast(figures.accounted_ns, Double)),
            func.sum(cast(figures.measured_uj, Double)),
            func.sum(cast(balance_total(table), Double)),
        )
        .where(figures.start_ns >= to_ns(span.start), figures.start_ns < to_ns(span.end))
        .group_by(figures.node_id)
    )
    if node_ids is not None:
        query = query.where(figures.node_id.in_(sorted(node_ids)))
    found = {row[0]: row[1:] for row in moment.connection.execute(query)}
    result: dict[int, Coverage] = {}
    nodes = schema.nodes.c
    expected = select(nodes.id, _EXPECTED).where(nodes.first_start_ns.is_not(None))
    if node_ids is not None:
        expected = expected.where(nodes.id.in_(sorted(node_ids)))
    for node_id, expected_ns in moment.connection.execute(expected, _times(moment, span)):
        accounted, measured, energy = found.get(node_id, (0.0, 0.0, 0.0))
        if expected_ns or accounted:
            result[node_id] = Coverage(
                min(1.0, accounted / expected_ns) if expected_ns else None,
                measured / energy if energy else None,
                accounted / 1e9,
            )
    return result


def overall(moment: Moment, table: Table, span: Span, node_ids: Collection[int] | None = None) -> Coverage:
    """Return the coverage of all nodes together that no host accounts for, or of those of `node_ids`, guests or not.

    Who does not see everything is told of the nodes that units they see ran on, and of no energy of others.
    """
    which = _chosen(moment, span, node_ids)
    if which is None:
        return Coverage(None, None, 0.0)
    accounted, measured, energy = _sums(moment, table, span, which, _MEASURED)
    completeness = _ratio(accounted, _expected_ns(moment, span, which))
    if not moment.sight.everything:
        return Coverage(completeness, None, accounted / 1e9)
    return Coverage(completeness, measured / energy if energy else None, accounted / 1e9, energy)


def completeness_ratio(
    moment: Moment, table: Table, span: Span, node_ids: Collection[int] | None = None
) -> float | None:
    """Return `overall`'s completeness alone: one column is summed instead of twenty."""
    which = _chosen(moment, span, node_ids)
    if which is None:
        return None
    (accounted,) = _sums(moment, table, span, which, _ACCOUNTED)
    return _ratio(accounted, _expected_ns(moment, span, which))


@dataclass(frozen=True, slots=True)
class _Which:
    """The nodes that are summed: those of `chosen`, else all but `left_out`."""

    chosen: Sequence[int] | None
    left_out: Sequence[int]

    def conditions(self, node_id: ColumnElement[int]) -> list[ColumnElement[bool]]:
        """Return what the row of a node fulfils."""
        if self.chosen is not None:
            return [node_id.in_(self.chosen)]
        return [node_id.not_in(self.left_out)] if self.left_out else []


def _chosen(moment: Moment, span: Span, node_ids: Collection[int] | None) -> _Which | None:
    """Return which nodes are summed; None: which the asker may be told of would take too long to find."""
    chosen = None if node_ids is None else sorted(set(node_ids))
    if not moment.sight.everything:
        seen = seen_nodes(moment, span)
        if seen is None:
            return None
        chosen = sorted(seen if chosen is None else seen & set(chosen))
    return _Which(chosen, sorted(left_out_nodes(moment.connection)) if chosen is None else ())


def _expected_ns(moment: Moment, span: Span, which: _Which) -> float:
    nodes = schema.nodes.c
    query = select(func.sum(cast(_EXPECTED, Double))).where(
        nodes.first_start_ns.is_not(None), *which.conditions(nodes.id)
    )
    return float(moment.connection.execute(query, _times(moment, span)).scalar_one() or 0.0)


def _ratio(accounted_ns: float, expected_ns: float) -> float | None:
    return min(1.0, accounted_ns / expected_ns) if expected_ns else None


def seen_nodes(moment: Moment, span: Span) -> set[int] | None:
    """Return ids of the nodes on which units that the asker sees ran within `span`; None: too many units to look at."""
    runs, units, asked = schema.unit_runs.c, schema.units.c, UnitQuery(span=span)
    arms = arms_of(moment.connection, asked, moment.sight)
    query = select(runs.node_id).distinct().join(schema.units, units.id == runs.unit_id)
    found = conditions(moment.connection, asked)
    few: Sequence[int] | Select[tuple[int]] | None
    if arms:
        few = lived_in(arms, span) if count_lived(moment.connection, arms, span, FEW) <= FEW else None
    else:
        few = candidates(moment.connection, asked, moment.sight)
        found += moment.sight.units(by_index=False)
    if few is None:
        return None
    return set(moment.connection.execute(query.where(units.id.in_(few), *found)).scalars())


_NODE_TABLES = (schema.node_5m, schema.node_hour, schema.node_day)
_ACCOUNTED = {table: [func.sum(cast(table.c.accounted_ns, Double))] for table in _NODE_TABLES}
_MEASURED = {
    table: [
        *_ACCOUNTED[table],
        func.sum(cast(table.c.measured_uj, Double)),
        func.sum(cast(balance_total(table), Double)),
    ]
    for table in _NODE_TABLES
}
"""Sums by table. Made once: an expression of twenty columns takes longer to build than to run."""


def _sums(
    moment: Moment, table: Table, span: Span, which: _Which, columns: Mapping[Table, Sequence[ColumnElement[float]]]
) -> list[float]:
    found: list[Sequence[float | None]] = []
    for piece in pieces(moment, table, span):
        figures = piece.table.c
        within = (figures.start_ns >= piece.start_ns, figures.start_ns < piece.end_ns)
        query = select(*columns[piece.table]).where(*within, *which.conditions(figures.node_id))
        found.append(tuple(moment.connection.execute(query).one()))
    return [sum(value or 0.0 for value in values) for values in zip(*found, strict=True)]


def aligned(span: Span) -> Span:
    """Return `span` widened to whole 5-minute buckets."""
    start_ns = to_ns(span.start) // BUCKET_NS * BUCKET_NS
    end_ns = -(-to_ns(span.end) // BUCKET_NS) * BUCKET_NS
    return Span(from_ns(start_ns), from_ns(end_ns))


def _times(moment: Moment, span: Span) -> dict[str, int]:
    """Return the parameters of `_EXPECTED`."""
    return {"now_ns": moment.now_ns, "from_ns": to_ns(span.start), "to_ns": to_ns(span.end)}


def _expected() -> ColumnElement[int]:
    """Return the time of a node that is expected within a span, ns, as an expression over its row.

    A node that is up is expected up to its newest slot: what it has not closed yet is not missing.
    """
    nodes, now_ns = schema.nodes.c, bindparam("now_ns", type_=BigInteger)
    known: ColumnElement[int] = case((_is_up(now_ns), nodes.newest_end_ns), else_=now_ns)
    known = _smaller(known, func.coalesce(nodes.retired_ns, known))
    end_ns = _smaller(known, bindparam("to_ns", type_=BigInteger))
    start_ns = _larger(nodes.first_start_ns, bindparam("from_ns", type_=BigInteger))
    return case((end_ns > start_ns, end_ns - start_ns), else_=literal(0, BigInteger))


def _is_up(now_ns: ColumnElement[int]) -> ColumnElement[bool]:
    """The same as `node_states.state_of`, for all nodes at once."""
    nodes = schema.nodes.c
    slots = UP_SLOTS * func.coalesce(nodes.slot_seconds, SLOT_SECONDS)
    allowed_ns = (slots + func.coalesce(nodes.pull_seconds, PULL_SECONDS)) * NANOSECONDS_PER_SECOND
    return and_(
        nodes.retired_ns.is_(None),
        nodes.pull_ns >= now_ns - LOST_NS,
        nodes.newest_end_ns >= now_ns - allowed_ns,
    )


def _smaller(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one < other, one), else_=other)


def _larger(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one > other, one), else_=other)


_EXPECTED = _expected()
