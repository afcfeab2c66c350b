"""Nodes: state, freshness, completeness."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import func, or_, select, tuple_

from kwhere.core.errors import KwhereError, NotFound
from kwhere.core.terms import EntryKind
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import DAY_NS, from_ns
from kwhere.database.node_names import is_same_host
from kwhere.database.node_states import NodeTimes, state_of
from kwhere.database.place_records import NodeSaid
from kwhere.database.reading.completeness import Coverage, aligned, coverage
from kwhere.database.reading.figures import methods
from kwhere.database.reading.host_names import host_book, is_called, named_nodes
from kwhere.database.reading.inventory import facts_by_node
from kwhere.database.reading.node_power import node_power_uw
from kwhere.database.reading.paging import decode_cursor, encode_cursor
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_filters import IS_AWAKE, cluster_ids
from kwhere.database.records import NodePage, NodeRecord, NodeState

MOST = 1000
_nodes, _clusters = schema.nodes.c, schema.clusters.c
NODE_COLUMNS = (*schema.nodes.columns,)


class AmbiguousNode(KwhereError):  # noqa: N818 - names the thing
    """Several nodes could be meant; `clusters` are theirs, `hosts` their full names where these tell them apart."""

    def __init__(self, node: str, clusters: Sequence[str], hosts: Sequence[str] = ()) -> None:
        where = f"in several clusters: {', '.join(clusters)}" if not hosts else f"one of several: {', '.join(hosts)}"
        super().__init__(f"node {node} is {where}; say which")
        self.clusters = tuple(clusters)


def state_of_row(row: Any, now_ns: int) -> NodeState:
    """Return the state of a row of `NODE_COLUMNS`."""
    return state_of(NodeTimes(*(getattr(row, name) for name in NodeTimes._fields)), now_ns)


def list_nodes(moment: Moment, cluster: str | None, state: NodeState | None, after: str | None, limit: int) -> NodePage:
    """Return one page of nodes by cluster and name; a state is looked for within as many pages as it takes."""
    moment.sight.demand_site("nodes")
    limit = max(1, min(limit, MOST))
    query = (
        select(*NODE_COLUMNS, _clusters.name.label("cluster"))
        .join(schema.clusters, _clusters.id == _nodes.cluster_id)
        .order_by(_clusters.name, _nodes.name)
    )
    if cluster is not None:
        query = query.where(_clusters.name == cluster)
    if after is not None:
        query = query.where(tuple_(_clusters.name, _nodes.name) > tuple_(*decode_cursor(after, (str, str))))
    if state is None:
        query = query.limit(limit + 1)
    rows = [
        row for row in moment.connection.execute(query) if state is None or state_of_row(row, moment.now_ns) is state
    ]
    shown = rows[:limit]
    more = encode_cursor([shown[-1].cluster, shown[-1].name]) if len(rows) > limit else None
    return NodePage(tuple(_records(moment, shown)), more)


def find_node(moment: Moment, node: str, cluster: str | None) -> NodeRecord:
    """Return one node. Raises NotFound, or AmbiguousNode where `cluster` is needed."""
    moment.sight.demand_site(f"node {node}")
    query = (
        select(*NODE_COLUMNS, _clusters.name.label("cluster"))
        .join(schema.clusters, _clusters.id == _nodes.cluster_id)
        .where(_nodes.id.in_(_named(moment, node, cluster)))
        .order_by(_clusters.name, _nodes.name)
    )
    rows = moment.connection.execute(query).all()
    if not rows:
        raise NotFound(_why_none(moment, node, cluster))
    if len(rows) > 1:
        clusters = list(dict.fromkeys(row.cluster for row in rows))
        raise AmbiguousNode(node, clusters, [row.name for row in rows] if len(clusters) < len(rows) else ())
    return _records(moment, rows)[0]


def _why_none(moment: Moment, node: str, cluster: str | None) -> str:
    theirs, within = schema.manager_nodes.c, cluster_ids(moment.connection, cluster)
    query = select(theirs.manager, theirs.name).where(theirs.cluster_id.in_(within), is_called(theirs.name, node))
    told = sorted({row.manager for row in moment.connection.execute(query) if is_same_host(row.name, node)})
    if told:
        return f"node {node}: no agent there was ever read, only {' and '.join(told)} told of it"
    return f"node {node}: none" + (f" in cluster {cluster}" if cluster else "")


def node_id(moment: Moment, cluster: str, node: str) -> int:
    """Return the id of a node. Raises NotFound."""
    moment.sight.demand_site(f"node {node}")
    found = _named(moment, node, cluster)
    if len(found) != 1:
        raise NotFound(f"node {node}: {'several' if found else 'none'} in cluster {cluster}")
    return found[0]


def _named(moment: Moment, node: str, cluster: str | None) -> list[int]:
    return named_nodes(moment.connection, node, cluster_ids(moment.connection, cluster))


def _records(moment: Moment, rows: Sequence[Any]) -> list[NodeRecord]:
    ids = [row.id for row in rows]
    day = aligned(Span(from_ns(moment.now_ns - DAY_NS), from_ns(moment.now_ns)))
    covered = coverage(moment, schema.node_5m, day, ids)
    running = _running(moment, ids)
    lost, held = _counts(moment, schema.lost, ids), _counts(moment, schema.quarantine, ids)
    stopped, said = _stopped(moment, ids), _said(moment, rows)
    facts = facts_by_node(moment.connection, [(row.cluster, row.name) for row in rows])
    return [
        replace(
            _record(moment, row, covered.get(row.id)),
            units_running=running.get(row.id, 0),
            stopped=stopped.get(row.id),
            lost_records=lost.get(row.id, 0),
            quarantined_slots=held.get(row.id, 0),
            said=tuple(said.get((row.cluster_id, row.name), ())),
            facts=facts[row.cluster, row.name],
        )
        for row in rows
    ]


def _running(moment: Moment, ids: Sequence[int]) -> dict[int, int]:
    """Return of how many units agents told last that run on each node."""
    runs = schema.unit_runs.c
    query = (
        select(runs.node_id, func.count())
        .select_from(schema.unit_runs.outerjoin(schema.units, schema.units.c.id == runs.unit_id))
        .where(runs.node_id.in_(list(ids)), runs.ended_ns.is_(None), runs.kind == EntryKind.UNIT)
        .where(or_(runs.unit_id.is_(None), IS_AWAKE))
        .group_by(runs.node_id)
    )
    return {row[0]: row[1] for row in moment.connection.execute(query)}


def _counts(moment: Moment, table: Any, ids: Sequence[int]) -> dict[int, int]:
    query = select(table.c.node_id, func.count()).where(table.c.node_id.in_(list(ids)))
    return {row[0]: row[1] for row in moment.connection.execute(query.group_by(table.c.node_id))}


def _said(moment: Moment, rows: Sequence[Any]) -> Mapping[tuple[int, str], list[NodeSaid]]:
    """Return what managers say of nodes, by cluster and name as agents report it."""
    theirs, within = schema.manager_nodes.c, {row.cluster_id for row in rows}
    book, found = host_book(moment.connection, within), dict[tuple[int, str], list[NodeSaid]]()
    query = select(schema.manager_nodes).where(theirs.cluster_id.in_(sorted(within))).order_by(theirs.manager)
    if len(rows) == 1:
        query = query.where(is_called(theirs.name, rows[0].name))
    for row in moment.connection.execute(query):
        hosts = book.hosts(row.cluster_id, row.name)
        if len(hosts) == 1:  # of several nobody knows which is meant
            words = (row.manager, row.state, bool(row.is_schedulable), row.reason, row.type, from_ns(row.seen_ns))
            found.setdefault((row.cluster_id, hosts[0]), []).append(NodeSaid(*words))
    return found


def _stopped(moment: Moment, ids: Sequence[int]) -> Mapping[int, str]:
    cursors = schema.cursors.c
    query = select(cursors.node_id, cursors.stopped).where(cursors.node_id.in_(list(ids)), cursors.stopped.is_not(None))
    return {row.node_id: row.stopped for row in moment.connection.execute(query)}


def _record(moment: Moment, row: Any, covered: Coverage | None) -> NodeRecord:
    state = state_of_row(row, moment.now_ns)
    newest_ns, offset_ns = row.newest_end_ns, row.clock_offset_ns
    return NodeRecord(
        cluster=row.cluster,
        node=row.name,
        state=state,
        power_uw=node_power_uw(row, state),
        completeness_ratio=covered.completeness_ratio if covered else None,
        lag_seconds=None if newest_ns is None else (moment.now_ns - newest_ns) / 1e9,
        newest_slot_at=None if newest_ns is None else from_ns(newest_ns),
        first_slot_at=None if row.first_start_ns is None else from_ns(row.first_start_ns),
        last_pull_at=None if row.pull_ns is None else from_ns(row.pull_ns),
        last_error=row.error,
        stopped=None,
        clock_offset_seconds=None if offset_ns is None else offset_ns / 1e9,
        cpus=row.cpus,
        version=row.version,
        idle_policy=row.idle_policy,
        parent=row.parent,
        units_running=0,
        methods=methods(row.methods),
        measured_ratio=covered.measured_ratio if covered else None,
        lost_records=0,
        quarantined_slots=0,
        retired_at=None if row.retired_ns is None else from_ns(row.retired_ns),
    )
