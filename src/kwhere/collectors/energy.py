"""Energy of units, of `system`, of what nobody holds and of the node; the meters behind it and their health."""

from collections.abc import Iterator

from kwhere.collectors.collector import CollectorContext, CollectorPlugin, CollectorSettings
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import MICROJOULES_PER_JOULE, NANOSECONDS_PER_SECOND, joules
from kwhere.meters.meter import PLATFORM
from kwhere.sampling.totals import EnergyRow, Totals, TotalsBoard, UnitTotals

_PARTS = ("component", "part")


def _counter(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, Kind.COUNTER, text, labels)


UNIT = _counter("kwhere_unit_energy_joules_total", "Energy of the unit.", "manager", "unit", "run", *_PARTS)
SYSTEM = _counter("kwhere_system_energy_joules_total", "Energy of work that belongs to no unit.", *_PARTS)
UNALLOCATED = _counter("kwhere_unallocated_energy_joules_total", "Idle energy of capacity that nobody holds.", *_PARTS)
NODE = _counter("kwhere_node_energy_joules_total", "Energy of the node; it is the sum of its components.", "component")
PLATFORM_TOTAL = _counter("kwhere_node_platform_joules_total", "Energy by a meter of the whole node.", "source")
CARRY = MetricSpec(
    "kwhere_node_other_carry_joules",
    Kind.GAUGE,
    "What components drew beyond what the platform meter has shown so far.",
)
METER = _counter(
    "kwhere_node_meter_joules_total", "Energy by each meter that works, chosen or not.", "source", "domain", "socket"
)
IDLE = MetricSpec("kwhere_node_idle_watts", Kind.GAUGE, "Idle power in force.", ("component", "socket"))
UP = MetricSpec("kwhere_energy_source_up", Kind.GAUGE, "Whether an energy source can be read.", ("source", "reason"))
COVERS = MetricSpec(
    "kwhere_energy_source_covers_info",
    Kind.INFO,
    "Which components lie inside what a meter of the whole node measures.",
    ("source", "component"),
)
GAPS = _counter("kwhere_energy_gaps_total", "Intervals in which a source added no energy.", "source", "cause")
GAP_SECONDS = _counter("kwhere_energy_gap_seconds_total", "Length of these intervals.", "source")
METHOD = MetricSpec(
    "kwhere_energy_method_info", Kind.INFO, "How a component's energy is known.", ("component", "method", "source")
)
RESIDUAL = MetricSpec(
    "kwhere_attribution_residual_microjoules", Kind.GAUGE, "Node energy less everything it was split into; 0."
)


class EnergySettings(CollectorSettings):
    """Nothing to set."""


class EnergyCollector:
    """Shows the sampler's snapshot; a scrape reads no meter."""

    def __init__(self, context: CollectorContext, settings: EnergySettings) -> None:
        """Raises Unavailable where this process does not sample."""
        if context.totals is None:
            raise Unavailable("absent", "energy: this process has no sampler")
        self._totals: TotalsBoard = context.totals

    def collect(self) -> Iterator[Sample]:
        """Yield everything since the process began. Raises NoData before the first step."""
        totals = self._totals.snapshot()
        if totals is None:
            raise NoData("energy: the first step is still to come")
        created_s = totals.created_utc_ns / NANOSECONDS_PER_SECOND
        for unit in totals.units:
            yield from _unit(unit, created_s)
        yield from _row(SYSTEM, (), totals.system_uj, created_s)
        yield from _row(UNALLOCATED, (), totals.unallocated_uj, created_s)
        for component, energy_uj in totals.node_uj.items():
            yield Sample(NODE, (component.value,), joules(energy_uj), created_s)
        yield from _meters(totals, created_s)
        yield from _trust(totals, created_s)

    def close(self) -> None:
        """Hold nothing."""


def _unit(unit: UnitTotals, created_s: float) -> Iterator[Sample]:
    key = unit.key
    yield from _row(UNIT, (key.manager, key.unit, key.run), unit.energy_uj, created_s)


def _row(spec: MetricSpec, names: tuple[str, ...], row: EnergyRow, created_s: float) -> Iterator[Sample]:
    for (component, part), energy_uj in row.items():
        yield Sample(spec, (*names, component.value, part.value), joules(energy_uj), created_s)


def _meters(totals: Totals, created_s: float) -> Iterator[Sample]:
    for (source, domain), energy_uj in totals.meters_uj.items():
        health = totals.sources.get(source)
        # a counter that stood still would read as 0 W: what is not read, or no longer believed, has no series
        if health is not None and (not health.up or domain in health.silent):
            continue
        if domain == PLATFORM:
            yield Sample(PLATFORM_TOTAL, (source,), joules(energy_uj), created_s)
        yield Sample(METER, (source, domain.kind.value, domain.index), joules(energy_uj), created_s)
    if totals.carry_uj is not None:
        yield Sample(CARRY, (), totals.carry_uj / MICROJOULES_PER_JOULE)


def _trust(totals: Totals, created_s: float) -> Iterator[Sample]:
    for idle in totals.idle:
        yield Sample(IDLE, (idle.component.value, idle.index), joules(idle.power_uw))
    for name, source in totals.sources.items():
        yield Sample(UP, (name, source.reason), int(source.up))
        for component in sorted(source.covers) if source.up else ():
            yield Sample(COVERS, (name, component.value), 1)
        for cause, count in source.gaps.items():
            yield Sample(GAPS, (name, cause), count, created_s)
        if source.up or source.gap_ns:
            yield Sample(GAP_SECONDS, (name,), source.gap_ns / NANOSECONDS_PER_SECOND, created_s)
    for component, (method, source_name) in totals.methods.items():
        yield Sample(METHOD, (component.value, method.value, source_name), 1)
    yield Sample(RESIDUAL, (), totals.residual_uj)


plugin = CollectorPlugin(
    name="energy",
    summary="Energy of units and of the node, the meters behind it, and whether the books balance.",
    settings_class=EnergySettings,
    specs=(
        UNIT,
        SYSTEM,
        UNALLOCATED,
        NODE,
        PLATFORM_TOTAL,
        CARRY,
        METER,
        IDLE,
        UP,
        COVERS,
        GAPS,
        GAP_SECONDS,
        METHOD,
        RESIDUAL,
    ),
    build=EnergyCollector,
)
