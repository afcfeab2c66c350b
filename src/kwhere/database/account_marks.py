"""Which days of accounts have to be summed up anew: usage came, or a unit has another owner."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.grid import DAY_NS

_marks = schema.account_day_marks
_units, _runs, _nodes, _totals = schema.units.c, schema.unit_runs.c, schema.nodes.c, schema.run_totals.c


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of a cluster, UTC ns."""

    cluster_id: int
    from_ns: int
    to_ns: int
    version: int = 1


def mark(connection: Connection, marks: Iterable[Mark]) -> None:
    """Mark spans."""
    rows: list[bulk.Row] = [(*words, 1) for words in sorted({(m.cluster_id, m.from_ns, m.to_ns) for m in marks})]
    bulk.upsert(connection, _marks, ("cluster_id", "from_ns", "to_ns"), {"version": Merge.COUNT_UP}, rows)


def mark_nodes(connection: Connection, node_ids: Sequence[int], span_ns: tuple[int, int]) -> None:
    """Mark a day of the clusters of some nodes: their usage of it has changed."""
    query = select(_nodes.cluster_id).where(_nodes.id.in_(node_ids)).distinct()
    mark(connection, [Mark(cluster_id, *span_ns) for cluster_id in connection.execute(query).scalars()])


def mark_runs(connection: Connection, run_ids: Collection[int]) -> None:
    """Mark the lives of runs of nodes, in whole days of UTC: their usage goes to another owner."""
    lives = (
        select(_nodes.cluster_id, _runs.started_ns, _totals.newest_end_ns)
        .join(schema.nodes, _nodes.id == _runs.node_id)
        .join(schema.run_totals, _totals.unit_run_id == _runs.id)
        .where(_runs.id.in_(sorted(run_ids)))
    )
    mark(connection, [_of_life(*row) for row in connection.execute(lives)])


def mark_units(connection: Connection, unit_ids: Collection[int]) -> None:
    """Mark the lives of all runs of some units: the units have another owner."""
    run_ids = select(_runs.id).where(_runs.unit_id.in_(sorted(unit_ids)))
    mark_runs(connection, list(connection.execute(run_ids).scalars()))


def _of_life(cluster_id: int, started_ns: int, ended_ns: int) -> Mark:
    return Mark(cluster_id, started_ns // DAY_NS * DAY_NS, -(-max(ended_ns, started_ns + 1) // DAY_NS) * DAY_NS)


def read_marks(connection: Connection, cluster_ids: Collection[int] | None, end_ns: int) -> list[Mark]:
    """Return the marks that begin before `end_ns`, of these clusters or of all."""
    query = select(*_marks.columns).where(_marks.c.from_ns < end_ns)
    if cluster_ids is not None:
        query = query.where(_marks.c.cluster_id.in_(sorted(cluster_ids)))
    return [Mark(*row) for row in connection.execute(query)]


def clear(connection: Connection, marks: Sequence[Mark]) -> None:
    """Clear marks, unless they were set again since they were read."""
    held = _marks.c
    for one in marks:
        same = (held.cluster_id == one.cluster_id, held.from_ns == one.from_ns, held.to_ns == one.to_ns)
        connection.execute(delete(_marks).where(*same, held.version == one.version))


def booked_days(connection: Connection, cluster_id: int, from_ns: int, to_ns: int) -> list[int]:
    """Return the starts of the days within a span, the one that holds its start included, that have usage."""
    days = schema.node_day.c
    of_cluster = select(_nodes.id).where(_nodes.cluster_id == cluster_id)
    # A day of the site begins at most a day before the span.
    query = (
        select(days.start_ns)
        .where(days.node_id.in_(of_cluster), days.start_ns > from_ns - DAY_NS * 25 // 24, days.start_ns < to_ns)
        .distinct()
        .order_by(days.start_ns)
    )
    return list(connection.execute(query).scalars())
