"""Queue: what waits, since when, for what, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kwhere.database.place_records import WaitingQuery, WaitingRecord, WaitingSort
from kwhere.reports.figures import BYTES, duration, quantity
from kwhere.web.listing import Listing
from kwhere.web.rendering import Pages

PER_PAGE = 100
FILTERS = ("cluster", "manager", "user", "project", "queue", "state")


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A waiting unit as a table shows it."""

    record: WaitingRecord
    shown: str
    """The id that its manager shows."""
    asked: str
    waits: str
    """How long it waits; `–` where nobody knows since when."""


def waiting_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    params = {key: value for key, value in request.query_params.items() if value}
    listing = Listing("/queue", params, params.get("sort", str(WaitingSort.SUBMITTED_AT)))
    page = pages.sources.account.waiting(waiting_query(params, listing.sort))
    kept = {key: value for key, value in params.items() if key in (*FILTERS, "sort")}
    context = {
        "given": {key: params.get(key, "") for key in FILTERS},
        "rows": waiting_rows(page.items, pages.now),
        "sorts": {str(key): listing.head(str(key), first="") for key in WaitingSort},
        "next_url": listing.following(page.next),
        "first_url": listing.first_url,
        "csv_url": "/api/v1/queue?" + urlencode({**kept, "format": "csv"}),
        "is_filtered": any(key in params for key in FILTERS),
        "managers": [record for record in pages.sources.account.managers() if record.queue_at is not None],
    }
    return pages.render(request, "waiting.html", context)


def waiting_query(params: dict[str, str], sort: str) -> WaitingQuery:
    """Return the query of a URL. Raises ValueError for a sort that is none."""
    if sort.removeprefix("-") not in set(WaitingSort):
        raise ValueError(f"sort: expected one of {', '.join(WaitingSort)}, found {sort!r}")
    return WaitingQuery(
        cluster=params.get("cluster"),
        manager=params.get("manager"),
        user=params.get("user"),
        project=params.get("project"),
        queue=params.get("queue"),
        state=params.get("state"),
        sort=WaitingSort(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        limit=PER_PAGE,
        after=params.get("after"),
    )


def waiting_rows(records: Sequence[WaitingRecord], now: datetime) -> list[WaitingRow]:
    """Return the rows of a table."""
    return [
        WaitingRow(record, record.tags.get("job", record.unit), asked_text(record), _waits(record, now))
        for record in records
    ]


def _waits(record: WaitingRecord, now: datetime) -> str:
    since = record.submitted_at
    return duration(None if since is None else max(0.0, (now - since) / timedelta(seconds=1)))


def asked_text(record: WaitingRecord) -> str:
    """Return what it asked for: `2 nodes, 32 CPUs, 96.0 GiB, 2 × a100`; `–` where its manager does not say."""
    words: list[str] = []
    if record.asked_nodes is not None and record.asked_nodes != 1:
        words.append(f"{record.asked_nodes} nodes")
    if record.asked_cpus is not None:
        words.append(f"{record.asked_cpus:g} CPU{'' if record.asked_cpus == 1 else 's'}")
    if record.asked_memory_bytes is not None:
        words.append(quantity(record.asked_memory_bytes, BYTES))
    words += [f"{count:g} × {model}" for model, count in record.asked_gpus.items()]
    return ", ".join(words) or "–"
