"""The JSON of the API: a contract (names and units), one frozen dataclass per thing."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from kwhere.api.gpu_models import UnitGpuView
from kwhere.api.inventory_models import PersonView
from kwhere.api.place_models import ManagerView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartJoules:
    """Joules of one component; null where nobody measured that part."""

    dynamic: float | None
    idle: float | None


EnergyJoules = dict[str, PartJoules | float | None]
"""`{"cpu": {"dynamic", "idle"}, …, "total"}`; a component that nothing measured is absent."""


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU time by mode."""

    user: float | None
    system: float | None


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What the unit was given."""

    cpus: float | None
    memory_bytes: int | None
    gpus: dict[str, float]


@dataclass(frozen=True, slots=True)
class EmissionsView:
    """Grams of CO2e by one source of factors."""

    provider: str
    zone: str
    basis: str
    scope: str
    system: str
    quality: str
    grams: float
    reporting: bool = False
    """Of the site's reporting provider, or stood in for it: together they are `emissions_grams`."""


@dataclass(frozen=True, slots=True)
class CostView:
    """Money in one currency; `is_whole` is false where no tariff was in force at times."""

    currency: str
    amount: float
    is_whole: bool


@dataclass(frozen=True, slots=True)
class EmbodiedView:
    """Grams of CO2e of making nodes, with bounds; in no sum with operational grams.

    `is_whole` is false where the type of some node is not known.
    """

    value: float
    min: float
    max: float
    is_whole: bool


@dataclass(frozen=True, slots=True)
class NodeRunView:
    """The label values of the unit's series on one node, and what it used there."""

    node: str
    run: str
    started_at: datetime
    ended_at: datetime | None
    power_watts: float | None
    energy_joules: EnergyJoules
    cpu_seconds: float | None
    """User and system together."""
    cpu_efficiency_ratio: float | None
    memory_peak_bytes: int | None
    memory_allocated_bytes: int | None
    """Mean over its life."""


@dataclass(frozen=True, slots=True)
class FindingView:
    """What stands out, and what to do about it; `grave`: something failed, or figures contradict each other."""

    kind: str
    text: str
    action: str
    grave: bool
    since: datetime | None = None
    """It goes on, since then."""


@dataclass(frozen=True, slots=True)
class MethodView:
    """How a component's figures came about."""

    component: str
    method: str
    source: str


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's run with lifetime totals."""

    cluster: str
    manager: str
    unit: str
    run: str
    name: str | None
    user: str | None
    project: str | None
    state: str
    nodes: list[str]
    submitted_at: datetime | None
    started_at: datetime
    ended_at: datetime | None
    allocation: AllocationView
    power_watts: float | None
    cpu_seconds: CpuSeconds
    cpu_efficiency_ratio: float | None
    memory_peak_bytes: int | None
    gpu_busy_seconds: float | None
    io_bytes: dict[str, int | None]
    network_bytes: dict[str, int | None]
    throttled_seconds: float | None
    energy_joules: EnergyJoules
    energy_joules_total: float | None
    """null: nobody measured it."""
    emissions_grams: float | None
    emissions: list[EmissionsView]
    cost: float | None
    method: str | None
    methods: list[MethodView]
    quality: list[str]
    node_runs: list[NodeRunView]
    labels: dict[str, str]
    emissions_marginal_grams: float | None = None
    """By the first marginal source; never in one sum with `emissions_grams`."""
    cost_currency: str | None = None
    costs: list[CostView] = field(default_factory=list)
    """By currency; `cost` is null where there are several."""
    water_litres: float | None = None
    embodied_grams: EmbodiedView | None = None
    gpu_allocated_seconds: float | None = None
    gpu_utilization_ratio: float | None = None
    """GPU seconds busy of those allocated, over the time of which it is known."""
    gpu_held_idle_seconds: float | None = None
    """GPU seconds held while nothing of the unit ran there."""
    gpu_held_idle_joules: float | None = None
    gpu_memory_peak_bytes: int | None = None
    """Most at one moment over all its GPUs of a node."""
    gpus: list[UnitGpuView] = field(default_factory=list)
    emissions_until: datetime | None = None
    """Up to when its grams are known; they follow its energy by a pass. Of one unit alone, null in lists."""
    queue: str | None = None
    """Partition, queue or namespace, as its manager says."""
    group: str | None = None
    memory_efficiency_ratio: float | None = None
    """The peaks of its nodes, summed, of the memory allocated."""
    findings: list[FindingView] = field(default_factory=list)
    """What stands out; told of one unit, not in lists."""
    elapsed_seconds: float | None = None
    """How long it held its allocation as its manager counts: times of suspension are left out."""
    cpu_allocated_seconds: float | None = None
    """CPUs allocated times `elapsed_seconds`, or its whole life: core-hours, times of suspension left out."""
    is_reported: bool = True
    """false: only its manager told of it, no agent has; its figures are missing then."""
    nodes_unreported: list[str] = field(default_factory=list)
    """Nodes its manager placed it on of which no agent told it: what it used there is missing."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A job of several parts or runs, added up."""

    kind: str
    """`runs` of a requeued job, `array`, or `heterogeneous`."""
    unit: Unit
    """The sum, in the shape of one unit; what is known of some parts alone is the sum over those."""
    parts: list[Unit]
    """In the order of their ids; runs in that of time."""
    states: dict[str, int]
    """How many parts are in which state."""
    unknown: int
    """Parts whose energy nobody knows: it is not in the sum."""


