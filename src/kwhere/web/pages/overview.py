"""Overview: which unit uses the watts right now, what today cost, and whether the books balance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from kwhere.core.quantities import joules
from kwhere.core.terms import Component, Method
from kwhere.database.power_records import PowerPoint
from kwhere.database.records import ComponentMethod, FactorRecord, NodeState, Overview, UnitRecord
from kwhere.reports.agreement import NO_SECOND, NOT_YET, Agreement
from kwhere.web.charts import PageChart, power_stack
from kwhere.web.formatting import BarPiece, Column, bar_pieces, column_of, fill_of, percent
from kwhere.web.rendering import Pages, url
from kwhere.web.spans import SpanChoice, chart_step, choose_span, is_chosen, span_with_data
from kwhere.web.units_table import energy_pieces

TOP_UNITS = 10


@dataclass(frozen=True, slots=True)
class Fact:
    """A short statement on the quality of the figures; `css_class` is good, warn, bad or empty."""

    strong: str
    text: str
    css_class: str
    title: str


@dataclass(frozen=True, slots=True)
class TopRow:
    """One of the top units."""

    record: UnitRecord
    pieces: Sequence[BarPiece]
    power_watts: float | None
    energy_joules: float


def overview_page(pages: Pages, request: Request) -> Response:
    """Return the page."""
    choice = choose_span("/", request.query_params, pages.now, pages.zone)
    chosen = is_chosen(request.query_params)
    account = pages.sources.account
    clusters = [record.cluster for record in account.clusters()]
    cluster = request.query_params.get("cluster") or None
    overview = account.overview(TOP_UNITS, cluster)
    factors = account.emission_factors()
    rows = top_rows(overview.top_units)
    context = {
        "choice": choice,
        "live_query": choice.live_query if chosen or cluster else "",
        "overview": overview,
        "cluster_chips": cluster_chips(clusters, cluster, request.query_params),
        "is_waiting": overview.power_uw is None and overview.is_of_site,
        "stale_since": _stale_since(pages, overview),
        "power_watts": None if overview.power_uw is None else joules(overview.power_uw),
        "energy_joules": joules(overview.energy_today_uj) if has_figures(overview) else None,
        "facts": facts_of(overview, pages.sources.agreements.of_cluster(cluster)),
        "now_pieces": now_pieces(overview),
        "chart": _chart(pages, choice, cluster, chosen),
        "zone": pages.zone,
        "rows": rows,
        "power_column": column_of([row.power_watts for row in rows], "power"),
        "energy_column": column_of([row.energy_joules for row in rows], "energy"),
        "hints": pages.sources.hints(),
        "factor": reporting_factor(factors),
        "site": account.site_choice(),
        "is_modelled": is_modelled(overview.methods),
        "sentence": method_sentence(overview.methods),
    }
    return pages.render(request, "overview.html", context)


def has_figures(overview: Overview) -> bool:
    """Return whether there is anything to sum: a node that ever reported, or units of one's own, be they none."""
    return bool(overview.nodes_by_state) or not overview.is_of_site


def _chart(pages: Pages, choice: SpanChoice, cluster: str | None, chosen: bool) -> PageChart:
    points = pages.sources.account.power(choice.span, chart_step(choice.span), cluster)
    span = choice.span if chosen else span_with_data(choice.span, first_slot(points))
    title = "Power of all nodes" if pages.sources.principal.sees_everything else "Power of your units"
    return power_stack("power", title, points, span, choice.text)


def _stale_since(pages: Pages, overview: Overview) -> datetime | None:
    """Return when the newest slot ended where no node is up any more; None where one is, or none ever was."""
    if overview.power_uw is not None or not overview.nodes_by_state:
        return None
    nodes = pages.sources.account.nodes(limit=200).items
    return max((node.newest_slot_at for node in nodes if node.newest_slot_at is not None), default=None)


def first_slot(points: Sequence[PowerPoint]) -> datetime | None:
    """Return where the first bucket with an account begins."""
    return next((point.span.start for point in points if point.node_seconds > 0), None)


def cluster_chips(
    clusters: Sequence[str], current: str | None, params: Mapping[str, str]
) -> list[tuple[str, str, bool]]:
    """Return text, address and whether it is shown, for all clusters and each; nothing where there is only one."""
    if len(clusters) < 2:
        return []
    kept = {key: value for key, value in params.items() if key in ("span", "from", "to")}
    all_of_them = ("all clusters", url("/", **kept), current is None)
    return [all_of_them, *((name, url("/", cluster=name, **kept), name == current) for name in clusters)]


def top_rows(records: Sequence[UnitRecord]) -> list[TopRow]:
    """Return the rows; bars are against the largest power, split as the unit's energy is."""
    largest = max((record.power_uw or 0 for record in records), default=0)
    return [
        TopRow(
            record,
            energy_pieces(record, (record.power_uw or 0) / largest if largest else 0.0),
            None if record.power_uw is None else joules(record.power_uw),
            joules(record.energy_total_uj),
        )
        for record in records
    ]


