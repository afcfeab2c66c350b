"""Nodes: which report, how complete, how measured. Node: meters, balance, frequency, and who is on it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.quantities import joules
from kwhere.core.timespan import Span
from kwhere.database.power_records import BalanceSlot
from kwhere.database.records import ComponentMethod, NodeRecord, NodeState, UnitQuery
from kwhere.reports.node_charts import NewestValue, governors, newest_values, node_charts
from kwhere.reports.store_words import cut_note, not_kept
from kwhere.series.charts import NODE_CHARTS, NodeRef, choose_step
from kwhere.series.governors import GovernorSpan
from kwhere.web.charts import PageChart, fold_cpu_modes, power_stack, series_chart
from kwhere.web.formatting import BarPiece, Column, bar_pieces, column_of
from kwhere.web.pages.node_gpus import NodeGpuPanel, named_gpus, node_gpu_panel
from kwhere.web.pages.node_meters import node_meters
from kwhere.web.pages.overview import first_slot, top_rows
from kwhere.web.pages.racks import rack_table
from kwhere.web.pages.running import running_units
from kwhere.web.rendering import Pages
from kwhere.web.spans import chart_step, choose_span, is_chosen, span_with_data

CHARTS: Sequence[tuple[str, str]] = (
    ("meters", "line"),
    ("frequency", "line"),
    ("cpu", "stack"),
    ("temperature", "line"),
    ("memory", "line"),
    ("load", "line"),
)
"""Charts of a node's page in order, and how each is drawn."""
BALANCE_SLOTS = 60
UNITS_SHOWN = 15


@dataclass(frozen=True, slots=True)
class BalanceRow:
    """A slot of the balance, in joules; the residual stays in microjoules."""

    slot: BalanceSlot
    node: float
    units: float
    system: float
    unallocated: float
    pieces: Sequence[BarPiece]


def nodes_page(pages: Pages, request: Request) -> Response:
    """Return the list of nodes."""
    params = {key: value for key, value in request.query_params.items() if value}
    state = NodeState(params["state"]) if params.get("state") else None
    page = pages.sources.account.nodes(params.get("cluster"), state, params.get("after"), 200)
    clusters = [record.cluster for record in pages.sources.account.clusters()]
    context = {
        "page": page,
        "state": state,
        "states": [(state, count) for state, count in count_states(page.items).items()],
        "clusters": clusters,
        "cluster": params.get("cluster", ""),
        "power_column": column_of([node_watts(node) for node in page.items], "power"),
        "racks": rack_table(pages.sources.account.racks(params.get("cluster"))),
        "has_racks": any(node.facts.rack for node in page.items),
        "by_source": by_source,
        "agreements": {(n.cluster, n.node): pages.sources.agreements.of(n.cluster, n.node) for n in page.items},
        "bars": {(n.cluster, n.node): node_bar(n, page.items) for n in page.items},
    }
    return pages.render(request, "nodes.html", context)


def count_states(nodes: Sequence[NodeRecord]) -> dict[NodeState, int]:
    """Return how many nodes are in each state, in the order of the states."""
    counts = Counter(node.state for node in nodes)
    return {state: counts[state] for state in NodeState if counts[state]}


def by_source(methods: Sequence[ComponentMethod]) -> dict[str, list[str]]:
    """Return which components each source gives, in the order of every legend."""
    found: dict[str, list[str]] = {}
    for method in methods:
        found.setdefault(method.source, []).append(str(method.component))
    return found


def node_watts(node: NodeRecord) -> float | None:
    """Return a node's power now in watts."""
    return None if node.power_uw is None else joules(node.power_uw)


def node_bar(node: NodeRecord, nodes: Sequence[NodeRecord]) -> list[BarPiece]:
    """Return a node's power against the largest."""
    largest = max((other.power_uw or 0 for other in nodes), default=0)
    return bar_pieces([("fill-accent", "power now", node.power_uw)], largest)


