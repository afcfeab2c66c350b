"""Clusters, Cluster and its nodes: capacity by type, what is closed and why, occupancy, queue, and its managers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.errors import NotFound, NotPermitted
from kwhere.core.quantities import joules, seconds
from kwhere.core.timespan import Span
from kwhere.database.account_records import ClusterRecord
from kwhere.database.place_records import (
    Amount,
    CapacityRow,
    ManagerNodePage,
    ManagerNodeQuery,
    ManagerNodeSort,
    Occupancy,
    WaitingQuery,
)
from kwhere.database.records import UsageBy
from kwhere.reports.figures import BYTES, quantity
from kwhere.web.day_columns import ColumnChart, Layer, Stack, column_chart
from kwhere.web.formatting import BarPiece, Column, bar_pieces, clock_text, column_of, percent
from kwhere.web.listing import Listing
from kwhere.web.pages.waiting import waiting_rows
from kwhere.web.rendering import Pages, account_url, url

CLOSED_SHOWN = 20
WAITING_SHOWN = 20
NODES_PER_PAGE = 200
NODE_FILTERS = ("manager", "type", "state", "schedulable")
OCCUPANCY_DAYS = 30
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AmountRow:
    """A resource of nodes of one type: its bar, and its parts in words; `–` for what the manager does not say."""

    name: str
    total: str
    allocated: str
    free: str
    closed: str
    ratio: str
    pieces: Sequence[BarPiece]


@dataclass(frozen=True, slots=True)
class TypeRow:
    """Nodes of one type of a manager."""

    row: CapacityRow
    states: str
    amounts: Sequence[AmountRow]


@dataclass(frozen=True, slots=True)
class OccupancyRow:
    """A day of the occupancy's table."""

    key: str
    allocated: float | None
    used: float | None
    there: float | None
    ratio: str


def clusters_page(pages: Pages, request: Request) -> Response:
    """Return the list of clusters."""
    account = pages.sources.account
    clusters = account.clusters()
    managers = account.managers()
    context = {
        "clusters": clusters,
        "power_column": column_of([_watts(cluster) for cluster in clusters], "power"),
        "watts": _watts,
        "managers": {each.cluster: [m for m in managers if m.cluster == each.cluster] for each in clusters},
    }
    return pages.render(request, "clusters.html", context)


def _watts(cluster: ClusterRecord) -> float | None:
    return None if cluster.power_uw is None else joules(cluster.power_uw)


def cluster_page(pages: Pages, request: Request) -> Response:
    """Return one cluster's page. Raises NotFound."""
    account, name = pages.sources.account, str(request.path_params["cluster"])
    record = _find(account.clusters(), name)
    managers = account.managers(name)
    no_rows: Sequence[CapacityRow] = ()
    no_days: Sequence[Occupancy] = ()
    capacity, why_not = _permitted(lambda: account.capacity(name), no_rows)
    span = Span(pages.now - timedelta(days=OCCUPANCY_DAYS), pages.now)
    occupancy, _ = _permitted(lambda: account.occupancy(name, span), no_days)
    closed, _ = _permitted(lambda: account.manager_nodes(_closed(name)), ManagerNodePage((), None))
    waiting = account.waiting(WaitingQuery(cluster=name, limit=WAITING_SHOWN))
    cpu_column = column_of([_maybe_seconds(day.cpu_capacity_ns) for day in occupancy], "cpu_time")
    context = {
        "record": record,
        "power_watts": _watts(record),
        "managers": managers,
        "why_not": why_not,
        "types": [type_row(row) for row in capacity],
        "cpus": _total([row.cpus for row in capacity]),
        "closed": closed.items,
        "has_more_closed": closed.next is not None,
        "occupancy": occupancy_chart(pages, occupancy, cpu_column),
        "occupancy_rows": occupancy_rows(pages, occupancy),
        "cpu_column": cpu_column,
        "waiting": waiting_rows(waiting.items, pages.now),
        "waiting_count": sum(manager.units_waiting for manager in managers),
        "has_more_waiting": waiting.next is not None,
        "closed_nodes": sum(row.nodes_closed for row in capacity),
        "nodes_without_agent": sum(row.nodes_unreported for row in capacity),
        "waiting_url": url("/queue", cluster=name),
        "nodes_url": f"{account_url(UsageBy.CLUSTER, name)}/nodes",
        "occupancy_url": f"/api/v1/clusters/{quote(name, safe='')}/occupancy",
    }
    return pages.render(request, "cluster.html", context)


def _find(clusters: Sequence[ClusterRecord], name: str) -> ClusterRecord:
    found = next((record for record in clusters if record.cluster == name), None)
    if found is None:
        raise NotFound(f"cluster {name}: none of that name")
    return found


def _permitted(ask: Callable[[], T], otherwise: T) -> tuple[T, str]:
    """Return an answer, or `otherwise` and why it may not be seen: the rest of the page stands."""
    try:
        return ask(), ""
    except NotPermitted as error:
        return otherwise, str(error)


def _closed(cluster: str) -> ManagerNodeQuery:
    return ManagerNodeQuery(cluster=cluster, is_schedulable=False, limit=CLOSED_SHOWN)


def _total(amounts: Sequence[Amount | None]) -> Amount | None:
    """Return the sum of those of which it is known how much is allocated; None: of none."""
    known = [amount for amount in amounts if amount is not None and amount.allocated is not None]
    if not known:
        return None
    parts = ((amount.total, amount.allocated or 0.0, amount.free or 0.0, amount.closed or 0.0) for amount in known)
    return Amount(*(sum(part) for part in zip(*parts, strict=True)))


