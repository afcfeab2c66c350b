"""How much of the expected node time is accounted, and how much of the energy is measured."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import BigInteger, ColumnElement, Double, Table, and_, case, cast, func, literal, select

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import BUCKET_NS, HOUR_NS, from_ns, to_ns
from kwhere.database.node_states import LOST_NS, PULL_SECONDS, SLOT_SECONDS, UP_SLOTS
from kwhere.database.reading.figures import balance_total
from kwhere.database.reading.site import Moment, left_out_nodes
from kwhere.database.reading.unit_filters import candidates, conditions
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
    expected = select(nodes.id, _expected(moment, span)).where(nodes.first_start_ns.is_not(None))
    if node_ids is not None:
        expected = expected.where(nodes.id.in_(sorted(node_ids)))
    for node_id, expected_ns in moment.connection.execute(expected):
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
    left_out = left_out_nodes(moment.connection)
    nodes = schema.nodes.c
    chosen = None if node_ids is None else sorted(set(node_ids))
    if not moment.sight.everything:
        seen = seen_nodes(moment, span)
        if seen is None:
            return Coverage(None, None, 0.0)
        chosen = sorted(seen if chosen is None else seen & set(chosen))
    query = select(func.sum(cast(_expected(moment, span), Double))).where(nodes.first_start_ns.is_not(None))
    if chosen is not None:
        query = query.where(nodes.id.in_(chosen))
    elif left_out:
        query = query.where(nodes.id.not_in(sorted(left_out)))
    expected_ns = moment.connection.execute(query).scalar_one() or 0.0
    found = [_sums(moment, piece, chosen, left_out) for piece in pieces(moment, table, span)]
    accounted, measured, energy = (sum(values) for values in zip(*found, strict=True))
    completeness = min(1.0, accounted / expected_ns) if expected_ns else None
    if not moment.sight.everything:
        return Coverage(completeness, None, accounted / 1e9)
    return Coverage(completeness, measured / energy if energy else None, accounted / 1e9, energy)


def seen_nodes(moment: Moment, span: Span) -> set[int] | None:
    """Return ids of the nodes on which units that the asker sees ran within `span`; None: too many units to look at."""
    runs, units, asked = schema.unit_runs.c, schema.units.c, UnitQuery(span=span)
    few = candidates(moment.connection, asked, moment.sight)
    if few is None:
        return None
    query = select(runs.node_id).distinct().join(schema.units, units.id == runs.unit_id)
    found = (*conditions(moment.connection, asked), *moment.sight.units(by_index=False))
    return set(moment.connection.execute(query.where(units.id.in_(few), *found)).scalars())


def _sums(
    moment: Moment, piece: Piece, node_ids: Collection[int] | None, left_out: Collection[int]
) -> tuple[float, float, float]:
    figures = piece.table.c
    query = select(
        func.sum(cast(figures.accounted_ns, Double)),
        func.sum(cast(figures.measured_uj, Double)),
        func.sum(cast(balance_total(piece.table), Double)),
    ).where(figures.start_ns >= piece.start_ns, figures.start_ns < piece.end_ns)
    if node_ids is not None:
        query = query.where(figures.node_id.in_(list(node_ids)))
    elif left_out:
        query = query.where(figures.node_id.not_in(sorted(left_out)))
    accounted, measured, energy = moment.connection.execute(query).one()
    return accounted or 0.0, measured or 0.0, energy or 0.0


def aligned(span: Span) -> Span:
    """Return `span` widened to whole 5-minute buckets."""
    start_ns = to_ns(span.start) // BUCKET_NS * BUCKET_NS
    end_ns = -(-to_ns(span.end) // BUCKET_NS) * BUCKET_NS
    return Span(from_ns(start_ns), from_ns(end_ns))


def _expected(moment: Moment, span: Span) -> ColumnElement[int]:
    """Return the time of a node that is expected within `span`, ns, as an expression over its row.

    A node that is up is expected up to its newest slot: what it has not closed yet is not missing.
    """
    nodes = schema.nodes.c
    known: ColumnElement[int] = case((_is_up(moment), nodes.newest_end_ns), else_=literal(moment.now_ns, BigInteger))
    known = _smaller(known, func.coalesce(nodes.retired_ns, known))
    end_ns = _smaller(known, literal(to_ns(span.end), BigInteger))
    start_ns = _larger(nodes.first_start_ns, literal(to_ns(span.start), BigInteger))
    return case((end_ns > start_ns, end_ns - start_ns), else_=literal(0, BigInteger))


def _is_up(moment: Moment) -> ColumnElement[bool]:
    """The same as `node_states.state_of`, for all nodes at once."""
    nodes = schema.nodes.c
    slots = UP_SLOTS * func.coalesce(nodes.slot_seconds, SLOT_SECONDS)
    allowed_ns = (slots + func.coalesce(nodes.pull_seconds, PULL_SECONDS)) * NANOSECONDS_PER_SECOND
    return and_(
        nodes.retired_ns.is_(None),
        nodes.pull_ns >= moment.now_ns - LOST_NS,
        nodes.newest_end_ns >= moment.now_ns - allowed_ns,
    )


def _smaller(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one < other, one), else_=other)


def _larger(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one > other, one), else_=other)
