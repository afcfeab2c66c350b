"""Resource managers: how far each was read, their nodes and capacity, members of projects, and what waits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from kwhere.api.context import After, Cluster, Format, From, Limit, SourcesOf, To, now_of, span_of
from kwhere.api.csv_text import csv_answer, wants_csv
from kwhere.api.models import Page
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
WHOLE = 1000
"""Items of a page within a CSV."""

Filter = Annotated[str | None, Query(max_length=400)]
S = TypeVar("S", ManagerNodeSort, WaitingSort)


@router.get("/managers")
def list_managers(sources: SourcesOf, cluster: Cluster = None) -> Page[ManagerView]:
    """Return how far each resource manager was read, and since when it fails."""
    return Page(items=[manager_view(record) for record in sources.account.managers(cluster)])


@router.get("/manager-nodes", response_model=Page[ManagerNodeView])
def list_manager_nodes(
    request: Request,
    sources: SourcesOf,
    cluster: Cluster = None,
    manager: Filter = None,
    node: Filter = None,
    type_: Annotated[str | None, Query(alias="type", max_length=400)] = None,
    state: Filter = None,
    schedulable: Annotated[bool | None, Query(description="false: drained, cordoned, down or kept")] = None,
    sort: Annotated[str, Query(description=f"One of {', '.join(ManagerNodeSort)}, - for descending")] = "name",
    limit: Limit = 200,
    after: After = None,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> Page[ManagerNodeView] | StreamingResponse:
    """Return nodes as their managers see them, page by page; as CSV all that match."""
    key, descending = _sort(ManagerNodeSort, sort)
    query = ManagerNodeQuery(cluster, manager, node, type_, state, schedulable, key, descending, limit, after)
    if wants_csv(request, format_):
        pages = _whole(query, sources.account.manager_nodes)
        rows = (manager_node_row(manager_node_view(record)) for record in pages)
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
    request: Request,
    sources: SourcesOf,
    cluster: Cluster = None,
    user: Filter = None,
    project: Filter = None,
    limit: Limit = 200,
    after: After = None,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> Page[MembershipView] | StreamingResponse:
    """Return who may charge which project, page by page; as CSV all that match."""
    if wants_csv(request, format_):
        rows = (membership_row(view) for view in _all_memberships(sources, cluster, user, project))
        return csv_answer(MEMBERSHIP_HEADER, rows, "memberships.csv")
    page = sources.account.memberships(cluster, user, project, after, limit)
    return Page(items=[membership_view(record) for record in page.items], next=page.next)


def _all_memberships(
    sources: SourcesOf, cluster: str | None, user: str | None, project: str | None
) -> Iterator[MembershipView]:
    after: str | None = None
    while True:
        page = sources.account.memberships(cluster, user, project, after, WHOLE)
        yield from (membership_view(record) for record in page.items)
        if page.next is None:
            return
        after = page.next


@router.get("/queue", response_model=Page[WaitingView])
def list_waiting(
    request: Request,
    sources: SourcesOf,
    cluster: Cluster = None,
    manager: Filter = None,
    user: Filter = None,
    project: Filter = None,
    queue: Filter = None,
    state: Filter = None,
    sort: Annotated[str, Query(description=f"One of {', '.join(WaitingSort)}, - for descending")] = "submitted_at",
    limit: Limit = 100,
    after: After = None,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> Page[WaitingView] | StreamingResponse:
    """Return units that wait in their managers' queues, page by page; as CSV all that match."""
    key, descending = _sort(WaitingSort, sort)
    query = WaitingQuery(cluster, manager, user, project, queue, state, key, descending, limit, after)
    now = now_of(sources)
    if wants_csv(request, format_):
        rows = (waiting_row(waiting_view(record, now)) for record in _whole(query, sources.account.waiting))
        return csv_answer(WAITING_HEADER, rows, "queue.csv")
    page = sources.account.waiting(query)
    return Page(items=[waiting_view(record, now) for record in page.items], next=page.next)


def _whole(query: Any, ask: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the records of all pages. The first is read at once: what refuses must not do so within a download."""
    page = ask(replace(query, limit=WHOLE, after=None))
    return _following(query, ask, page)


def _following(query: Any, ask: Callable[[Any], Any], page: Any) -> Iterator[Any]:
    while True:
        yield from page.items
        if page.next is None:
            return
        page = ask(replace(query, limit=WHOLE, after=page.next))


def _sort(kind: type[S], text: str) -> tuple[S, bool]:
    try:
        return kind(text.removeprefix("-")), text.startswith("-")
    except ValueError as error:
        raise BadRequest(f"sort: expected one of {', '.join(kind)}, with - for descending, found {text!r}") from error
