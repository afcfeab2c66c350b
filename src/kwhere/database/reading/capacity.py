"""What managers' nodes have: allocated, free, closed; and how much of a cluster's CPU time was allocated over time."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Double, cast, func, select

from kwhere.core.terms import EntryKind
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import from_ns
from kwhere.database.place_records import (
    Amount,
    CapacityRow,
    ManagerNodePage,
    ManagerNodeQuery,
    ManagerNodeRecord,
    ManagerNodeSort,
    Occupancy,
)
from kwhere.database.reading.figures import whole
from kwhere.database.reading.host_names import host_book, is_called
from kwhere.database.reading.keyset import Order, take_page
from kwhere.database.reading.site import Moment, left_out_nodes
from kwhere.database.reading.unit_filters import cluster_ids
from kwhere.database.reading.usage_tables import day_tables

MOST = 1000
WHAT = "nodes and capacity as managers see them"
_nodes, _clusters = schema.manager_nodes.c, schema.clusters.c
_SORTS: dict[ManagerNodeSort, ColumnElement[Any]] = {
    ManagerNodeSort.NAME: _nodes.name,
    ManagerNodeSort.STATE: _nodes.state,
    ManagerNodeSort.TYPE: _nodes.type,
    ManagerNodeSort.CPUS: _nodes.cpus,
    ManagerNodeSort.MEMORY_BYTES: _nodes.memory_bytes,
    ManagerNodeSort.ALLOCATED_CPUS: _nodes.allocated_cpus,
}


def list_manager_nodes(moment: Moment, query: ManagerNodeQuery) -> ManagerNodePage:
    """Return one page of nodes; those without the figure it is sorted by come last. Raises BadCursor, NotPermitted."""
    moment.sight.demand_site(WHAT)
    statement = _with_cluster().where(*_conditions(query))
    key = (_nodes.cluster_id, _nodes.manager, _nodes.name)
    order = Order(str(query.sort), _SORTS[query.sort], key, query.descending)
    rows, after = take_page(moment.connection, statement, order, query.after, max(1, min(query.limit, MOST)))
    book = host_book(moment.connection, {row.cluster_id for row in rows})
    return ManagerNodePage(tuple(_reported(_record(row), book.hosts(row.cluster_id, row.name)) for row in rows), after)


def _reported(node: ManagerNodeRecord, hosts: Sequence[str]) -> ManagerNodeRecord:
    return replace(node, is_reporting=bool(hosts), reported_as=hosts[0] if len(hosts) == 1 else None)


def _with_cluster() -> Any:
    query = select(schema.manager_nodes, _clusters.name.label("cluster"))
    return query.join(schema.clusters, _clusters.id == _nodes.cluster_id)


def _conditions(query: ManagerNodeQuery) -> list[ColumnElement[bool]]:
    asked = (
        (_clusters.name, query.cluster),
        (_nodes.manager, query.manager),
        (_nodes.type, query.type),
        (_nodes.state, query.state),
        (_nodes.is_schedulable, query.is_schedulable),
    )
    found = [column == value for column, value in asked if value is not None]
    return found if query.node is None else [*found, is_called(_nodes.name, query.node)]


def capacity(moment: Moment, cluster: str | None) -> tuple[CapacityRow, ...]:
    """Return what nodes of each type have together, by cluster, manager and type. Raises NotPermitted."""
    moment.sight.demand_site(WHAT)
    statement = _with_cluster()
    if cluster is not None:
        statement = statement.where(_clusters.name == cluster)
    groups: dict[tuple[str, str, str], list[ManagerNodeRecord]] = {}
    rows = moment.connection.execute(statement).all()
    book = host_book(moment.connection, {row.cluster_id for row in rows})
    for row in rows:
        node = _reported(_record(row), book.hosts(row.cluster_id, row.name))
        groups.setdefault((row.cluster, row.manager, row.type or ""), []).append(node)
    return tuple(_capacity_row(nodes) for _, nodes in sorted(groups.items()))


def _capacity_row(nodes: Sequence[ManagerNodeRecord]) -> CapacityRow:
    models = sorted({model for node in nodes for model in node.gpus})
    return CapacityRow(
        cluster=nodes[0].cluster,
        manager=nodes[0].manager,
        type=nodes[0].type,
        nodes=len(nodes),
        nodes_closed=sum(not node.is_schedulable for node in nodes),
        nodes_by_state=dict(sorted(Counter(node.state for node in nodes).items())),
        cpus=_added(node.cpus for node in nodes),
        memory=_added(node.memory for node in nodes),
        gpus={model: _sum_of([node.gpus[model] for node in nodes if model in node.gpus]) for model in models},
        nodes_unreported=sum(not node.is_reporting for node in nodes),
    )


def _added(amounts: Iterable[Amount | None]) -> Amount | None:
    """Return the sum; of nodes of which one is not known, what is known to be there in total."""
    known = [amount for amount in amounts if amount is not None]
    return _sum_of(known) if known else None


def _sum_of(known: Sequence[Amount]) -> Amount:
    return Amount(
        sum(amount.total for amount in known),
        *(_sum(getattr(amount, name) for amount in known) for name in ("allocated", "free", "closed")),
    )


def _sum(values: Iterator[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _record(row: Any) -> ManagerNodeRecord:
    given: Mapping[str, float] | None = json.loads(row.allocated_gpus) if row.allocated_gpus else None
    totals: Mapping[str, float] = json.loads(row.gpus)
    is_open = bool(row.is_schedulable)
    gpus = {
        model: _amount(total, None if given is None else _given(given, model, totals), is_open)
        for model, total in sorted(totals.items())
    }
    return ManagerNodeRecord(
        cluster=row.cluster,
        manager=row.manager,
        name=row.name,
        state=row.state,
        is_schedulable=is_open,
        reason=row.reason,
        type=row.type,
        cpus=None if row.cpus is None else _amount(row.cpus, row.allocated_cpus, is_open),
        memory=None if row.memory_bytes is None else _amount(row.memory_bytes, row.allocated_memory_bytes, is_open),
        gpus=gpus,
        queues=tuple(json.loads(row.queues)),
        seen_at=from_ns(row.seen_ns),
    )


def _given(given: Mapping[str, float], model: str, totals: Mapping[str, float]) -> float | None:
    """Return how many of a model are allocated; None where the manager counts them without their model."""
    if model in given or not given:
        return given.get(model, 0.0)
    if set(given) <= set(totals):
        return 0.0
    return sum(given.values()) if len(totals) == 1 else None


def _amount(total: float, allocated: float | None, is_open: bool) -> Amount:
    if allocated is None:
        return Amount(total, None, None if is_open else 0.0, 0.0 if is_open else None)
    rest = max(0.0, total - allocated)
    return Amount(total, allocated, rest if is_open else 0.0, 0.0 if is_open else rest)


def occupancy(moment: Moment, cluster: str, span: Span) -> tuple[Occupancy, ...]:
    """Return how much of a cluster's CPU time was allocated, by day of the site, in time order. Raises NotPermitted.

    Agents book it: without an agent on its nodes a manager's allocations are not recorded over time.
    """
    moment.sight.demand_site(f"occupancy of cluster {cluster}")
    tables = day_tables(moment, span)
    ids = cluster_ids(moment.connection, cluster)
    left_out = sorted(left_out_nodes(moment.connection, set(ids)))
    nodes, usage, node_day, runs = schema.nodes.c, tables.usage.c, tables.node.c, schema.unit_runs.c
    ours = (nodes.cluster_id.in_(ids), nodes.id.not_in(left_out))
    there = cast(nodes.cpus, Double) * cast(node_day.accounted_ns, Double)
    capacity_of = (
        select(node_day.start_ns, func.sum(there))
        .join(schema.nodes, nodes.id == node_day.node_id)
        .where(node_day.start_ns >= tables.start_ns, node_day.start_ns < tables.end_ns, *ours)
        .group_by(node_day.start_ns)
    )
    used = (
        select(
            usage.start_ns,
            func.sum(cast(usage.cpu_allocated_ns, Double)),
            func.sum(cast(usage.cpu_user_ns, Double)),
            func.sum(cast(usage.cpu_system_ns, Double)),
        )
        .join(schema.unit_runs, runs.id == usage.unit_run_id)
        .join(schema.nodes, nodes.id == usage.node_id)
        .where(usage.start_ns >= tables.start_ns, usage.start_ns < tables.end_ns)
        .where(runs.kind == str(EntryKind.UNIT), *ours)
        .group_by(usage.start_ns)
    )
    by_day = {row[0]: row for row in moment.connection.execute(used)}
    rows = sorted((row[0], row[1]) for row in moment.connection.execute(capacity_of))
    return tuple(_occupancy(moment, start_ns, by_day.get(start_ns), there_ns) for start_ns, there_ns in rows)


def _occupancy(moment: Moment, start_ns: int, used: Any, there_ns: float | None) -> Occupancy:
    given, user, system = (None, None, None) if used is None else used[1:]
    busy = None if user is None and system is None else (user or 0) + (system or 0)
    start, end = from_ns(start_ns), from_ns(moment.grid.day_end(start_ns))
    return Occupancy(start, end, whole(given), whole(busy), whole(there_ns))
