"""What the read side returns: frozen records, energy in integer microjoules, power in microwatts, times in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, EntryKind, Flag, Method
from kwhere.core.timespan import Span
from kwhere.database.gpu_records import NO_GPUS, GpuTotals, UnitGpu
from kwhere.database.node_facts import NO_FACTS, NodeFacts
from kwhere.database.place_records import NodeSaid
from kwhere.database.power_records import ComponentShares, PartEnergy
from kwhere.energy.embodied import Range


class NodeState(StrEnum):
    """Whether a node's account is coming in."""

    UP = "up"
    LATE = "late"
    LOST = "lost"
    RETIRED = "retired"


class UnitSort(StrEnum):
    """What a list of units can be sorted by; every one is a stored figure."""

    ENERGY_JOULES = "energy_joules"
    POWER_WATTS = "power_watts"
    CPU_SECONDS = "cpu_seconds"
    GPU_BUSY_SECONDS = "gpu_busy_seconds"
    STARTED_AT = "started_at"
    ENDED_AT = "ended_at"


class UsageBy(StrEnum):
    """What usage is summed by."""

    USER = "user"
    PROJECT = "project"
    MANAGER = "manager"
    CLUSTER = "cluster"
    NODE = "node"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class JobWords:
    """Jobs that were asked for by their ids."""

    units: frozenset[str] = frozenset()
    """Native ids, and the numbers of arrays and heterogeneous jobs, which stand for all their parts."""
    shown: frozenset[str] = frozenset()
    """Ids as the manager shows them: `123_4`, `123+0`."""
    runs: frozenset[str] = frozenset()
    """Runs that are unique for ever: SLUIDs."""


@dataclass(frozen=True, slots=True)
class UnitQuery:
    """A page of units. `after` is the opaque cursor of the page before."""

    cluster: str | None = None
    manager: str | None = None
    user: str | None = None
    project: str | None = None
    states: tuple[str, ...] = ()
    """Any of them: `running`, `ended`, or a word of its manager in lower case, such as `failed`."""
    queue: str | None = None
    node: str | None = None
    jobs: JobWords | None = None
    span: Span | None = None
    """Only units that lived within it."""
    running: bool = False
    """Also those that have not ended, whatever the span."""
    name: str | None = None
    """A unit's whole name."""
    q: str | None = None
    """Part of a unit's id, name, user or project; case does not matter."""
    sort: UnitSort = UnitSort.ENERGY_JOULES
    descending: bool = True
    limit: int = 50
    after: str | None = None


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a unit on one node: the label values of its series, and what it used there."""

    node: str
    run: str
    started_at: datetime
    ended_at: datetime | None
    energy_uj: Mapping[Component, PartEnergy]
    energy_total_uj: int
    power_uw: int | None
    cpu_ns: int | None = None
    cpu_allocated_ns: int | None = None
    memory_peak_bytes: int | None = None
    memory_allocated_bytes: int | None = None
    """Mean over its life."""
    measured_seconds: float | None = None
    """How long its node was measured while it ran there: an agent may have come later than the unit."""

    @property
    def cpu_efficiency_ratio(self) -> float | None:
        """Return the CPU time used of that allocated; None where either is not known."""
        return None if self.cpu_ns is None or not self.cpu_allocated_ns else self.cpu_ns / self.cpu_allocated_ns


@dataclass(frozen=True, slots=True)
class ComponentMethod:
    """How a component's figures came about."""

    component: Component
    method: Method
    source: str


@dataclass(frozen=True, slots=True)
class UnitEmissions:
    """Grams of CO2e by one source of factors; `quality` is the worst of the factors used."""

    provider: str
    zone: str
    basis: str
    scope: str
    system: str
    quality: str
    grams: float
    reporting: bool
    """Of the site's reporting provider."""


@dataclass(frozen=True, slots=True)
class SiteFigure:
    """What is derived from energy beside grams, such as its cost."""

    kind: str
    """`cost` or `water`."""
    measure: str
    """Currency, or `litres`."""
    amount: float
    is_whole: bool
    """Whether a price was in force at all of its times."""