def now_pieces(overview: Overview) -> list[BarPiece]:
    """Return power now as one bar: components' dynamic and idle parts, system, unallocated."""
    amounts: list[tuple[str, str, float | None]] = []
    column = Column("power", column_of([joules(overview.power_uw or 0)], "power").scale)
    for component in Component:
        shares = overview.power_now.get(component)
        if shares is None:
            continue
        for part, amount in (("dynamic", shares.units_dynamic_uj), ("idle", shares.units_idle_uj)):
            title = f"{component} {part}: {column.scale.text(joules(amount))} {column.unit}"
            amounts.append((fill_of(component, part), title, amount))
    for name, css_class in (("system", "fill-system"), ("unallocated", "fill-unallocated-idle")):
        amount = sum(getattr(shares, f"{name}_uj") for shares in overview.power_now.values())
        amounts.append((css_class, f"{name}: {column.scale.text(joules(amount))} {column.unit}", amount))
    return bar_pieces(amounts, float(overview.power_uw or 0))


def facts_of(overview: Overview, agreements: Sequence[Agreement] = ()) -> list[Fact]:
    """Return completeness, measured share, reconciliation and balance, worst news in colour."""
    if not overview.is_of_site:
        return own_facts(overview)
    nodes = sum(overview.nodes_by_state.values()) - overview.nodes_by_state.get(NodeState.RETIRED, 0)
    up = overview.nodes_by_state.get(NodeState.UP, 0)
    if not nodes:
        return [Fact("no node", "has reported yet", "warn", "the server pulls each agent's account")]
    facts = [
        Fact(
            f"{up}/{nodes}",
            "node reporting" if nodes == 1 else "nodes reporting",
            "good" if up == nodes else "warn",
            "nodes whose newest slot is at most three slots and one pull old",
        )
    ]
    facts += _completeness_facts(overview, "node-seconds accounted of node-seconds expected, since the site's midnight")
    if overview.measured_ratio is not None:
        facts.append(
            Fact(
                percent(overview.measured_ratio),
                "measured",
                "good" if overview.measured_ratio >= 0.5 else "warn",
                "today's energy whose method is not modelled, of all",
            )
        )
    if agreements:
        facts.append(agreement_fact(agreements))
    if overview.power_uw is not None:
        facts.append(_balance_fact(overview.residual_uj))
    return facts


def own_facts(overview: Overview) -> list[Fact]:
    """Return what is said of one's own units: how many run, and whether their nodes' account is whole."""
    running = overview.units_running
    units = Fact(str(running), "unit running" if running == 1 else "units running", "", "units that you may see")
    return [units, *_completeness_facts(overview, "of the nodes that your units ran on today")]


def _completeness_facts(overview: Overview, meaning: str) -> list[Fact]:
    ratio = overview.completeness_ratio
    if ratio is None:
        return []
    return [Fact(percent(ratio), "complete today", "good" if ratio >= 0.99 else "warn", meaning)]


def agreement_fact(agreements: Sequence[Agreement]) -> Fact:
    """Return whether nodes' meters agree: how many do not, else the widest of those that do."""
    off = [agreement for agreement in agreements if agreement.disagrees]
    if off:
        sentences = " ".join(dict.fromkeys(agreement.sentence for agreement in off[:3]))
        text = "node's meters disagree" if len(off) == 1 else "nodes' meters disagree"
        return Fact(str(len(off)), text, "warn", sentences)
    checked = [agreement for agreement in agreements if agreement.is_checked]
    if not checked:
        young = next((agreement for agreement in agreements if agreement.short == NOT_YET), None)
        if young is not None:
            return Fact(NOT_YET, "enough to compare meters", "", young.sentence)
        return Fact(NO_SECOND, "to check meters with", "", agreements[0].sentence)
    widest = max(checked, key=lambda agreement: agreement.within_ratio)
    return Fact(widest.short, "meters agree within", "good", widest.sentence)


def _balance_fact(residual_uj: int) -> Fact:
    title = "node = units + system + unallocated, per component and slot, in microjoules"
    if residual_uj == 0:
        return Fact("✓", "balance exact", "good", title)
    return Fact(f"{residual_uj} µJ", "do not balance", "bad", title)


def is_modelled(methods: Sequence[ComponentMethod]) -> bool:
    """Return whether everything is estimated."""
    return bool(methods) and all(method.method is Method.MODELLED for method in methods)


def method_sentence(methods: Sequence[ComponentMethod]) -> str:
    """Return one sentence where everything is estimated; empty where something is measured."""
    if is_modelled(methods):
        return "Every watt here is estimated: no energy meter is readable, so a documented model stands in."
    return ""


def reporting_factor(factors: Sequence[FactorRecord]) -> FactorRecord | None:
    """Return the factor in force that makes the site's grams."""
    return next((factor for factor in factors if factor.reporting), None)
