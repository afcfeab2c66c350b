"""From records of managers, capacity, members and queues to the API's JSON and CSV."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from kwhere.api.csv_text import Cell
from kwhere.api.place_models import (
    AmountView,
    AskedView,
    CapacityView,
    ManagerNodeView,
    ManagerView,
    MembershipView,
    NodeSaidView,
    OccupancyView,
    WaitingView,
)
from kwhere.core.quantities import seconds
from kwhere.database.place_records import (
    Amount,
    CapacityRow,
    ManagerNodeRecord,
    ManagerRecord,
    MembershipRecord,
    NodeSaid,
    Occupancy,
    WaitingRecord,
)


def manager_view(record: ManagerRecord) -> ManagerView:
    """Return a manager's state."""
    return ManagerView(
        cluster=record.cluster,
        manager=record.manager,
        good_until=record.good_until,
        facts_at=record.facts_at,
        queue_at=record.queue_at,
        error=record.error,
        error_since=record.error_since,
        nodes=record.nodes,
        nodes_closed=record.nodes_closed,
        units_running=record.units_running,
        units_waiting=record.units_waiting,
    )


def said_view(said: NodeSaid) -> NodeSaidView:
    """Return what a manager says of a node's state."""
    return NodeSaidView(said.manager, said.state, said.is_schedulable, said.reason, said.type, said.seen_at)


def _amount_view(amount: Amount | None) -> AmountView | None:
    return None if amount is None else AmountView(amount.total, amount.allocated, amount.free, amount.closed)


def _gpus_view(gpus: Mapping[str, Amount]) -> dict[str, AmountView]:
    return {model: AmountView(one.total, one.allocated, one.free, one.closed) for model, one in gpus.items()}


def manager_node_view(record: ManagerNodeRecord) -> ManagerNodeView:
    """Return a node as its manager sees it."""
    return ManagerNodeView(
        cluster=record.cluster,
        manager=record.manager,
        name=record.name,
        state=record.state,
        schedulable=record.is_schedulable,
        reason=record.reason,
        type=record.type,
        cpus=_amount_view(record.cpus),
        memory_bytes=_amount_view(record.memory),
        gpus=_gpus_view(record.gpus),
        queues=list(record.queues),
        seen_at=record.seen_at,
        reporting=record.is_reporting,
        reported_as=record.reported_as,
    )


def capacity_view(row: CapacityRow) -> CapacityView:
    """Return what nodes of one type have together."""
    return CapacityView(
        cluster=row.cluster,
        manager=row.manager,
        type=row.type,
        nodes=row.nodes,
        nodes_closed=row.nodes_closed,
        nodes_by_state=dict(row.nodes_by_state),
        cpus=_amount_view(row.cpus),
        memory_bytes=_amount_view(row.memory),
        gpus=_gpus_view(row.gpus),
        nodes_unreported=row.nodes_unreported,
    )


def occupancy_view(day: Occupancy) -> OccupancyView:
    """Return a day's CPU seconds."""
    return OccupancyView(
        day.start, day.end, *(_seconds(ns) for ns in (day.cpu_allocated_ns, day.cpu_used_ns, day.cpu_capacity_ns))
    )


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else seconds(time_ns)


def membership_view(record: MembershipRecord) -> MembershipView:
    """Return a membership."""
    return MembershipView(record.cluster, record.user, record.project, list(record.managers))


def waiting_view(record: WaitingRecord, now: datetime) -> WaitingView:
    """Return a waiting unit."""
    submitted_at = record.submitted_at
    return WaitingView(
        cluster=record.cluster,
        manager=record.manager,
        unit=record.unit,
        name=record.name,
        user=record.user,
        project=record.project,
        group=record.group,
        queue=record.queue,
        state=record.state,
        reason=record.reason,
        submitted_at=submitted_at,
        expected_start_at=record.expected_start_at,
        waiting_seconds=None if submitted_at is None else max(0.0, (now - submitted_at) / timedelta(seconds=1)),
        priority=record.priority,
        asked=AskedView(record.asked_cpus, record.asked_memory_bytes, dict(record.asked_gpus), record.asked_nodes),
        tasks=record.tasks,
        labels=dict(record.tags),
        seen_at=record.seen_at,
    )


_AMOUNT = ("total", "allocated", "free", "closed")
MANAGER_NODE_HEADER = [
    *("cluster", "manager", "name", "state", "schedulable", "reason", "type"),
    *(f"cpus_{part}" for part in _AMOUNT),
    *(f"memory_{part}_bytes" for part in _AMOUNT),
    *("gpus_total", "gpus_allocated", "queues", "seen_at", "reporting"),
]
MEMBERSHIP_HEADER = ["cluster", "user", "project", "managers"]
WAITING_HEADER = [
    *("cluster", "manager", "unit", "name", "user", "project", "group", "queue", "state", "reason"),
    *("submitted_at", "expected_start_at", "waiting_seconds", "priority"),
    *("asked_cpus", "asked_memory_bytes", "asked_gpus", "asked_nodes", "tasks", "seen_at"),
]


def manager_node_row(node: ManagerNodeView) -> list[Cell]:
    """Return a node in the order of `MANAGER_NODE_HEADER`."""
    return [
        *(node.cluster, node.manager, node.name, node.state, str(node.schedulable).lower(), node.reason, node.type),
        *_amount_cells(node.cpus),
        *_amount_cells(node.memory_bytes),
        _counts({model: amount.total for model, amount in node.gpus.items()}),
        _counts({model: amount.allocated for model, amount in node.gpus.items()}),
        *(" ".join(node.queues), node.seen_at, str(node.reporting).lower()),
    ]


def membership_row(membership: MembershipView) -> list[Cell]:
    """Return a membership in the order of `MEMBERSHIP_HEADER`."""
    return [membership.cluster, membership.user, membership.project, " ".join(membership.managers)]


def waiting_row(unit: WaitingView) -> list[Cell]:
    """Return a waiting unit in the order of `WAITING_HEADER`."""
    return [
        *(unit.cluster, unit.manager, unit.unit, unit.name, unit.user, unit.project, unit.group, unit.queue),
        *(unit.state, unit.reason, unit.submitted_at, unit.expected_start_at, unit.waiting_seconds, unit.priority),
        *(unit.asked.cpus, unit.asked.memory_bytes, _counts(unit.asked.gpus), unit.asked.nodes, unit.tasks),
        unit.seen_at,
    ]


def _amount_cells(amount: AmountView | None) -> list[Cell]:
    return [None] * len(_AMOUNT) if amount is None else [getattr(amount, part) for part in _AMOUNT]


def _counts(counts: Mapping[str, float | None]) -> str:
    return " ".join(f"{model}:{count:g}" for model, count in counts.items() if count is not None)
