"""Usage within a span, and the accounts it is summed by."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from kwhere.api.context import After, Cluster, Format, From, Limit, SourcesOf, To, span_of
from kwhere.api.csv_text import USAGE_HEADER, csv_answer, optional_cells, optional_header, usage_row, wants_csv
from kwhere.api.models import AccountView, Page, Usage
from kwhere.api.views import account_view, usage_view
from kwhere.core.errors import NotFound
from kwhere.database.records import UsageBy

router = APIRouter(tags=["usage"])


@router.get("/usage", response_model=Usage)
def usage(
    request: Request,
    sources: SourcesOf,
    by: UsageBy = UsageBy.USER,
    start: From = None,
    to: To = None,
    cluster: Cluster = None,
    user: str | None = None,
    project: str | None = None,
    manager: str | None = None,
    node: str | None = None,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> Usage | StreamingResponse:
    """Return sums within a span (default: 24 h), `system` and `unallocated` as rows of their own."""
    span = span_of(sources, start, to, timedelta(hours=24))
    view = usage_view(sources.account.usage(by, span, cluster, user, project, manager, node))
    if wants_csv(request, format_):
        header = [*USAGE_HEADER, *optional_header(sources.optional, of_units=False)]
        rows = ([*usage_row(row), *optional_cells(row, sources.optional)] for row in view.items)
        return csv_answer(header, rows, f"usage-by-{by}.csv")
    return view


@router.get("/users")
def list_users(
    sources: SourcesOf, cluster: Cluster = None, limit: Limit = 200, after: After = None
) -> Page[AccountView]:
    """Return users with their lifetime totals, page by page."""
    page = sources.account.users(cluster=cluster, after=after, limit=limit)
    return Page(items=[account_view(record) for record in page.items], next=page.next)


@router.get("/users/{user:path}")
def one_user(sources: SourcesOf, user: str, cluster: Cluster = None) -> Page[AccountView]:
    """Return one user, an item per cluster."""
    page = sources.account.users(cluster=cluster, name=user)
    if not page.items:
        raise NotFound(f"user {user!r}: nothing is booked to that name")
    return Page(items=[account_view(record) for record in page.items])


@router.get("/projects")
def list_projects(
    sources: SourcesOf, cluster: Cluster = None, limit: Limit = 200, after: After = None
) -> Page[AccountView]:
    """Return projects with their lifetime totals, page by page."""
    page = sources.account.projects(cluster=cluster, after=after, limit=limit)
    return Page(items=[account_view(record) for record in page.items], next=page.next)


@router.get("/projects/{project:path}")
def one_project(sources: SourcesOf, project: str, cluster: Cluster = None) -> Page[AccountView]:
    """Return one project, an item per cluster."""
    page = sources.account.projects(cluster=cluster, name=project)
    if not page.items:
        raise NotFound(f"project {project!r}: nothing is booked to that name")
    return Page(items=[account_view(record) for record in page.items])