SpanView = dict[str, datetime]
"""`{"from", "to"}`, half-open."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; `next` is the `after` of the following page, null on the last."""

    items: list[T]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class UnitList:
    """One page of units with their lifetime totals.

    `span` is the one asked for (units alive within it), else the last 24 h; `completeness` is of it.
    """

    items: list[Unit]
    next: str | None
    span: SpanView
    completeness: float | None


@dataclass(frozen=True, slots=True)
class Column:
    """One line of a chart."""

    label: str
    labels: dict[str, str]
    values: list[float | None]


@dataclass(frozen=True, slots=True)
class SeriesView:
    """One chart: columns aligned to `times` (Unix seconds, each the end of its step); null is a gap."""

    name: str
    title: str
    unit: str
    times: list[float]
    columns: list[Column]


@dataclass(frozen=True, slots=True)
class SeriesList:
    """Charts of one unit within a span."""

    span: SpanView
    step: float
    series: list[SeriesView]
    missing: dict[str, str] = field(default_factory=dict)
    """Why a chart that was asked for is not there, by its name."""
    kept_since: datetime | None = None
    """Samples of before are not kept any more; null where the whole span is kept, or it is not known."""


@dataclass(frozen=True, slots=True)
class UsageRowView:
    """A sum; `key` null with kind `system` or `unallocated`, or for units that belong to no account."""

    key: str | None
    cluster: str | None
    kind: str
    units: int
    energy_joules: EnergyJoules
    energy_joules_total: float
    cpu_seconds: float | None
    cpu_allocated_seconds: float | None
    gpu_busy_seconds: float | None
    emissions_grams: float | None
    emissions: list[EmissionsView] = field(default_factory=list)
    emissions_marginal_grams: float | None = None
    cost: float | None = None
    cost_currency: str | None = None
    costs: list[CostView] = field(default_factory=list)
    water_litres: float | None = None
    gpu_allocated_seconds: float | None = None
    gpu_utilization_ratio: float | None = None
    gpu_held_idle_seconds: float | None = None
    gpu_held_idle_joules: float | None = None
    span: SpanView | None = None
    """Of a day, week or month, in full: a week has 167 or 169 hours where clocks change."""