@dataclass(frozen=True, slots=True)
class EmbodiedShare:
    """Grams of CO2e of making nodes that fall to a unit, by the time of their CPUs it was allocated."""

    grams: Range
    is_whole: bool
    """Whether the type of all of its nodes is known."""


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """A unit as a person sees it, with lifetime totals."""

    cluster: str
    manager: str
    unit: str
    run: str
    name: str | None
    user: str | None
    project: str | None
    state: str
    nodes: tuple[str, ...]
    submitted_at: datetime | None
    started_at: datetime
    ended_at: datetime | None
    cpus_allocated: float | None
    """Mean CPUs allocated over its life."""
    memory_allocated_bytes: int | None
    gpus_allocated: Mapping[str, float]
    power_uw: int | None
    """Mean over the newest closed slot; None after three slots without one."""
    cpu_user_ns: int | None
    cpu_system_ns: int | None
    cpu_efficiency_ratio: float | None
    """CPU time used of CPU time allocated."""
    memory_peak_bytes: int | None
    gpu_busy_ns: int | None
    io_read_bytes: int | None
    io_write_bytes: int | None
    network_receive_bytes: int | None
    network_transmit_bytes: int | None
    throttled_ns: int | None
    energy_uj: Mapping[Component, PartEnergy]
    """Only components that were measured."""
    energy_total_uj: int
    emissions_grams: float | None
    """By the reporting source; None without a zone."""
    emissions: tuple[UnitEmissions, ...]
    method: Method | None
    """Of its largest component."""
    quality: frozenset[Flag]
    labels: Mapping[str, str]
    node_runs: tuple[NodeRun, ...]
    methods: tuple[ComponentMethod, ...]
    figures: tuple[SiteFigure, ...] = ()
    """Cost and water, where these are on."""
    embodied: EmbodiedShare | None = None
    """None: off, or no type of node is known."""
    gpu: GpuTotals = NO_GPUS
    gpus: tuple[UnitGpu, ...] = ()
    """By node, index and instance."""
    queue: str | None = None
    """Partition, queue or namespace."""
    group: str | None = None
    elapsed_ns: int | None = None
    """How long it held its allocation as its manager counts, times of suspension left out; None: start to end."""
    emissions_until: datetime | None = None
    """Of one unit that was asked for: up to when its grams are known; they follow its energy by a pass."""
    is_reported: bool = True
    """False: only its manager told of it, no agent has. Its figures are missing then, not 0."""
    is_managed: bool = False
    """Whether its manager told of it; else only agents did."""
    nodes_unreported: tuple[str, ...] = ()
    """Nodes its manager placed it on of which no agent told it: what it used there is missing."""

    @property
    def measured_seconds(self) -> float | None:
        """Return how long it was measured on the node where that was longest; None: nowhere, or nobody knows."""
        return max((run.measured_seconds for run in self.node_runs if run.measured_seconds is not None), default=None)

    @property
    def cpu_allocated_seconds(self) -> float | None:
        """Return CPUs allocated times how long it held them, times of suspension left out; None where either lacks."""
        if self.elapsed_ns is not None:
            held_seconds = self.elapsed_ns / NANOSECONDS_PER_SECOND
        elif self.ended_at is not None:
            held_seconds = (self.ended_at - self.started_at).total_seconds()
        else:
            return None
        return None if self.cpus_allocated is None else self.cpus_allocated * held_seconds

    @property
    def memory_efficiency_ratio(self) -> float | None:
        """Return the peaks of its nodes, summed, of the memory allocated; None where one of these is not known."""
        if self.node_runs and self.nodes_unreported:
            return None
        peaks: dict[str, int] = {}
        for run in self.node_runs:
            if run.memory_peak_bytes is not None:
                peaks[run.node] = max(peaks.get(run.node, 0), run.memory_peak_bytes)
        return sum(peaks.values()) / self.memory_allocated_bytes if peaks and self.memory_allocated_bytes else None