def node_page(pages: Pages, request: Request) -> Response:
    """Return one node's page."""
    account = pages.sources.account
    record = account.node(request.path_params["node"], request.query_params.get("cluster"))
    choice = choose_span(request.url.path, request.query_params, pages.now, pages.zone)
    ref = NodeRef(record.cluster, record.node)
    slots = account.balance(record.cluster, record.node, choice.span, BALANCE_SLOTS)
    points = account.power(choice.span, chart_step(choice.span), record.cluster, record.node)
    chosen = is_chosen(request.query_params)
    span = choice.span if chosen else span_with_data(choice.span, first_slot(points))
    gpus = node_gpu_panel(pages.sources, ref, choice.span)
    charts, missing = _charts(pages, record, ref, span)
    charts = [named_gpus(chart, gpus) if chart.id == "meters" else chart for chart in charts]
    on_node = UnitQuery(cluster=record.cluster, node=record.node, span=choice.span, limit=UNITS_SHOWN)
    units = account.units(on_node).items if chosen else running_units(account, on_node)
    rows = top_rows(units)
    balance = balance_rows(slots)
    context = {
        "record": record,
        "choice": choice,
        "zone": pages.zone,
        "power_watts": node_watts(record),
        "power_chart": power_stack("power", "Power by whom it went to", points, span, choice.text),
        "meters": node_meters(pages.sources, ref, span),
        "gpus": gpus,
        "cluster": record.cluster,
        "charts": charts,
        "missing": missing,
        "not_kept": not_kept(pages.sources, record.cluster, span),
        "balance": balance,
        "balance_column": balance_column(balance),
        "residual_uj": sum(abs(slot.residual_uj) for slot in slots),
        "governors": governor_lines(governors(pages.sources, ref.cluster, [ref.node], choice.span, 60.0)),
        "sources": newest_values(pages.sources, ref, "kwhere_energy_source_up", choice.span),
        "collectors": without_data(newest_values(pages.sources, ref, "kwhere_collector_up", choice.span)),
        "idle": idle_values(newest_values(pages.sources, ref, "kwhere_node_idle_watts", choice.span), gpus),
        "rows": rows,
        "is_past": chosen,
        "unit_power_column": column_of([row.power_watts for row in rows], "power"),
        "unit_energy_column": column_of([row.energy_joules for row in rows], "energy"),
    }
    return pages.render(request, "node.html", context)


def _charts(pages: Pages, record: NodeRecord, ref: NodeRef, span: Span) -> tuple[list[PageChart], dict[str, str]]:
    kinds = dict(CHARTS)
    drawn, missing = node_charts(pages.sources, ref, tuple(kinds), span, choose_step(span, 500))
    shown = [fold_cpu_modes(chart, record.cpus) if chart.name == "cpu" else chart for chart in drawn]
    charts = [
        series_chart(chart, span, kinds[chart.name], cut_note(pages.sources, ref.cluster, span, chart))
        for chart in shown
    ]
    return charts, {NODE_CHARTS[name].title: reason for name, reason in missing.items()}


def balance_rows(slots: Sequence[BalanceSlot]) -> list[BalanceRow]:
    """Return the slots, newest first."""
    return [_balance_row(slot) for slot in reversed(slots)]


def _balance_row(slot: BalanceSlot) -> BalanceRow:
    amounts: list[tuple[str, str, float | None]] = [
        ("fill-accent", "units", slot.units_uj),
        ("fill-system", "system", slot.system_uj),
        ("fill-unallocated-idle", "unallocated", slot.unallocated_uj),
    ]
    return BalanceRow(
        slot,
        joules(slot.node_uj),
        joules(slot.units_uj),
        joules(slot.system_uj),
        joules(slot.unallocated_uj),
        bar_pieces(amounts, slot.node_uj),
    )


def balance_column(rows: Sequence[BalanceRow]) -> Column:
    """Return the one scale of the balance's columns."""
    return column_of([row.node for row in rows], "joules")


def governor_lines(spans: Sequence[GovernorSpan]) -> list[str]:
    """Return one line per socket: the governor in force and what it was before."""
    by_socket: dict[str, list[str]] = {}
    for span in spans:
        by_socket.setdefault(span.socket, []).append(span.governor)
    return [f"socket {socket or '0'}: {' → '.join(names)}" for socket, names in by_socket.items()]


def without_data(collectors: Sequence[NewestValue]) -> list[str]:
    """Return the names of collectors that had nothing to say when last asked: broken, or there is nothing to read."""
    return sorted(c.labels.get("collector", "?") for c in collectors if c.value == 0)


def idle_values(values: Sequence[NewestValue], gpus: NodeGpuPanel | None = None) -> list[tuple[str, float]]:
    """Return the idle baseline in force, watts per component and socket; GPUs by their index."""
    return sorted((_domain(value.labels, gpus), value.value) for value in values)


def _domain(labels: Mapping[str, str], gpus: NodeGpuPanel | None) -> str:
    socket = labels.get("socket", "")
    if gpus is not None:
        socket = gpus.index_of(socket)
    return labels.get("component", "?") + (f"[{socket}]" if socket else "")
