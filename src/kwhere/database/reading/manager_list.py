"""Resource managers: how far each was read, and how much of it waits."""

from typing import Any

from sqlalchemy import case, func, select

from kwhere.database import schema
from kwhere.database.grid import from_ns
from kwhere.database.place_records import ManagerRecord
from kwhere.database.reading.seen_figures import own_clusters
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_filters import RUNS
from kwhere.database.reading.waiting_list import seen_waiting

_states, _clusters, _units = schema.manager_states.c, schema.clusters.c, schema.units.c
_nodes, _waiting = schema.manager_nodes.c, schema.waiting_units.c
_Counts = dict[tuple[int, str], Any]


def list_managers(moment: Moment, cluster: str | None) -> tuple[ManagerRecord, ...]:
    """Return every manager that was ever asked, by cluster and name; counts of units are those that are seen.

    Who does not see everything is shown the managers of their clusters: that one fails, but not at what.
    """
    query = select(schema.manager_states, _clusters.name).join(schema.clusters, _clusters.id == _states.cluster_id)
    if cluster is not None:
        query = query.where(_clusters.name == cluster)
    if not moment.sight.everything:
        query = query.where(_clusters.id.in_(sorted(own_clusters(moment))))
    rows = moment.connection.execute(query.order_by(_clusters.name, _states.manager)).all()
    nodes, running, waiting = _node_counts(moment), _running(moment), _waiting_counts(moment)
    none = (0, 0) if moment.sight.site else (None, None)
    return tuple(
        ManagerRecord(
            cluster=row.name,
            manager=row.manager,
            good_until=_moment(row.good_until_ns),
            facts_at=_moment(row.facts_ns),
            error=row.error if moment.sight.everything or row.error is None else "it could not be read",
            error_since=_moment(row.error_since_ns),
            queue_at=_moment(row.queue_ns),
            nodes=nodes.get((row.cluster_id, row.manager), none)[0],
            nodes_closed=nodes.get((row.cluster_id, row.manager), none)[1],
            units_running=running.get((row.cluster_id, row.manager), 0),
            units_waiting=waiting.get((row.cluster_id, row.manager), 0),
        )
        for row in rows
    )


def _moment(time_ns: int | None) -> Any:
    return None if time_ns is None else from_ns(time_ns)


def _node_counts(moment: Moment) -> _Counts:
    if not moment.sight.site:
        return {}
    closed = func.sum(case((_nodes.is_schedulable, 0), else_=1))
    query = select(_nodes.cluster_id, _nodes.manager, func.count(), closed).group_by(_nodes.cluster_id, _nodes.manager)
    return {(row[0], row[1]): (row[2], int(row[3])) for row in moment.connection.execute(query)}


def _running(moment: Moment) -> _Counts:
    query = (
        select(_units.cluster_id, _units.manager, func.count())
        .where(RUNS, *moment.sight.units())
        .group_by(_units.cluster_id, _units.manager)
    )
    return {(row[0], row[1]): row[2] for row in moment.connection.execute(query)}


def _waiting_counts(moment: Moment) -> _Counts:
    query = (
        select(_waiting.cluster_id, _waiting.manager, func.sum(_waiting.tasks))
        .where(*seen_waiting(moment))
        .group_by(_waiting.cluster_id, _waiting.manager)
    )
    return {(row[0], row[1]): int(row[2]) for row in moment.connection.execute(query)}