def type_row(row: CapacityRow) -> TypeRow:
    """Return nodes of one type as a table shows them."""
    amounts = [("CPUs", row.cpus, False), ("memory", row.memory, True), *((m, a, False) for m, a in row.gpus.items())]
    states = "; ".join(f"{count} {state}" for state, count in row.nodes_by_state.items())
    return TypeRow(row, states, [_amount_row(name, amount, in_bytes) for name, amount, in_bytes in amounts if amount])


def _amount_row(name: str, amount: Amount, in_bytes: bool) -> AmountRow:
    def text(value: float | None) -> str:
        if value is None:
            return "–"
        return quantity(value, BYTES) if in_bytes else f"{value:g}"

    parts: list[tuple[str, str, float | None]] = [
        ("fill-accent", f"allocated {text(amount.allocated)}", amount.allocated),
        ("fill-system", f"closed {text(amount.closed)}", amount.closed),
    ]
    ratio = None if amount.allocated is None or not amount.total else amount.allocated / amount.total
    return AmountRow(
        name=name,
        total=text(amount.total),
        allocated=text(amount.allocated),
        free=text(amount.free),
        closed=text(amount.closed),
        ratio=percent(ratio),
        pieces=bar_pieces(parts, amount.total),
    )


def occupancy_chart(pages: Pages, days: Sequence[Occupancy], column: Column) -> ColumnChart:
    """Return the columns: CPU time used and allocated beside, within what was there."""
    return column_chart([_occupancy_stack(pages, day) for day in days], column)


def _occupancy_stack(pages: Pages, day: Occupancy) -> Stack:
    used, given = _maybe_seconds(day.cpu_used_ns), _maybe_seconds(day.cpu_allocated_ns)
    rest = None if given is None else max(0.0, given - (used or 0.0))
    layers = (Layer("fill-accent", "used", used), Layer("fill-accent-light", "allocated, not used", rest))
    return Stack(clock_text(day.start, pages.zone)[:10], layers, _maybe_seconds(day.cpu_capacity_ns))


def occupancy_rows(pages: Pages, days: Sequence[Occupancy]) -> list[OccupancyRow]:
    """Return the table of the same days."""
    return [
        OccupancyRow(
            clock_text(day.start, pages.zone)[:10],
            _maybe_seconds(day.cpu_allocated_ns),
            _maybe_seconds(day.cpu_used_ns),
            _maybe_seconds(day.cpu_capacity_ns),
            percent(
                day.cpu_allocated_ns / day.cpu_capacity_ns
                if day.cpu_allocated_ns is not None and day.cpu_capacity_ns
                else None
            ),
        )
        for day in days
    ]


def _maybe_seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else seconds(time_ns)


def cluster_nodes_page(pages: Pages, request: Request) -> Response:
    """Return a cluster's nodes as their managers see them. Raises NotFound, NotPermitted."""
    account, name = pages.sources.account, str(request.path_params["cluster"])
    record = _find(account.clusters(), name)
    params = {key: value for key, value in request.query_params.items() if value}
    listing = Listing(
        f"{account_url(UsageBy.CLUSTER, name)}/nodes", params, params.get("sort", str(ManagerNodeSort.NAME))
    )
    page = account.manager_nodes(node_query(name, params, listing.sort))
    kept = {key: value for key, value in params.items() if key in (*NODE_FILTERS, "sort")}
    context = {
        "record": record,
        "given": {key: params.get(key, "") for key in NODE_FILTERS},
        "page": page,
        "rows": [(node, _parts(node.cpus, node.memory, node.gpus)) for node in page.items],
        "sorts": {str(key): listing.head(str(key), first="") for key in ManagerNodeSort},
        "chips": [
            ("all", listing.url(schedulable=None, after=None), "schedulable" not in params),
            ("open", listing.url(schedulable="true", after=None), params.get("schedulable") == "true"),
            ("closed", listing.url(schedulable="false", after=None), params.get("schedulable") == "false"),
        ],
        "next_url": listing.following(page.next),
        "first_url": listing.first_url,
        "csv_url": "/api/v1/manager-nodes?" + urlencode({"cluster": name, **kept, "format": "csv"}),
    }
    return pages.render(request, "cluster_nodes.html", context)


def node_query(cluster: str, params: Mapping[str, str], sort: str) -> ManagerNodeQuery:
    """Return the query of a URL. Raises ValueError for a sort or filter that is none."""
    if sort.removeprefix("-") not in set(ManagerNodeSort):
        raise ValueError(f"sort: expected one of {', '.join(ManagerNodeSort)}, found {sort!r}")
    schedulable = params.get("schedulable")
    if schedulable not in (None, "true", "false"):
        raise ValueError(f"schedulable: expected true or false, found {schedulable!r}")
    return ManagerNodeQuery(
        cluster=cluster,
        manager=params.get("manager"),
        type=params.get("type"),
        state=params.get("state"),
        is_schedulable=None if schedulable is None else schedulable == "true",
        sort=ManagerNodeSort(sort.removeprefix("-")),
        descending=sort.startswith("-"),
        limit=NODES_PER_PAGE,
        after=params.get("after"),
    )


def _parts(cpus: Amount | None, memory: Amount | None, gpus: Mapping[str, Amount]) -> tuple[str, str, str]:
    """Return allocated of total: CPUs, memory and GPUs; empty where the manager does not say."""
    return (
        _of(cpus),
        "" if memory is None else f"{quantity(memory.allocated, BYTES)} of {quantity(memory.total, BYTES)}",
        ", ".join(f"{_of(amount)} {model}" for model, amount in gpus.items()),
    )


def _of(amount: Amount | None) -> str:
    if amount is None:
        return ""
    return f"{'–' if amount.allocated is None else format(amount.allocated, '.4g')} of {amount.total:g}"
