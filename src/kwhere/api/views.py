"""From records to the API's JSON: microjoules become joules here, and nowhere before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from kwhere.api.gpu_models import unit_gpu_view
from kwhere.api.inventory_views import facts_view, person_view
from kwhere.api.models import (
    AccountView,
    AgreementView,
    AllocationView,
    ClusterView,
    Column,
    CostView,
    CpuSeconds,
    EmbodiedView,
    EmissionsView,
    EnergyJoules,
    FactorView,
    FindingView,
    ForecastPoint,
    ForecastView,
    MethodView,
    NodeRunView,
    PartJoules,
    SeriesView,
    SpanView,
    Unit,
    UnitList,
    Usage,
    UsageRowView,
    WeekView,
    Whole,
)
from kwhere.api.node_models import Balance, BalanceSlotView, ComponentBalanceView, NodeView
from kwhere.api.place_views import said_view
from kwhere.core.quantities import joules, seconds
from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database.account_records import AccountRecord, ClusterRecord
from kwhere.database.inventory_records import PersonRecord
from kwhere.database.power_records import BalanceSlot, ComponentBalance, PartEnergy
from kwhere.database.records import (
    ComponentMethod,
    EmbodiedShare,
    FactorRecord,
    NodeRecord,
    NodeRun,
    SiteFigure,
    UnitEmissions,
    UnitPage,
    UnitRecord,
    UsageReport,
    UsageRow,
)
from kwhere.reports.agreement import Agreement
from kwhere.reports.optional import COST, cost_of, marginal_grams, water_of
from kwhere.reports.outlook import Outlook
from kwhere.reports.spans import SiteWeek
from kwhere.reports.unit_findings import Finding
from kwhere.reports.unit_whole import WholeUnit
from kwhere.series.charts import Chart


def maybe_joules(energy_uj: int | None) -> float | None:
    """Return microjoules (or microwatts) in joules (watts); None stays None."""
    return None if energy_uj is None else joules(energy_uj)


def maybe_seconds(duration_ns: int | None) -> float | None:
    """Return nanoseconds in seconds; None stays None."""
    return None if duration_ns is None else seconds(duration_ns)


def span_view(span: Span) -> SpanView:
    """Return a span as `from` and `to`."""
    return {"from": span.start, "to": span.end}


def energy_view(energy_uj: Mapping[Component, PartEnergy], total_uj: int | None) -> EnergyJoules:
    """Return joules per component and part, and the total; None where nobody measured."""
    view: EnergyJoules = {
        str(component): PartJoules(
            dynamic=maybe_joules(energy_uj[component].dynamic_uj), idle=maybe_joules(energy_uj[component].idle_uj)
        )
        for component in Component
        if component in energy_uj
    }
    view["total"] = maybe_joules(total_uj)
    return view


def emissions_view(emissions: Sequence[UnitEmissions]) -> list[EmissionsView]:
    """Return grams by source of factors."""
    return [
        EmissionsView(e.provider, e.zone, e.basis, e.scope, e.system, e.quality, e.grams, e.reporting)
        for e in emissions
    ]


def costs_view(figures: Sequence[SiteFigure]) -> list[CostView]:
    """Return money by currency."""
    return [CostView(figure.measure, figure.amount, figure.is_whole) for figure in figures if figure.kind == COST]


def embodied_view(share: EmbodiedShare | None) -> EmbodiedView | None:
    """Return the share in the making of nodes."""
    if share is None:
        return None
    return EmbodiedView(share.grams.value, share.grams.low, share.grams.high, share.is_whole)


def unit_view(record: UnitRecord, findings: Sequence[Finding] = ()) -> Unit:
    """Return a unit, and what stands out of it."""
    cost, water = cost_of(record.figures), water_of(record.figures)
    total_uj = record.energy_total_uj if record.energy_uj else None
    return Unit(
        cluster=record.cluster,
        manager=record.manager,
        unit=record.unit,
        run=record.run,
        name=record.name,
        user=record.user,
        project=record.project,
        state=record.state,
        nodes=list(record.nodes),
        submitted_at=record.submitted_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        allocation=AllocationView(
            cpus=record.cpus_allocated,
            memory_bytes=record.memory_allocated_bytes,
            gpus=dict(record.gpus_allocated),
        ),
        power_watts=maybe_joules(record.power_uw),
        cpu_seconds=CpuSeconds(user=maybe_seconds(record.cpu_user_ns), system=maybe_seconds(record.cpu_system_ns)),
        cpu_efficiency_ratio=record.cpu_efficiency_ratio,
        memory_peak_bytes=record.memory_peak_bytes,
        gpu_busy_seconds=maybe_seconds(record.gpu_busy_ns),
        io_bytes={"read": record.io_read_bytes, "write": record.io_write_bytes},
        network_bytes={"receive": record.network_receive_bytes, "transmit": record.network_transmit_bytes},
        throttled_seconds=maybe_seconds(record.throttled_ns),
        energy_joules=energy_view(record.energy_uj, total_uj),
        energy_joules_total=maybe_joules(total_uj),
        emissions_grams=record.emissions_grams,
        emissions=emissions_view(record.emissions),
        cost=None if cost is None else cost.amount,
        method=None if record.method is None else str(record.method),
        methods=methods_view(record.methods),
        quality=sorted(str(flag) for flag in record.quality),
        node_runs=[node_run_view(run) for run in record.node_runs],
        labels=dict(record.labels),
        emissions_marginal_grams=marginal_grams(record.emissions),
        cost_currency=None if cost is None else cost.measure,
        costs=costs_view(record.figures),
        water_litres=None if water is None else water.amount,
        embodied_grams=embodied_view(record.embodied),
        gpu_allocated_seconds=maybe_seconds(record.gpu.allocated_ns),
        gpu_utilization_ratio=record.gpu.utilisation_ratio,
        gpu_held_idle_seconds=maybe_seconds(record.gpu.held_idle_ns),
        gpu_held_idle_joules=maybe_joules(record.gpu.held_idle_uj),
        gpu_memory_peak_bytes=record.gpu.memory_peak_bytes,
        gpus=[unit_gpu_view(gpu) for gpu in record.gpus],
        emissions_until=record.emissions_until,
        queue=record.queue,
        group=record.group,
        memory_efficiency_ratio=record.memory_efficiency_ratio,
        findings=[FindingView(f.kind, f.text, f.action, f.grave, f.since) for f in findings],
        elapsed_seconds=maybe_seconds(record.elapsed_ns),
        cpu_allocated_seconds=record.cpu_allocated_seconds,
        is_reported=record.is_reported,
        nodes_unreported=list(record.nodes_unreported),
    )


def whole_view(whole: WholeUnit, findings: Sequence[Finding]) -> Whole:
    """Return a job of several parts and their sum."""
    summed = replace(
        unit_view(whole.record, findings),
        cpu_allocated_seconds=whole.cpu_allocated_seconds,
        memory_efficiency_ratio=whole.memory_efficiency_ratio,
    )
    parts = [unit_view(part) for part in whole.parts]
    return Whole(str(whole.kind), summed, parts, dict(whole.states), whole.unknown)


def node_run_view(run: NodeRun) -> NodeRunView:
    """Return a unit's run on one node."""
    return NodeRunView(
        node=run.node,
        run=run.run,
        started_at=run.started_at,
        ended_at=run.ended_at,
        power_watts=maybe_joules(run.power_uw),
        energy_joules=energy_view(run.energy_uj, run.energy_total_uj),
        cpu_seconds=maybe_seconds(run.cpu_ns),
        cpu_efficiency_ratio=run.cpu_efficiency_ratio,
        memory_peak_bytes=run.memory_peak_bytes,
        memory_allocated_bytes=run.memory_allocated_bytes,
    )


