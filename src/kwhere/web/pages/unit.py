"""Unit: what one job, pod, machine or process group used, over time and in all, and how that is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.quantities import joules, seconds
from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database.power_records import PartEnergy
from kwhere.database.records import ComponentMethod, UnitEmissions, UnitQuery, UnitRecord
from kwhere.reports.figures import money_text, significant
from kwhere.reports.node_charts import NODES_ASKED, governors
from kwhere.reports.optional import COST
from kwhere.reports.store_words import cut_note, not_kept
from kwhere.reports.unit_charts import CHART_TITLES, lifetime_of, seen_span, unit_charts
from kwhere.reports.unit_findings import unit_findings
from kwhere.reports.unit_whole import chain_of
from kwhere.series.charts import Chart, choose_step
from kwhere.series.governors import GovernorSpan
from kwhere.web.charts import PageChart, series_chart
from kwhere.web.formatting import BarPiece, bar_pieces, column_of, fill_of, headline, percent
from kwhere.web.pages.unit_gpus import NO_TENSOR, NO_USE, unit_gpu_panel
from kwhere.web.pages.unit_said import RUNS_SHOWN, run_table, said_of, whole_table
from kwhere.web.rendering import Pages
from kwhere.web.spans import Chip, SpanChoice, choose_span, span_with_data
from kwhere.web.units_table import energy_pieces, quality_marks, why_missing

CHARTS: Sequence[tuple[str, str]] = (
    ("power", "stack"),
    ("cpu", "stack"),
    ("frequency", "line"),
    ("memory", "line"),
    ("io_bytes", "line"),
    ("pressure", "line"),
    ("throttling", "line"),
    ("processes", "line"),
    ("gpu", "line"),
    ("gpu_tensor", "line"),
    ("gpu_power", "line"),
    ("gpu_memory", "line"),
    ("gpu_clock", "line"),
    ("gpu_throttling", "line"),
)
"""Charts of the page in order, and how each is drawn."""
NEIGHBOURS = 8
ON_GPU_PANEL = frozenset({"gpu_idle", "gpu_unused"})
"""Findings that stand beside the GPUs, with their charts."""
KIN = 6
"""Earlier units of the same name."""
WHOLE_LIFE = "whole life"
GPU_NAMES = tuple(name for name, _ in CHARTS if name.startswith("gpu"))
OPTIONAL_CHARTS = frozenset({*GPU_NAMES, "throttling", "processes"})
"""Left out where there is nothing to draw."""


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """A component in the table of totals."""

    component: Component
    dynamic_joules: float | None
    idle_joules: float | None
    total_joules: float
    share: str
    method: str
    source: str
    pieces: Sequence[BarPiece]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """What the unit used on one node."""

    node: str
    run: str
    started_at: datetime
    ended_at: datetime | None
    power_watts: float | None
    energy_joules: float
    pieces: Sequence[BarPiece]


def unit_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    place = request.path_params
    account = pages.sources.account
    unit = str(place["unit"]).replace("/", "%2F")
    record = account.unit(place["cluster"], place["manager"], unit, request.query_params.get("run"))
    choice = _choice(pages, request, record)
    charts, missing, drawn = _charts(pages, record, choice)
    components, nodes = component_rows(record), node_rows(record)
    runs = account.unit_runs(record.cluster, record.manager, record.unit, RUNS_SHOWN + 1)
    context = {
        "record": record,
        "why_seen": pages.sources.principal.reason_to_see(record.cluster, record.user, record.project),
        "choice": choice,
        "zone": pages.zone,
        "said": said_of(record, pages.now),
        "findings": [found for found in unit_findings(record, pages.now) if found.kind not in ON_GPU_PANEL],
        "figures": _figures(record, _zone_of(pages, record), pages.zone),
        "charts": [chart for chart in charts if chart.id not in GPU_NAMES],
        "gpu_charts": [chart for chart in charts if chart.id in GPU_NAMES],
        "gpus": unit_gpu_panel(record, drawn),
        "no_use": NO_USE,
        "no_tensor": NO_TENSOR,
        "missing": missing,
        "not_kept": not_kept(pages.sources, record.cluster, choice.span),
        "components": components,
        "energy_column": column_of([row.total_joules for row in components], "energy"),
        "beside": beside_rows(record),
        "nodes": nodes,
        "node_energy_column": column_of([row.energy_joules for row in nodes], "energy"),
        "node_power_column": column_of([row.power_watts for row in nodes], "power"),
        "pieces": energy_pieces(record, 1.0),
        "quality": quality_marks(record.quality),
        "runs": run_table(runs, record, pages.now),
        "is_one_job": len(chain_of(runs)) == len(runs),
        "whole": whole_table(account, record, pages.now),
        "kin": run_table([record, *account.earlier_of_name(record, KIN)], record, pages.now),
        "neighbours": _neighbours(pages, record),
        "csv_url": series_csv_url(record, choice.span),
        "json_url": api_url(record),
    }
    return pages.render(request, "unit.html", context)


def _zone_of(pages: Pages, record: UnitRecord) -> str | None:
    """Return the zone of emission factors of a unit's cluster."""
    return next((each.zone for each in pages.sources.account.clusters() if each.cluster == record.cluster), None)


