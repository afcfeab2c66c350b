"""Usage: who used what within a span; the rows add up to what the nodes drew."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.quantities import joules, seconds
from kwhere.core.terms import Component, EntryKind, Part
from kwhere.database.periods import PERIODS
from kwhere.database.records import UsageBy, UsageRow
from kwhere.reports.figures import money_text
from kwhere.reports.optional import cost_of
from kwhere.web.formatting import BarPiece, bar_pieces, column_of, fill_of
from kwhere.web.rendering import Pages, account_url, node_url, url
from kwhere.web.spans import choose_span

CHOICES: Sequence[tuple[UsageBy, str]] = (
    (UsageBy.USER, "user"),
    (UsageBy.PROJECT, "project"),
    (UsageBy.MANAGER, "manager"),
    (UsageBy.NODE, "node"),
    (UsageBy.CLUSTER, "cluster"),
    (UsageBy.DAY, "day"),
    (UsageBy.WEEK, "week"),
    (UsageBy.MONTH, "month"),
)
NO_ACCOUNT = {
    UsageBy.USER: "units without a user",
    UsageBy.PROJECT: "units without a project",
}


@dataclass(frozen=True, slots=True)
class SumRow:
    """A row of the table: figures in base units, and where its name leads."""

    name: str
    cluster: str | None
    """None: the sum is over clusters."""
    url: str | None
    kind: EntryKind
    units: int
    energy_joules: float
    share: float | None
    cpu_seconds: float | None
    efficiency: float | None
    grams: float | None
    cost: float | None
    """In its currency; None where there is none, or several."""
    cost_text: str
    gpu_seconds: float | None
    gpu_idle_seconds: float | None
    pieces: Sequence[BarPiece]


def usage_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    params = {key: value for key, value in request.query_params.items() if value}
    by = UsageBy(params.get("by", UsageBy.USER))
    choice = choose_span("/usage", params, pages.now, pages.zone, default="30d" if by in PERIODS else "24h")
    cluster = params.get("cluster")
    report = pages.sources.account.usage(by, choice.span, cluster)
    total_uj = sum(row.energy_total_uj for row in report.rows)
    rows = [sum_row(by, row, report.rows, total_uj) for row in report.rows]
    query = {"by": str(by), **choice.query, "format": "csv", **({"cluster": cluster} if cluster else {})}
    grams = [row.grams for row in rows if row.grams is not None]
    currency = pages.sources.optional.currency
    costs = [row.cost for row in rows if row.cost is not None]
    context = {
        "by": by,
        "choice": choice,
        "report": report,
        "accounts": [row for row in rows if row.kind is EntryKind.UNIT],
        "rest": [row for row in rows if row.kind is not EntryKind.UNIT],
        "has_clusters": by is not UsageBy.CLUSTER and has_clusters(rows),
        "total_joules": joules(total_uj),
        "total_grams": sum(grams) if grams else None,
        "energy_column": column_of([joules(total_uj)], "energy"),
        "cpu_column": column_of([row.cpu_seconds for row in rows], "cpu_time"),
        "grams_column": column_of([sum(grams)] if grams else [], "mass"),
        "gpu_column": column_of([row.gpu_seconds for row in rows], "gpu_time"),
        "has_gpus": any(row.gpu_seconds for row in rows),
        "currency": currency,
        "total_cost": money_text(sum(costs)) if costs else None,
        "by_choices": [(text, by_url(params, key), key is by) for key, text in CHOICES],
        "csv_url": "/api/v1/usage?" + urlencode(query),
    }
    return pages.render(request, "usage.html", context)


def by_url(params: dict[str, str], by: UsageBy) -> str:
    """Return the page's address with the same span, summed by something else."""
    return url("/usage", by=str(by), span=params.get("span"), from_=params.get("from"), to=params.get("to"))


def sum_row(by: UsageBy, row: UsageRow, rows: Sequence[UsageRow], total_uj: int) -> SumRow:
    """Return one row; bars against the largest."""
    largest = max((other.energy_total_uj for other in rows), default=0)
    name = row_name(by, row)
    used = None if row.cpu_ns is None else seconds(row.cpu_ns)
    efficiency = row.cpu_ns / row.cpu_allocated_ns if row.cpu_ns is not None and row.cpu_allocated_ns else None
    cost = cost_of(row.figures)
    return SumRow(
        name,
        row.cluster,
        row_url(by, row),
        row.kind,
        row.units,
        joules(row.energy_total_uj),
        row.energy_total_uj / total_uj if total_uj else None,
        used,
        efficiency,
        row.emissions_grams,
        None if cost is None else cost.amount,
        "" if cost is None else money_text(cost.amount),
        None if row.gpu.allocated_ns is None else seconds(row.gpu.allocated_ns),
        None if row.gpu.held_idle_ns is None else seconds(row.gpu.held_idle_ns),
        row_pieces(row, largest),
    )


def row_name(by: UsageBy, row: UsageRow) -> str:
    """Return what a row is called: `alice`, `units without a user`, `system`, `2026-W48 system`."""
    if row.kind is not EntryKind.UNIT:
        return str(row.kind) if row.key is None else f"{row.key} {row.kind}"
    return NO_ACCOUNT.get(by, "units without one") if row.key is None else row.key


def has_clusters(rows: Sequence[SumRow]) -> bool:
    """Return whether rows are of several clusters: a name may then be there twice."""
    return len({row.cluster for row in rows}) > 1


def row_url(by: UsageBy, row: UsageRow) -> str | None:
    """Return what a row leads to: the page of its user, project, cluster or node, or the manager's units."""
    if row.key is None or row.kind is not EntryKind.UNIT:
        return None
    match by:
        case UsageBy.USER | UsageBy.PROJECT | UsageBy.CLUSTER:
            return account_url(by, row.key, row.cluster)
        case UsageBy.NODE:
            return node_url(row.cluster or "", row.key)
        case UsageBy.MANAGER:
            return url("/units", manager=row.key)
    return None


def row_pieces(row: UsageRow, largest_uj: int) -> list[BarPiece]:
    """Return the row's energy by component and part; what belongs to no unit is grey."""
    if row.kind is not EntryKind.UNIT:
        css_class = "fill-system" if row.kind is EntryKind.SYSTEM else "fill-unallocated-idle"
        return bar_pieces([(css_class, str(row.kind), row.energy_total_uj)], largest_uj)
    amounts: list[tuple[str, str, float | None]] = []
    for component in Component:
        parts = row.energy_uj.get(component)
        if parts is not None:
            amounts.append((fill_of(component, Part.DYNAMIC), f"{component} dynamic", parts.dynamic_uj))
            amounts.append((fill_of(component, Part.IDLE), f"{component} idle", parts.idle_uj))
    return bar_pieces(amounts, largest_uj)