def methods_view(methods: tuple[ComponentMethod, ...]) -> list[MethodView]:
    """Return how each component was measured."""
    return [MethodView(str(m.component), str(m.method), m.source) for m in methods]


def unit_list_view(page: UnitPage) -> UnitList:
    """Return one page of units."""
    return UnitList(
        items=[unit_view(record) for record in page.items],
        next=page.next,
        span=span_view(page.span),
        completeness=page.completeness_ratio,
    )


def chart_view(chart: Chart) -> SeriesView:
    """Return a chart."""
    return SeriesView(
        name=chart.name,
        title=chart.title,
        unit=chart.unit,
        times=list(chart.times),
        columns=[Column(c.label, dict(c.labels), list(c.values)) for c in chart.columns],
    )


def week_view(week: SiteWeek, now: datetime) -> WeekView:
    """Return a week as of `now`."""
    return WeekView(
        key=str(week.week), hours=week.span.seconds / 3600, time_zone=week.zone.key, is_over=now >= week.span.end
    )


def usage_view(report: UsageReport, week: WeekView | None = None) -> Usage:
    """Return sums within a span, or within a week."""
    return Usage(
        by=str(report.by),
        span=span_view(report.span),
        items=[usage_row_view(row) for row in report.rows],
        completeness=report.completeness_ratio,
        measured_share=report.measured_ratio,
        week=week,
    )


def usage_row_view(row: UsageRow) -> UsageRowView:
    """Return one sum."""
    cost, water = cost_of(row.figures), water_of(row.figures)
    return UsageRowView(
        key=row.key,
        cluster=row.cluster,
        kind=str(row.kind),
        units=row.units,
        energy_joules=energy_view(row.energy_uj, row.energy_total_uj),
        energy_joules_total=joules(row.energy_total_uj),
        cpu_seconds=maybe_seconds(row.cpu_ns),
        cpu_allocated_seconds=maybe_seconds(row.cpu_allocated_ns),
        gpu_busy_seconds=maybe_seconds(row.gpu_busy_ns),
        emissions_grams=row.emissions_grams,
        emissions=emissions_view(row.emissions),
        emissions_marginal_grams=marginal_grams(row.emissions),
        cost=None if cost is None else cost.amount,
        cost_currency=None if cost is None else cost.measure,
        costs=costs_view(row.figures),
        water_litres=None if water is None else water.amount,
        gpu_allocated_seconds=maybe_seconds(row.gpu.allocated_ns),
        gpu_utilization_ratio=row.gpu.utilisation_ratio,
        gpu_held_idle_seconds=maybe_seconds(row.gpu.held_idle_ns),
        gpu_held_idle_joules=maybe_joules(row.gpu.held_idle_uj),
        span=None if row.span is None else span_view(row.span),
    )