@dataclass(frozen=True, slots=True)
class UnitPage:
    """One page of a list; `next` is None on the last.

    `span` is the one asked for, else the last 24 h; `completeness_ratio` is of it.
    """

    items: tuple[UnitRecord, ...]
    next: str | None
    span: Span
    completeness_ratio: float | None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A sum within a span. `cluster` is None in sums over clusters (day, manager over all)."""

    key: str | None
    """User, project, manager, cluster, node, ISO date, ISO week (`2026-W53`) or month (`2026-11`).

    None: what belongs to no account (`kind` says which).
    """
    cluster: str | None
    kind: EntryKind
    """`unit` for accounts; `system` and `unallocated` are rows of their own."""
    units: int
    """Distinct units with usage in the span."""
    energy_uj: Mapping[Component, PartEnergy]
    energy_total_uj: int
    cpu_ns: int | None
    cpu_allocated_ns: int | None
    gpu_busy_ns: int | None
    emissions_grams: float | None
    emissions: tuple[UnitEmissions, ...] = ()
    """By every source of factors; averages and marginals are never added."""
    figures: tuple[SiteFigure, ...] = ()
    """Cost and water, where these are on."""
    gpu: GpuTotals = NO_GPUS
    span: Span | None = None
    """Of a day, week or month: an ISO week has 167 or 169 hours where clocks change."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows by largest energy first (days: in order). `span` is the one asked for, widened to whole buckets."""

    by: UsageBy
    span: Span
    rows: tuple[UsageRow, ...]
    completeness_ratio: float | None
    measured_ratio: float | None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node's account: how complete, how fresh, how measured."""

    cluster: str
    node: str
    state: NodeState
    power_uw: int | None
    """Mean over the newest slot; None unless up."""
    completeness_ratio: float | None
    """Node-seconds accounted of those expected, over the last 24 h."""
    lag_seconds: float | None
    """Now less the end of the newest slot."""
    newest_slot_at: datetime | None
    first_slot_at: datetime | None
    last_pull_at: datetime | None
    last_error: str | None
    stopped: str | None
    """Why its journal is no longer taken in; None while it is."""
    clock_offset_seconds: float | None
    cpus: int | None
    version: str | None
    idle_policy: str | None
    parent: str | None
    units_running: int
    methods: tuple[ComponentMethod, ...]
    measured_ratio: float | None
    """Energy whose method is not modelled, of all, over the last 24 h."""
    lost_records: int
    quarantined_slots: int
    said: tuple[NodeSaid, ...] = ()
    """What resource managers say of it."""
    facts: NodeFacts = NO_FACTS
    """What the inventory says of it."""
    retired_at: datetime | None = None
    """Since when it is expected no longer, by a person's word or the inventory's."""


@dataclass(frozen=True, slots=True)
class FactorRecord:
    """A factor of the time series, with its provenance."""

    provider: str
    zone: str
    basis: str
    scope: str
    system: str
    quality: str
    span: Span
    grams_per_kwh: float
    published_at: datetime
    source: str
    reporting: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """The first screen in figures."""

    at: datetime
    power_uw: int | None
    """Of all nodes that are up, newest slots; None if none is."""
    power_now: Mapping[Component, ComponentShares]
    """Newest slots' mean power, as microwatts in the `_uj` fields (microjoules per second)."""
    today: Span
    """From the site's midnight to now."""
    energy_today_uj: int
    emissions_today_grams: float | None
    measured_ratio: float | None
    """Today's energy whose method is not modelled, of all."""
    completeness_ratio: float | None
    """Today's node-seconds accounted of those expected."""
    nodes_by_state: Mapping[NodeState, int]
    units_running: int
    top_units: tuple[UnitRecord, ...]
    """By power now."""
    methods: tuple[ComponentMethod, ...]
    residual_uj: int
    """Sum of |residual| of today's slots, all of which are then in quarantine: 0 where the books balance."""
    is_of_site: bool = True
    """False: figures are sums over the units that the asker sees, and nothing is said of nodes."""


@dataclass(frozen=True, slots=True)
class SiteChoice:
    """What was chosen on the page, or proposed."""

    zone: str | None = None
    zone_proposed: bool = False
    """Proposed from the system's time zone and not yet confirmed by a person."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodePage:
    """One page of nodes; `next` is None on the last."""

    items: tuple[NodeRecord, ...]
    next: str | None
