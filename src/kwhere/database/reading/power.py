"""Power of nodes over time, and the balance of single slots."""

import json
from typing import Any

from sqlalchemy import Table, func, select

from kwhere.core.terms import Component, Method
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.flags import from_bits
from kwhere.database.grid import BUCKET_NS, from_ns, to_ns
from kwhere.database.power_records import BalanceSlot, ComponentBalance, ComponentShares, PowerPoint
from kwhere.database.reading.figures import shares, sums
from kwhere.database.reading.host_names import named_nodes
from kwhere.database.reading.node_list import node_id
from kwhere.database.reading.seen_figures import seen_power
from kwhere.database.reading.site import Moment, left_out_nodes
from kwhere.database.reading.unit_filters import cluster_ids
from kwhere.database.reading.usage_tables import bucket_ns_of, tables_for
from kwhere.database.schema import BALANCE_COLUMNS

_slots = schema.slots.c


def power_points(
    moment: Moment, span: Span, step_seconds: float, cluster: str | None, node: str | None
) -> tuple[PowerPoint, ...]:
    """Return energy by component and part per step: from slots for steps below 5 minutes, else from buckets."""
    step_ns = max(1, int(step_seconds * 1e9))
    if node is not None:
        moment.sight.demand_site(f"power of node {node}")
    elif not moment.sight.everything:
        return seen_power(moment, span, step_seconds, cluster)
    ids = _node_ids(moment, cluster, node)
    if step_ns < BUCKET_NS and ids:
        points = _from_slots(moment, span, step_ns, ids)
        if points:
            return points
    tables = tables_for(moment, span)
    return _from_buckets(moment, tables.node, tables.span, step_ns, ids)


def _node_ids(moment: Moment, cluster: str | None, node: str | None) -> list[int]:
    nodes = schema.nodes.c
    within = cluster_ids(moment.connection, cluster)
    query = select(nodes.id).where(nodes.cluster_id.in_(within))
    if node is not None:
        return named_nodes(moment.connection, node, within)
    left_out = left_out_nodes(moment.connection, within)
    return [row for row in moment.connection.execute(query).scalars() if row not in left_out]


def _from_slots(moment: Moment, span: Span, step_ns: int, ids: list[int]) -> tuple[PowerPoint, ...]:
    """A slot counts in the step in which it ends."""
    bucket = (_slots.end_ns - 1) - (_slots.end_ns - 1) % step_ns
    query = (
        select(
            bucket.label("start_ns"),
            func.sum(_slots.end_ns - _slots.start_ns).label("accounted_ns"),
            func.count(_slots.node_id.distinct()).label("nodes"),
            *sums(schema.slots, BALANCE_COLUMNS),
        )
        .where(_slots.node_id.in_(ids), _slots.end_ns > to_ns(span.start), _slots.end_ns <= to_ns(span.end))
        .group_by(bucket)
        .order_by(bucket)
    )
    return tuple(_point(row, step_ns) for row in moment.connection.execute(query))


def _from_buckets(moment: Moment, table: Table, span: Span, step_ns: int, ids: list[int]) -> tuple[PowerPoint, ...]:
    width_ns = bucket_ns_of(table)
    step_ns = max(width_ns, step_ns // width_ns * width_ns)
    start = table.c.start_ns
    bucket = start - (start - to_ns(span.start)) % step_ns
    query = (
        select(
            bucket.label("start_ns"),
            func.sum(table.c.accounted_ns).label("accounted_ns"),
            func.count(table.c.node_id.distinct()).label("nodes"),
            *sums(table, BALANCE_COLUMNS),
        )
        .where(table.c.node_id.in_(ids), start >= to_ns(span.start), start < to_ns(span.end))
        .group_by(bucket)
        .order_by(bucket)
    )
    return tuple(_point(row, step_ns) for row in moment.connection.execute(query))


def _point(row: Any, step_ns: int) -> PowerPoint:
    return PowerPoint(
        span=Span(from_ns(row.start_ns), from_ns(row.start_ns + step_ns)),
        components=shares(row._mapping),
        node_seconds=float(row.accounted_ns) / 1e9,
        nodes=row.nodes,
    )


def balance_slots(moment: Moment, cluster: str, node: str, span: Span, limit: int) -> tuple[BalanceSlot, ...]:
    """Return the newest `limit` slots that ended within `span`, in time order. Raises NotFound."""
    query = (
        select(
            _slots.start_ns,
            _slots.end_ns,
            _slots.flags,
            _slots.controls,
            *(_slots[name] for name in BALANCE_COLUMNS),
        )
        .where(
            _slots.node_id == node_id(moment, cluster, node),
            _slots.end_ns > to_ns(span.start),
            _slots.end_ns <= to_ns(span.end),
        )
        .order_by(_slots.end_ns.desc())
        .limit(max(1, limit))
    )
    return tuple(reversed([_balance(row) for row in moment.connection.execute(query)]))


def _balance(row: Any) -> BalanceSlot:
    controls, parts = json.loads(row.controls), shares(row._mapping)
    components = tuple(
        _component(component, controls[component], parts.get(component, ComponentShares(0, 0, 0, 0)))
        for component in Component
        if component in controls
    )
    return BalanceSlot(
        span=Span(from_ns(row.start_ns), from_ns(row.end_ns)),
        node_uj=sum(item.node_uj for item in components),
        units_uj=sum(item.units_dynamic_uj + item.units_idle_uj for item in components),
        system_uj=sum(item.system_uj for item in components),
        unallocated_uj=sum(item.unallocated_uj for item in components),
        residual_uj=sum(item.residual_uj for item in components),
        components=components,
        flags=from_bits(row.flags),
    )


def _component(component: Component, control: list[Any], part: ComponentShares) -> ComponentBalance:
    node_uj, span_ns, method, source = control
    return ComponentBalance(
        component=component,
        node_uj=node_uj,
        units_dynamic_uj=part.units_dynamic_uj,
        units_idle_uj=part.units_idle_uj,
        system_uj=part.system_uj,
        unallocated_uj=part.unallocated_uj,
        residual_uj=node_uj - part.total_uj,
        span_ns=span_ns,
        method=Method(method),
        source=source,
    )
