"""Usage within a span, and the accounts it is summed by."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from kwhere.api.context import Cluster, Format, From, SourcesOf, To, Week, now_of, span_of, week_of
from kwhere.api.csv_text import (
    ACCOUNT_HEADER,
    USAGE_HEADER,
    account_row,
    csv_answer,
    optional_cells,
    optional_header,
    usage_row,
    wants_csv,
)
from kwhere.api.models import AccountView, Page, Usage
from kwhere.api.paging import WHOLE, By200, all_records
from kwhere.api.problems import BadRequest
from kwhere.api.routers import api_router
from kwhere.api.views import account_view, usage_view, week_view
from kwhere.core.errors import NotFound
from kwhere.database.account_records import AccountPage, AccountQuery, AccountSort
from kwhere.database.records import UsageBy

router = api_router("usage")


@router.get("/usage", response_model=Usage)
def usage(
    request: Request,
    sources: SourcesOf,
    by: UsageBy = UsageBy.USER,
    start: From = None,
    to: To = None,
    week: Week = None,
    cluster: Cluster = None,
    user: str | None = None,
    project: str | None = None,
    manager: str | None = None,
    node: str | None = None,
    format_: Annotated[Format, Query(alias="format")] = None,
) -> Usage | StreamingResponse:
    """Return sums within a span (default: 24 h), `system` and `unallocated` as rows of their own."""
    asked = week_of(sources, week, start, to)
    span = asked.span if asked else span_of(sources, start, to, timedelta(hours=24))
    report = sources.account.usage(by, span, cluster, user, project, manager, node)
    view = usage_view(report, week_view(asked, now_of(sources)) if asked else None)
    if wants_csv(request, format_):
        header = [*USAGE_HEADER, *optional_header(sources.optional, of_units=False)]
        rows = ([*usage_row(row), *optional_cells(row, sources.optional)] for row in view.items)
        return csv_answer(header, rows, f"usage-by-{by}.csv")
    return view


Q = Annotated[str | None, Query(description="Part of a name", max_length=200)]
Sort = Annotated[str, Query(description=f"One of {', '.join(AccountSort)}, - for descending")]


@router.get("/users", response_model=Page[AccountView])
def list_users(
    sources: SourcesOf,
    paging: By200,
    cluster: Cluster = None,
    q: Q = None,
    sort: Sort = "name",
) -> Page[AccountView] | StreamingResponse:
    """Return users with their lifetime totals, page by page; as CSV all that match."""
    query = _query(AccountQuery(cluster=cluster, q=q or None, after=paging.after, limit=paging.limit), sort)
    return _accounts(sources.account.users, query, "users.csv" if paging.is_csv else None)


@router.get("/users/{user:path}")
def one_user(sources: SourcesOf, user: str, cluster: Cluster = None) -> Page[AccountView]:
    """Return one user, an item per cluster, with what the directory says of them to those permitted."""
    page = sources.account.users(AccountQuery(cluster=cluster, name=user))
    if not page.items:
        raise NotFound(f"user {user!r}: nothing is booked to that name")
    people = sources.account.people(user, cluster)
    return Page(items=[account_view(record, people.get(record.cluster)) for record in page.items])


@router.get("/projects", response_model=Page[AccountView])
def list_projects(
    sources: SourcesOf,
    paging: By200,
    cluster: Cluster = None,
    q: Q = None,
    parent: Annotated[str | None, Query(description="Only projects below it", max_length=255)] = None,
    sort: Sort = "name",
) -> Page[AccountView] | StreamingResponse:
    """Return projects with their lifetime totals, page by page; as CSV all that match."""
    query = _query(
        AccountQuery(cluster=cluster, q=q or None, parent=parent, after=paging.after, limit=paging.limit), sort
    )
    return _accounts(sources.account.projects, query, "projects.csv" if paging.is_csv else None)


@router.get("/projects/{project:path}")
def one_project(sources: SourcesOf, project: str, cluster: Cluster = None) -> Page[AccountView]:
    """Return one project, an item per cluster."""
    page = sources.account.projects(AccountQuery(cluster=cluster, name=project))
    if not page.items:
        raise NotFound(f"project {project!r}: nothing is booked to that name")
    return Page(items=[account_view(record) for record in page.items])


def _query(query: AccountQuery, sort: str) -> AccountQuery:
    try:
        return replace(query, sort=AccountSort(sort.removeprefix("-")), descending=sort.startswith("-"))
    except ValueError as error:
        raise BadRequest(
            f"sort: expected one of {', '.join(AccountSort)}, with - for descending, found {sort!r}"
        ) from error


def _accounts(
    ask: Callable[[AccountQuery], AccountPage], query: AccountQuery, file_name: str | None
) -> Page[AccountView] | StreamingResponse:
    """Return a page, or all that match as a file."""
    if file_name is None:
        page = ask(query)
        return Page(items=[account_view(record) for record in page.items], next=page.next)
    found = all_records(lambda after: ask(replace(query, limit=WHOLE, after=after)))
    return csv_answer(ACCOUNT_HEADER, (account_row(account_view(record)) for record in found), file_name)
