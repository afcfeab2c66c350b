"""Resource managers: how far each was read, their nodes and capacity, members of projects, and what waits."""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, TypeVar

from fastapi import Query
from fastapi.responses import StreamingResponse

from kwhere.api.context import Cluster, From, SourcesOf, To, now_of, span_of
from kwhere.api.csv_text import csv_answer
from kwhere.api.models import Page
from kwhere.api.paging import WHOLE, By100, By200, all_records
from kwhere.api.place_models import (
    CapacityView,
    ManagerNodeView,
    ManagerView,
    MembershipView,
    OccupancyView,
    WaitingView,
)
from kwhere.api.place_views import (
    MANAGER_NODE_HEADER,
    MEMBERSHIP_HEADER,
    WAITING_HEADER,
    capacity_view,
    manager_node_row,
    manager_node_view,
    manager_view,
    membership_row,
    membership_view,
    occupancy_view,
    waiting_row,
    waiting_view,
)
from kwhere.api.problems import BadRequest
from kwhere.api.routers import api_router
from kwhere.database.place_records import ManagerNodeQuery, ManagerNodeSort, WaitingQuery, WaitingSort

router = api_router("managers")
Filter = Annotated[str | None, Query(max_length=400)]
S = TypeVar("S", ManagerNodeSort, WaitingSort)


@router.get("/managers")
def list_managers(sources: SourcesOf, cluster: Cluster = None) -> Page[ManagerView]:
    """Return how far each resource manager was read, and since when it fails."""
    return Page(items=[manager_view(record) for record in sources.account.managers(cluster)])


@router.get("/manager-nodes", response_model=Page[ManagerNodeView])
def list_manager_nodes(
    sources: SourcesOf,
    paging: By200,
    cluster: Cluster = None,
    manager: Filter = None,
    node: Filter = None,
    type_: Annotated[str | None, Query(alias="type", max_length=400)] = None,
    state: Filter = None,
    schedulable: Annotated[bool | None, Query(description="false: drained, cordoned, down or kept")] = None,
    sort: Annotated[str, Query(description=f"One of {', '.join(ManagerNodeSort)}, - for descending")] = "name",
) -> Page[ManagerNodeView] | StreamingResponse:
    """Return nodes as their managers see them, page by page; as CSV all that match."""
    key, descending = _sort(ManagerNodeSort, sort)
    query = ManagerNodeQuery(
        cluster, manager, node, type_, state, schedulable, key, descending, paging.limit, paging.after
    )
    if paging.is_csv:
        found = all_records(lambda after: sources.account.manager_nodes(replace(query, limit=WHOLE, after=after)))
        rows = (manager_node_row(manager_node_view(record)) for record in found)
        return csv_answer(MANAGER_NODE_HEADER, rows, "manager-nodes.csv")
    page = sources.account.manager_nodes(query)
    return Page(items=[manager_node_view(record) for record in page.items], next=page.next)


@router.get("/clusters/{cluster}/capacity")
def cluster_capacity(sources: SourcesOf, cluster: str) -> Page[CapacityView]:
    """Return what a cluster's nodes have by type: in total, allocated, free, and closed (drained, cordoned, down)."""
    return Page(items=[capacity_view(row) for row in sources.account.capacity(cluster)])


@router.get("/clusters/{cluster}/occupancy")
def cluster_occupancy(sources: SourcesOf, cluster: str, start: From = None, to: To = None) -> Page[OccupancyView]:
    """Return by day how much of a cluster's CPU time was allocated and used (default: 30 days)."""
    span = span_of(sources, start, to, timedelta(days=30))
    return Page(items=[occupancy_view(day) for day in sources.account.occupancy(cluster, span)])


@router.get("/memberships", response_model=Page[MembershipView])
def list_memberships(
    sources: SourcesOf,
    paging: By200,
    cluster: Cluster = None,
    user: Filter = None,
    project: Filter = None,
) -> Page[MembershipView] | StreamingResponse:
    """Return who may charge which project, page by page; as CSV all that match."""
    if paging.is_csv:
        found = all_records(lambda after: sources.account.memberships(cluster, user, project, after, WHOLE))
        rows = (membership_row(membership_view(record)) for record in found)
        return csv_answer(MEMBERSHIP_HEADER, rows, "memberships.csv")
    page = sources.account.memberships(cluster, user, project, paging.after, paging.limit)
    return Page(items=[membership_view(record) for record in page.items], next=page.next)


@router.get("/queue", response_model=Page[WaitingView])
def list_waiting(
    sources: SourcesOf,
    paging: By100,
    cluster: Cluster = None,
    manager: Filter = None,
    user: Filter = None,
    project: Filter = None,
    queue: Filter = None,
    state: Filter = None,
    sort: Annotated[str, Query(description=f"One of {', '.join(WaitingSort)}, - for descending")] = "submitted_at",
) -> Page[WaitingView] | StreamingResponse:
    """Return units that wait in their managers' queues, page by page; as CSV all that match."""
    key, descending = _sort(WaitingSort, sort)
    query = WaitingQuery(cluster, manager, user, project, queue, state, key, descending, paging.limit, paging.after)
    now = now_of(sources)
    if paging.is_csv:
        found = all_records(lambda after: sources.account.waiting(replace(query, limit=WHOLE, after=after)))
        rows = (waiting_row(waiting_view(record, now)) for record in found)
        return csv_answer(WAITING_HEADER, rows, "queue.csv")
    page = sources.account.waiting(query)
    return Page(items=[waiting_view(record, now) for record in page.items], next=page.next)


def _sort(kind: type[S], text: str) -> tuple[S, bool]:
    try:
        return kind(text.removeprefix("-")), text.startswith("-")
    except ValueError as error:
        raise BadRequest(f"sort: expected one of {', '.join(kind)}, with - for descending, found {text!r}") from error