def account_view(record: AccountRecord, person: PersonRecord | None = None) -> AccountView:
    """Return a user or project, a user with what the directory says of them."""
    return AccountView(
        cluster=record.cluster,
        name=record.name,
        units=record.units,
        units_running=record.units_running,
        energy_joules_total=joules(record.energy_total_uj),
        emissions_grams=record.emissions_grams,
        last_seen_at=record.last_seen_at,
        description=record.description,
        parent=record.parent,
        person=None if person is None else person_view(person),
    )


def cluster_view(record: ClusterRecord) -> ClusterView:
    """Return a cluster."""
    return ClusterView(
        cluster=record.cluster,
        nodes=record.nodes,
        nodes_by_state={str(state): count for state, count in record.nodes_by_state.items()},
        units_running=record.units_running,
        power_watts=maybe_joules(record.power_uw),
        zone=record.zone,
    )


def node_view(record: NodeRecord, agreement: Agreement | None = None) -> NodeView:
    """Return a node, with what the server's last round found of its meters."""
    return NodeView(
        cluster=record.cluster,
        node=record.node,
        state=str(record.state),
        power_watts=maybe_joules(record.power_uw),
        completeness=record.completeness_ratio,
        measured_share=record.measured_ratio,
        lag_seconds=record.lag_seconds,
        newest_slot_at=record.newest_slot_at,
        last_pull_at=record.last_pull_at,
        last_error=record.last_error,
        stopped=record.stopped,
        clock_offset_seconds=record.clock_offset_seconds,
        cpus=record.cpus,
        version=record.version,
        idle_policy=record.idle_policy,
        parent=record.parent,
        units_running=record.units_running,
        methods=methods_view(record.methods),
        lost_records=record.lost_records,
        quarantined_slots=record.quarantined_slots,
        meters_agreement=None if agreement is None else agreement_view(agreement),
        managers=[said_view(said) for said in record.said],
        inventory=facts_view(record.facts),
        retired_at=record.retired_at,
    )


def agreement_view(agreement: Agreement) -> AgreementView:
    """Return whether meters agree."""
    return AgreementView(
        sentence=agreement.sentence,
        short=agreement.short,
        disagrees=agreement.disagrees,
        checked=agreement.is_checked,
        causes=list(agreement.causes),
    )


def balance_view(slots: tuple[BalanceSlot, ...]) -> Balance:
    """Return a node's balance slot by slot."""
    return Balance(slots=[_balance_slot(slot) for slot in slots])


def _balance_slot(slot: BalanceSlot) -> BalanceSlotView:
    return BalanceSlotView(
        start=slot.span.start,
        end=slot.span.end,
        node_microjoules=slot.node_uj,
        units_microjoules=slot.units_uj,
        system_microjoules=slot.system_uj,
        unallocated_microjoules=slot.unallocated_uj,
        residual_microjoules=slot.residual_uj,
        components={str(part.component): _component_balance(part) for part in slot.components},
        flags=sorted(str(flag) for flag in slot.flags),
    )


def _component_balance(part: ComponentBalance) -> ComponentBalanceView:
    return ComponentBalanceView(
        node_microjoules=part.node_uj,
        units_dynamic_microjoules=part.units_dynamic_uj,
        units_idle_microjoules=part.units_idle_uj,
        system_microjoules=part.system_uj,
        unallocated_microjoules=part.unallocated_uj,
        residual_microjoules=part.residual_uj,
        span_nanoseconds=part.span_ns,
        method=str(part.method),
        source=part.source,
    )


def forecast_view(outlook: Outlook) -> ForecastView:
    """Return what lies ahead."""
    first, window = outlook.factors[0], outlook.window
    return ForecastView(
        provider=first.provider,
        zone=outlook.zone,
        basis=str(first.basis),
        scope=str(first.scope),
        system=str(first.system),
        published_at=max(factor.published_at for factor in outlook.factors),
        source=first.source,
        window=None if window is None else span_view(window.span),
        grams_per_kwh=None if window is None else window.grams_per_kwh,
        now_grams_per_kwh=outlook.now_grams_per_kwh,
        mean_grams_per_kwh=outlook.mean_grams_per_kwh,
        points=[ForecastPoint(span_view(factor.span), factor.grams_per_kwh) for factor in outlook.factors],
    )


def factor_view(record: FactorRecord) -> FactorView:
    """Return an emission factor."""
    return FactorView(
        provider=record.provider,
        zone=record.zone,
        basis=record.basis,
        scope=record.scope,
        system=record.system,
        quality=record.quality,
        span=span_view(record.span),
        grams_per_kwh=record.grams_per_kwh,
        published_at=record.published_at,
        source=record.source,
        reporting=record.reporting,
    )
