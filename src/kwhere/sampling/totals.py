"""What collectors show: one immutable snapshot of the sampler's running totals, the same for every reader."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from kwhere.core.terms import Component, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading, TrackedUnit, UnitDetail
from kwhere.energy.baseline import IdleOrigin
from kwhere.meters.meter import Domain
from kwhere.sampling.gpu_shown import UnitGpu

EnergyRow = Mapping[tuple[Component, Part], int]
"""Microjoules by component and part; a component that nothing measures is absent."""


@dataclass(frozen=True, slots=True)
class UnitTotals:
    """One unit run as it stands; ended ones stay for a while so that a scrape still sees their last figures."""

    tracked: TrackedUnit
    live: bool
    energy_uj: EnergyRow
    cpu: CpuReading | None = None
    """Cumulative, inner units included."""
    cpu_user_ns: int | None = None
    cpu_system_ns: int | None = None
    detail: UnitDetail | None = None
    power_uw: int | None = None
    """Mean over the newest closed slot."""
    gpus: tuple[UnitGpu, ...] = ()
    """GPUs and instances that it holds or held."""

    @property
    def key(self) -> UnitKey:
        """Return the unit run."""
        return self.tracked.key


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """One energy source: whether it works, why not, and its gaps."""

    up: bool
    reason: str
    gaps: Mapping[str, int] = field(default_factory=dict)
    gap_ns: int = 0
    covers: frozenset[Component] = frozenset()
    """Which components lie inside its platform domain; empty for a source without one."""
    silent: frozenset[Domain] = frozenset()
    """What it measured before and says nothing of now."""


@dataclass(frozen=True, slots=True)
class IdleBaselineNow:
    """The idle power in force of one domain, and where it comes from."""

    component: Component
    index: str
    power_uw: int
    origin: IdleOrigin


@dataclass(frozen=True, slots=True)
class StepCounts:
    """How the sampler itself is doing."""

    steps: int = 0
    late: int = 0
    missed: int = 0
    failed: int = 0
    """Steps that ended in a fault."""
    last_step_ns: int = 0
    interval_ns: int = 0
    read_errors: int = 0
    unbalanced_slots: int = 0
    slowed: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything since the process began. Energy is in integer microjoules."""

    created_utc_ns: int
    utc_ns: int = 0
    """Of the last step."""
    units: tuple[UnitTotals, ...] = ()
    system_uj: EnergyRow = field(default_factory=dict)
    unallocated_uj: EnergyRow = field(default_factory=dict)
    node_uj: Mapping[Component, int] = field(default_factory=dict)
    meters_uj: Mapping[tuple[str, Domain], int] = field(default_factory=dict)
    sources: Mapping[str, SourceTotals] = field(default_factory=dict)
    methods: Mapping[Component, tuple[Method, str]] = field(default_factory=dict)
    idle: tuple[IdleBaselineNow, ...] = ()
    carry_uj: int | None = None
    """Of `other`; None where no platform meter is in use."""
    residual_uj: int = 0
    system_cpu_ns: int = 0
    counts: StepCounts = StepCounts()
    slots: int = 0
    """Closed slots since the process began."""


class TotalsBoard:
    """Where the one writer posts and any number of readers look. Reading changes nothing."""

    def __init__(self) -> None:
        self.lock = Lock()
        """Held by the writer while totals move."""
        self._build: Callable[[], Totals] | None = None
        self._snapshot: Totals | None = None

    def attach(self, build: Callable[[], Totals]) -> None:
        """Name what builds a snapshot; it is called with the lock held."""
        self._build = build

    def moved(self) -> None:
        """Note that totals have moved; called with the lock held."""
        self._snapshot = None

    def snapshot(self) -> Totals | None:
        """Return the totals after the last whole step, the same object to all readers; None before the first step."""
        with self.lock:
            if self._snapshot is None and self._build is not None:
                self._snapshot = self._build()
            return self._snapshot