def _choice(pages: Pages, request: Request, record: UnitRecord) -> SpanChoice:
    """Return the span asked for; by default the unit's whole life, at most its last 30 days."""
    params = {key: value for key, value in request.query_params.items() if value}
    path = request.url.path
    choice = choose_span(path, params, pages.now, pages.zone, default="24h")
    others = [(key, value) for key, value in params.items() if key not in ("span", "from", "to")]
    is_life = not any(key in params for key in ("span", "from", "to"))
    chips = [Chip(WHOLE_LIFE, f"{path}?{urlencode(others)}", is_life), *choice.chips]
    if not is_life:
        return SpanChoice(choice.span, choice.name, chips, choice.start_text, choice.end_text, others)
    life = lifetime_of(record, pages.now)
    span = Span(max(life.start, life.end - timedelta(days=30)), life.end)
    chips = [chips[0], *(Chip(chip.text, chip.url, False) for chip in chips[1:])]
    texts = [moment.astimezone(pages.zone).strftime("%Y-%m-%dT%H:%M") for moment in (span.start, span.end)]
    return SpanChoice(span, WHOLE_LIFE, chips, texts[0], texts[1], others)


def _charts(
    pages: Pages, record: UnitRecord, choice: SpanChoice
) -> tuple[list[PageChart], dict[str, str], list[Chart]]:
    """Return charts to draw, why others are not there, and what they are drawn of; GPUs' only for who held one."""
    kinds = {name: kind for name, kind in CHARTS if record.gpus or name not in GPU_NAMES}
    drawn, missing = unit_charts(pages.sources, record, tuple(kinds), choice.span, choose_step(choice.span, 500))
    span = span_with_data(choice.span, _first_sample(drawn)) if choice.name == WHOLE_LIFE else choice.span
    seen = seen_span(pages.sources, record, span)
    spans = () if seen is None else governors(pages.sources, record.cluster, record.nodes, seen, 60.0)
    notes = {"frequency": governor_note(spans, len(record.nodes))}
    charts = []
    for chart in drawn:
        cut = "" if seen is None else cut_note(pages.sources, record.cluster, choice.span, chart)
        note = ", ".join(word for word in (notes.get(chart.name, ""), cut) if word)
        charts.append(series_chart(chart, span, kinds[chart.name], note))
    reasons = {CHART_TITLES[name]: reason for name, reason in missing.items() if name not in OPTIONAL_CHARTS}
    return charts, reasons, drawn


def _first_sample(charts: Sequence[Chart]) -> datetime | None:
    """Return the first time at which any chart has a value."""
    firsts = [
        time_s
        for chart in charts
        for time_s, *values in zip(chart.times, *(column.values for column in chart.columns), strict=True)
        if any(value is not None for value in values)
    ]
    return datetime.fromtimestamp(min(firsts), UTC) if firsts else None


