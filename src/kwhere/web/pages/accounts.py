"""Users and Projects: find one by a part of its name; each row leads to its page."""

from collections.abc import Callable
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.quantities import joules
from kwhere.database.account_records import AccountPage, AccountQuery, AccountSort
from kwhere.database.records import UsageBy
from kwhere.web.formatting import column_of
from kwhere.web.listing import Listing
from kwhere.web.rendering import Pages, account_url

PER_PAGE = 100
FILTERS = ("cluster", "q", "parent")


def users_page(pages: Pages, request: Request) -> Response:
    """Return the list of users."""
    return _page(pages, request, UsageBy.USER, pages.sources.account.users)


def projects_page(pages: Pages, request: Request) -> Response:
    """Return the list of projects."""
    return _page(pages, request, UsageBy.PROJECT, pages.sources.account.projects)


def _page(pages: Pages, request: Request, kind: UsageBy, ask: Callable[[AccountQuery], AccountPage]) -> Response:
    params = {key: value for key, value in request.query_params.items() if value}
    listing = Listing(f"/{kind}s", params, params.get("sort", str(AccountSort.NAME)))
    page = ask(account_query(params, listing.sort))
    kept = {key: value for key, value in params.items() if key in (*FILTERS, "sort")}
    context = {
        "kind": str(kind),
        "given": {key: params.get(key, "") for key in FILTERS},
        "clusters": [record.cluster for record in pages.sources.account.clusters()],
        "rows": [(record, account_url(kind, record.name, record.cluster)) for record in page.items],
        "energy": column_of([joules(record.energy_total_uj) for record in page.items], "energy"),
        "grams": column_of([record.emissions_grams for record in page.items], "mass"),
        "sorts": {str(AccountSort.NAME): listing.head("name", first=""), "last_seen_at": listing.head("last_seen_at")},
        "next_url": listing.following(page.next),
        "first_url": listing.first_url,
        "csv_url": f"/api/v1/{kind}s?" + urlencode({**kept, "format": "csv"}),
        "is_filtered": any(key in params for key in FILTERS),
    }
    return pages.render(request, "accounts.html", context)


def account_query(params: dict[str, str], sort: str) -> AccountQuery:
    """Return the query of a URL. Raises ValueError for a sort that is none."""
    if sort.removeprefix("-") not in set(AccountSort):
        raise ValueError(f"sort: expected one of {', '.join(AccountSort)}, found {sort!r}")
    return AccountQuery(
        cluster=params.get("cluster"),
        q=params.get("q"),
        parent=params.get("parent"),
        sort=AccountSort(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        after=params.get("after"),
        limit=PER_PAGE,
    )
