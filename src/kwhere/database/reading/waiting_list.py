"""What waits in managers' queues."""

import json
from typing import Any

from sqlalchemy import ColumnElement, false, or_, select

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import schema
from kwhere.database.grid import from_ns
from kwhere.database.place_records import WaitingPage, WaitingQuery, WaitingRecord, WaitingSort
from kwhere.database.reading.keyset import Order, take_page
from kwhere.database.reading.site import Moment

MOST = 1000
KEPT_NS = 24 * 3600 * NANOSECONDS_PER_SECOND
"""A queue that nobody has read for so long, because its manager is away or is configured no more, is not told."""
_waiting, _clusters = schema.waiting_units.c, schema.clusters.c
_users, _projects = schema.users.c, schema.projects.c
_SORTS: dict[WaitingSort, ColumnElement[Any]] = {
    WaitingSort.SUBMITTED_AT: _waiting.submitted_ns,
    WaitingSort.EXPECTED_START_AT: _waiting.expected_start_ns,
    WaitingSort.PRIORITY: _waiting.priority,
    WaitingSort.ASKED_CPUS: _waiting.asked_cpus,
}


def seen_waiting(moment: Moment) -> list[ColumnElement[bool]]:
    """Return what each waiting unit fulfils that this reading may tell of."""
    fresh, sight = _waiting.seen_ns > moment.now_ns - KEPT_NS, moment.sight
    if sight.everything:
        return [fresh]
    arms = [
        column.in_(sorted(ids))
        for column, ids in ((_waiting.user_id, sight.user_ids), (_waiting.project_id, sight.project_ids))
        if ids
    ]
    return [fresh, or_(*arms) if arms else false()]


def list_waiting(moment: Moment, query: WaitingQuery) -> WaitingPage:
    """Return one page of a queue; units without the figure it is sorted by come last. Raises BadCursor."""
    statement = (
        select(
            schema.waiting_units,
            _clusters.name.label("cluster"),
            _users.name.label("user_name"),
            _projects.name.label("project_name"),
        )
        .join(schema.clusters, _clusters.id == _waiting.cluster_id)
        .outerjoin(schema.users, _users.id == _waiting.user_id)
        .outerjoin(schema.projects, _projects.id == _waiting.project_id)
        .where(*seen_waiting(moment), *_conditions(query))
    )
    key = (_clusters.name, _waiting.manager, _waiting.unit)
    order = Order(str(query.sort), _SORTS[query.sort], key, query.descending)
    rows, after = take_page(moment.connection, statement, order, query.after, max(1, min(query.limit, MOST)))
    return WaitingPage(tuple(_record(row) for row in rows), after)


def _conditions(query: WaitingQuery) -> list[ColumnElement[bool]]:
    asked = (
        (_clusters.name, query.cluster),
        (_waiting.manager, query.manager),
        (_users.name, query.user),
        (_projects.name, query.project),
        (_waiting.queue, query.queue),
        (_waiting.state, query.state),
    )
    return [column == value for column, value in asked if value is not None]


def _record(row: Any) -> WaitingRecord:
    return WaitingRecord(
        cluster=row.cluster,
        manager=row.manager,
        unit=row.unit,
        name=row.name,
        user=row.user_name,
        project=row.project_name,
        group=row.user_group,
        queue=row.queue,
        state=row.state,
        reason=row.reason,
        submitted_at=None if row.submitted_ns is None else from_ns(row.submitted_ns),
        expected_start_at=None if row.expected_start_ns is None else from_ns(row.expected_start_ns),
        priority=row.priority,
        asked_cpus=row.asked_cpus,
        asked_memory_bytes=row.asked_memory_bytes,
        asked_gpus=json.loads(row.asked_gpus) if row.asked_gpus else {},
        asked_nodes=row.asked_nodes,
        tasks=row.tasks,
        tags=json.loads(row.labels) if row.labels else {},
        seen_at=from_ns(row.seen_ns),
    )