@dataclass(frozen=True, slots=True)
class WeekView:
    """An ISO week in the site's time zone."""

    key: str
    """`2026-W53`"""
    hours: float
    """168, or one more or less where clocks change."""
    time_zone: str
    is_over: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums within a span; rows add up to what the nodes drew."""

    by: str
    span: SpanView
    items: list[UsageRowView]
    completeness: float | None
    measured_share: float | None
    week: WeekView | None = None
    """Where a week was asked for."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """A user or project."""

    cluster: str
    name: str
    units: int
    units_running: int
    energy_joules_total: float
    emissions_grams: float | None
    last_seen_at: datetime | None
    """null: a manager lists it, nothing of it was seen yet."""
    description: str | None = None
    parent: str | None = None
    """Of projects, as their manager says."""
    person: PersonView | None = None
    """Of one user, not in lists: what the directory says, to themselves and to who sees everything."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster now."""

    cluster: str
    nodes: int | None
    nodes_by_state: dict[str, int]
    units_running: int
    power_watts: float | None
    zone: str | None


@dataclass(frozen=True, slots=True)
class AgreementView:
    """Whether a node's meters agree; `causes` says what it may be where they do not."""

    sentence: str
    short: str
    disagrees: bool
    checked: bool
    causes: list[str]


@dataclass(frozen=True, slots=True)
class MeterView:
    """A source within the span; `difference_ratio` is against `reference`, which speaks for the same thing."""

    source: str
    domain: str
    power_watts: float | None
    energy_joules: float | None
    role: str
    covers: list[str]
    reference: str | None
    difference_ratio: float | None
    known_ratio: float


@dataclass(frozen=True, slots=True)
class ResidualView:
    """The node's meter less the measured components inside it, over the windows that all know."""

    platform_joules: float
    components_joules: float
    joules: float
    idle_joules: float | None
    dynamic_joules: float | None
    windows: int
    within_ratio: float
    slope_ratio: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class ReconciliationView:
    """A node's meters against each other; `left_out_ratio` is the share of the span that could not be compared."""

    span: SpanView
    window_seconds: float
    windows: int
    left_out_ratio: float | None
    platform: str | None
    components: dict[str, str]
    unmeasured: list[str]
    agreement: AgreementView
    residual: ResidualView | None
    meters: list[MeterView]
    series: SeriesView | None


@dataclass(frozen=True, slots=True)
class FactorView:
    """An emission factor with its provenance."""

    provider: str
    zone: str
    basis: str
    scope: str
    system: str
    quality: str
    span: SpanView
    grams_per_kwh: float
    published_at: datetime
    source: str
    reporting: bool


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """A forecast factor over its span, in grams per kWh."""

    span: SpanView
    grams_per_kwh: float


@dataclass(frozen=True, slots=True)
class ForecastView:
    """One provider's forecast for one zone; `window` is the span that emits least, null where none fits."""

    provider: str
    zone: str
    basis: str
    scope: str
    system: str
    published_at: datetime
    source: str
    window: SpanView | None
    grams_per_kwh: float | None
    now_grams_per_kwh: float | None
    mean_grams_per_kwh: float
    points: list[ForecastPoint]


@dataclass(frozen=True, slots=True)
class ForecastList:
    """What lies ahead within `span`, for windows of `length_seconds`."""

    span: SpanView
    length_seconds: float
    items: list[ForecastView]
    missing: dict[str, str]
    """Why a provider has none, by its name and zone."""


@dataclass(frozen=True, slots=True)
class SeriesKept:
    """How far back a cluster's series go: `by` is time, size, or `oldest sample` where the store does not tell."""

    cluster: str
    kept_since: datetime | None
    by: str | None
    limits: str | None
    """As the store says them."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the account is in order; `status` is ok or degraded, `reasons` says why."""

    status: str
    reasons: list[str]
    version: str
    database: dict[str, str]
    nodes_by_state: dict[str, int]
    stopped_journals: int
    quarantined_slots: int
    lost_records: int
    oldest_touched_hour_at: datetime | None
    managers: list[ManagerView] = field(default_factory=list)
    series: list[SeriesKept] = field(default_factory=list)
