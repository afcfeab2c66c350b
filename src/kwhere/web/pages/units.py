"""Units: find one. Search, filters, sort and columns are all in the URL; pages follow a keyset."""

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kwhere.database.records import UnitPage, UnitQuery, UnitSort
from kwhere.reports.job_words import parse_states
from kwhere.web.formatting import recent_time_tag
from kwhere.web.listing import Listing
from kwhere.web.rendering import Pages
from kwhere.web.spans import SpanChoice, choose_span
from kwhere.web.units_table import COLUMNS, LOUD, chosen_columns, quality_marks, show_columns

FILTERS = ("cluster", "manager", "user", "project", "state", "queue", "node", "q")
MANAGERS = ("slurm", "oar", "kubernetes", "libvirt", "docker", "podman", "run", "systemd", "session", "process")
STATES = ("running", "ended", "completed", "failed", "cancelled", "timeout", "out_of_memory", "node_fail")
DEFAULT_SORT = "-energy_joules"
BESIDE = ("user", "manager", "split")
"""Columns that a phone shows below a unit's name, or not at all."""
NOT_ON_PHONES = ("emissions", "cpu_time", "efficiency", "started", "duration")
"""Default columns for which a phone has no room; one that was chosen is shown."""


def units_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    params = {key: value for key, value in request.query_params.items() if value}
    if "columns" in params:
        params["columns"] = ",".join(request.query_params.getlist("columns"))
    choice = choose_span("/units", params, pages.now, pages.zone, default="30d") if has_span(params) else None
    query = unit_query(params, choice, pages.settings.units_per_page)
    page = pages.sources.account.units(query)
    listing = listing_of(params)
    columns = chosen_columns(params.get("columns"))
    clusters = [record.cluster for record in pages.sources.account.clusters()]
    is_filtered = any(key in params for key in (*FILTERS, "span", "from", "to"))
    context = {
        "given": {key: params.get(key, "") for key in FILTERS},
        "query": query,
        "page": page,
        "columns": show_columns(
            columns, page.items, pages.now, partial(recent_time_tag, zone=pages.zone, now=pages.now)
        ),
        "loud": partial(quality_marks, only=LOUD),
        "optional": BESIDE if "columns" in params else (*BESIDE, *NOT_ON_PHONES),
        "all_columns": COLUMNS,
        "chosen": {column.key for column in columns},
        "sorts": {column.key: listing.head(column.sort) for column in columns if column.sort},
        "next_url": listing.following(page.next),
        "first_url": listing.first_url,
        "csv_url": csv_url(params, choice),
        "managers": manager_choices(params),
        "states": state_choices(params),
        "has_queue": any(manager.queue_at is not None for manager in pages.sources.account.managers()),
        "clusters": clusters,
        "chips": span_chips(params),
        "others": [(key, value) for key, value in params.items() if key not in (*FILTERS, "after")],
        "without_columns": [(key, value) for key, value in params.items() if key not in ("columns", "after")],
        "is_filtered": is_filtered,
        "empty": empty_reason(page, params),
        "is_empty_by_choice": is_filtered or "sort" in params,
    }
    return pages.render(request, "units.html", context)


def has_span(params: Mapping[str, str]) -> bool:
    """Return whether the URL narrows the list to a span; without one it holds every unit."""
    return any(key in params for key in ("span", "from", "to"))


def unit_query(params: Mapping[str, str], choice: SpanChoice | None, limit: int) -> UnitQuery:
    """Return the query of a URL. Raises ValueError for a sort or state that is none."""
    sort = params.get("sort", DEFAULT_SORT)
    if sort.removeprefix("-") not in set(UnitSort):
        raise ValueError(f"sort: expected one of {', '.join(UnitSort)}, found {sort!r}")
    return UnitQuery(
        cluster=params.get("cluster"),
        manager=params.get("manager"),
        user=params.get("user"),
        project=params.get("project"),
        states=parse_states(params.get("state", "")),
        queue=params.get("queue"),
        node=params.get("node"),
        span=choice.span if choice else None,
        q=params.get("q"),
        sort=UnitSort(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        limit=limit,
        after=params.get("after"),
    )


def listing_of(params: Mapping[str, str]) -> Listing:
    """Return the list that the URL names."""
    return Listing("/units", params, params.get("sort", DEFAULT_SORT))


def csv_url(params: Mapping[str, str], choice: SpanChoice | None) -> str:
    """Return the API's address of the same list, whole, as CSV."""
    kept = {key: value for key, value in params.items() if key in (*FILTERS, "sort")}
    return "/api/v1/units?" + urlencode({**kept, **(choice.query if choice else {}), "format": "csv"})


def manager_choices(params: Mapping[str, str]) -> Sequence[str]:
    """Return what the manager filter offers; one from the URL that a site rule added is kept."""
    given = params.get("manager")
    return MANAGERS if given in (None, *MANAGERS) else (*MANAGERS, str(given))


def state_choices(params: Mapping[str, str]) -> Sequence[str]:
    """Return what the state filter offers; any other word of a manager is kept where the URL names it."""
    given = params.get("state")
    return STATES if given in (None, *STATES) else (*STATES, str(given))


def span_chips(params: Mapping[str, str]) -> Sequence[tuple[str, str, bool]]:
    """Return text, address and whether it is in force, for the spans a list is narrowed to."""
    kept = {key: value for key, value in params.items() if key not in ("span", "from", "to", "after")}
    current = params.get("span") or ("custom" if has_span(params) else "")
    spans = (("", "all time"), ("1h", "1 h"), ("24h", "24 h"), ("7d", "7 d"), ("30d", "30 d"))
    listing = listing_of(kept)
    chips = [(text, listing.url(span=key or None), key == current) for key, text in spans]
    if current == "custom":
        chips.append((f"{params.get('from', '…')} – {params.get('to', 'now')}", listing_of(params).url(), True))
    return chips


def empty_reason(page: UnitPage, params: Mapping[str, str]) -> tuple[str, str]:
    """Return why there is no row, and what to do."""
    if page.items:
        return "", ""
    if any(key in params for key in (*FILTERS, "span", "from", "to")):
        return "No unit matches.", "Take a filter away, or look for a part of an id, name, user or project."
    if params.get("sort", "").endswith("power_watts"):
        return "No unit runs now.", "Sorted by power, the list holds running units alone; sort by energy for all."
    return (
        "No unit has been booked yet.",
        "Units appear with an agent's first slot, 2 s after its start; `kwhere doctor` says what is missing.",
    )