def governor_note(spans: Sequence[GovernorSpan], nodes: int = 1) -> str:
    """Return the governors in force in time order, and that they changed where they did: why a benchmark fluctuates.

    Of a unit on many `nodes` it says on how many of them.
    """
    by_socket: dict[tuple[str, str], list[str]] = {}
    for span in spans:
        by_socket.setdefault((span.node, span.socket), []).append(span.governor)
    courses = sorted({" → ".join(names) for names in by_socket.values()})
    if not courses:
        return "governor not known"
    asked = f" on {NODES_ASKED} of {nodes} nodes" if nodes > NODES_ASKED else ""
    return f"governor {', '.join(courses)}{asked}"


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the four numbers of the header."""

    value: float | None
    quantity: str
    text: str
    label: str
    reason: str


def _figures(record: UnitRecord, zone: str | None, time_zone: ZoneInfo) -> list[KeyFigure]:
    efficiency = record.cpu_efficiency_ratio
    used_ns = [time_ns for time_ns in (record.cpu_user_ns, record.cpu_system_ns) if time_ns is not None]
    used = seconds(sum(used_ns)) if used_ns else None
    return [
        KeyFigure(
            joules(record.energy_total_uj) if record.energy_uj else None, "energy", "", "energy", why_missing(record)
        ),
        _grams_figure(record, zone, time_zone),
        KeyFigure(None, "", percent(efficiency), "CPU time used of allocated", "no allocation known")
        if efficiency is not None
        else KeyFigure(used, "cpu_time", "", "CPU time" + _without_allocation(record), why_missing(record)),
        _gpu_figure(record)
        if record.gpus
        else KeyFigure(record.memory_peak_bytes, "bytes", "", "peak memory", "the kernel does not say"),
    ]


def _without_allocation(record: UnitRecord) -> str:
    return "" if record.cpus_allocated is not None else "; allocation not known"


def _grams_figure(record: UnitRecord, zone: str | None, time_zone: ZoneInfo) -> KeyFigure:
    """Return the grams; they follow the energy by a pass, and say so where they are behind."""
    if not record.is_reported:
        return KeyFigure(None, "mass", "", "emissions", why_missing(record))
    if record.emissions_grams is None:
        follows = "computed within a minute of its energy"
        reason = "no zone set: choose a country on Emissions" if zone is None else follows
        return KeyFigure(None, "mass", "", "emissions" if zone is None else "emissions, not computed yet", reason)
    label, until = "emissions", record.emissions_until
    newest = record.ended_at or until
    if until is not None and newest is not None and (record.ended_at is None or until < newest):
        label = f"emissions, up to {until.astimezone(time_zone):%H:%M:%S}"
    return KeyFigure(record.emissions_grams, "mass", "", label, "")


def _gpu_figure(record: UnitRecord) -> KeyFigure:
    ratio, count = record.gpu.utilisation_ratio, len(record.gpus)
    label = "GPU busy of the time held" if count == 1 else f"busy of the time held, {count} GPUs"
    return KeyFigure(None, "", "" if ratio is None else percent(ratio), label, NO_USE)


@dataclass(frozen=True, slots=True)
class BesideRow:
    """A figure of its own that is in no sum with another: grams by one source, cost, embodied carbon, water."""

    name: str
    value: float | None
    quantity: str
    """Empty: `text` is shown."""
    text: str
    meaning: str


def beside_rows(record: UnitRecord) -> list[BesideRow]:
    """Return grams by every source of factors, average and marginal apart, then what the site has switched on."""
    rows = [_source_row(item) for item in sorted(record.emissions, key=lambda item: (not item.reporting, item.basis))]
    for figure in record.figures:
        note = "" if figure.is_whole else "; no price was in force at times"
        if figure.kind == COST:
            text = f"{money_text(figure.amount)} {figure.measure}"
            rows.append(BesideRow("Cost", None, "", text, f"energy × PUE × tariff at its time{note}"))
        else:
            meaning = f"evaporated on the site and at power plants{note}"
            rows.append(BesideRow("Water", None, "", f"{significant(figure.amount)} l", meaning))
    if record.embodied is not None:
        made = record.embodied.grams
        low, high = (f"{head.number} {head.unit}" for head in (headline(made.low, "mass"), headline(made.high, "mass")))
        part = "" if record.embodied.is_whole else "; of the nodes whose type is known"
        meaning = f"making its nodes, by CPU time allocated: {low} to {high}{part}"
        rows.append(BesideRow("Embodied CO₂e", made.value, "mass", "", meaning))
    return rows


def _source_row(item: UnitEmissions) -> BesideRow:
    role = "reported" if item.reporting else "beside"
    known = f"{item.quality}, {role}" if item.quality != item.provider else role
    meaning = f"{item.provider}, zone {item.zone} · {item.scope}, {item.system} · {known}"
    return BesideRow(f"CO₂e, {item.basis}", item.grams, "mass", "", meaning)


def _neighbours(pages: Pages, record: UnitRecord) -> list[UnitRecord]:
    """Return the largest units that ran on its first node while it did."""
    if not record.nodes:
        return []
    query = UnitQuery(
        cluster=record.cluster, node=record.nodes[0], span=lifetime_of(record, pages.now), limit=NEIGHBOURS + 1
    )
    found = pages.sources.account.units(query).items
    return [unit for unit in found if (unit.manager, unit.run) != (record.manager, record.run)][:NEIGHBOURS]


def component_rows(record: UnitRecord) -> list[ComponentRow]:
    """Return the table of totals, in the order of every legend; components nobody measured are absent."""
    methods = {method.component: method for method in record.methods}
    largest = max((_total_uj(parts) for parts in record.energy_uj.values()), default=0)
    return [
        _component_row(record, component, parts, methods.get(component), largest)
        for component in Component
        if (parts := record.energy_uj.get(component)) is not None
    ]


def _component_row(
    record: UnitRecord, component: Component, parts: PartEnergy, method: ComponentMethod | None, largest_uj: int
) -> ComponentRow:
    total_uj = _total_uj(parts)
    amounts: list[tuple[str, str, float | None]] = [
        (fill_of(component, "dynamic"), "dynamic", parts.dynamic_uj),
        (fill_of(component, "idle"), "idle", parts.idle_uj),
    ]
    return ComponentRow(
        component,
        None if parts.dynamic_uj is None else joules(parts.dynamic_uj),
        None if parts.idle_uj is None else joules(parts.idle_uj),
        joules(total_uj),
        percent(total_uj / record.energy_total_uj if record.energy_total_uj else None),
        "not known" if method is None else str(method.method),
        "" if method is None else method.source,
        bar_pieces(amounts, largest_uj),
    )


def _total_uj(parts: PartEnergy) -> int:
    return (parts.dynamic_uj or 0) + (parts.idle_uj or 0)


def node_rows(record: UnitRecord) -> list[NodeRow]:
    """Return what it used node by node; bars against the node with the most."""
    largest = max((run.energy_total_uj for run in record.node_runs), default=0)
    rows = []
    for run in record.node_runs:
        amounts = [
            (fill_of(component, part), f"{component} {part}", amount)
            for component, parts in sorted(run.energy_uj.items(), key=lambda item: list(Component).index(item[0]))
            for part, amount in (("dynamic", parts.dynamic_uj), ("idle", parts.idle_uj))
        ]
        power = None if run.power_uw is None else joules(run.power_uw)
        energy = joules(run.energy_total_uj)
        pieces = bar_pieces(amounts, largest)
        rows.append(NodeRow(run.node, run.run, run.started_at, run.ended_at, power, energy, pieces))
    return rows


def api_url(record: UnitRecord) -> str:
    """Return the unit's address in the API."""
    place = "/".join(quote(part, safe="") for part in (record.cluster, record.manager, record.unit))
    return f"/api/v1/units/{place}?{urlencode({'run': record.run})}"


def series_csv_url(record: UnitRecord, span: Span) -> str:
    """Return the address of the page's series as CSV."""
    place = "/".join(quote(part, safe="") for part in (record.cluster, record.manager, record.unit))
    query = {
        "run": record.run,
        "names": ",".join(name for name, _ in CHARTS),
        "from": span.start.isoformat(),
        "to": span.end.isoformat(),
        "format": "csv",
    }
    return f"/api/v1/units/{place}/series?{urlencode(query)}"
