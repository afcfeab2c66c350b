"""From looks at running totals to watts: differences over the last few seconds, and since the view began."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, Method
from kwhere.local.top_sample import TopSample, UnitNow

WINDOW_SECONDS = 5.0
_UJ_PER_J = 1e6


@dataclass(frozen=True, slots=True)
class TopRow:
    """One line of the table. None is unknown."""

    manager: str
    user: str | None
    label: str
    power_watts: float | None = None
    energy_joules: float | None = None
    """Since the view began."""
    total_joules: float | None = None
    """Since the unit or its agent began, whichever is later."""
    cpus: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    gpus: float | None = None
    """Busy GPUs: 1.5 is one and a half devices' time."""


@dataclass(frozen=True, slots=True)
class TopView:
    """What is shown at one moment."""

    rows: tuple[TopRow, ...]
    """Live units, in no order."""
    rest: tuple[TopRow, ...] = ()
    """What belongs to no live unit: `system`, `unallocated`, units that ended since the view began."""
    node_watts: float | None = None
    component_watts: Mapping[Component, float] = field(default_factory=dict)
    methods: Mapping[Component, Method] = field(default_factory=dict)
    seconds: float = 0.0
    """How long the view has lasted."""
    sees_all: bool = True


class History:
    """Keeps the first look and those of the last seconds."""

    def __init__(self, window_seconds: float = WINDOW_SECONDS) -> None:
        self._window_ns = int(window_seconds * NANOSECONDS_PER_SECOND)
        self._first: TopSample | None = None
        self._recent: deque[TopSample] = deque()
        self._gone_uj = 0
        """Energy since the view began of units that ended so long ago that the agent does not tell of them any more."""

    def add(self, sample: TopSample) -> None:
        """Take in a look. One without a new step is passed over; one that does not follow the last begins anew."""
        if self._recent and sample.utc_ns == self._recent[-1].utc_ns:
            return
        if self._recent and not _follows(self._recent[-1], sample):
            self._first = None
            self._recent.clear()
            self._gone_uj = 0
        if self._first is None:
            self._first = sample
        elif self._recent:
            self._gone_uj += _gone_uj(self._first, self._recent[-1], sample)
        self._recent.append(sample)
        while len(self._recent) > 2 and sample.utc_ns - self._recent[1].utc_ns >= self._window_ns:
            self._recent.popleft()

    def view(self) -> TopView | None:
        """Return what to show; None before the first look."""
        if self._first is None:
            return None
        first, before, now = self._first, self._recent[0], self._recent[-1]
        seconds = (now.utc_ns - before.utc_ns) / NANOSECONDS_PER_SECOND
        changes = _Changes(first, tuple(self._recent))
        node = {c: _watts(uj, _of(before.node_uj, c), seconds) for c, uj in (now.node_uj or {}).items()}
        components = {component: watts for component, watts in node.items() if watts is not None}
        return TopView(
            rows=tuple(changes.row(unit) for unit in now.units if unit.live),
            rest=(
                *_ended([changes.row(unit) for unit in now.units if not unit.live], self._gone_uj / _UJ_PER_J),
                *_unowned(first, before, now, seconds),
            ),
            node_watts=sum(components.values()) if components else None,
            component_watts=components,
            methods=now.methods,
            seconds=(now.utc_ns - first.utc_ns) / NANOSECONDS_PER_SECOND,
            sees_all=now.sees_all,
        )


class _Changes:
    """Differences of units against the first look and the one a window ago; energy of a newer unit counts from 0."""

    def __init__(self, first: TopSample, recent: Sequence[TopSample]) -> None:
        self._first = _by_run(first)
        self._recent = [(sample.utc_ns, _by_run(sample)) for sample in recent]

    def row(self, unit: UnitNow) -> TopRow:
        key = unit.manager, unit.run
        first, before = self._first.get(key), self._recent[0][1].get(key)
        seconds = (self._recent[-1][0] - self._recent[0][0]) / NANOSECONDS_PER_SECOND
        return TopRow(
            manager=unit.manager,
            user=unit.user,
            label=unit.label,
            power_watts=_watts(unit.energy_uj, before.energy_uj if before else 0, seconds),
            energy_joules=_joules(unit.energy_uj, first.energy_uj if first else 0),
            total_joules=_joules(unit.energy_uj, 0),
            cpus=self._cpus(unit),
            memory_bytes=unit.memory_bytes,
            processes=unit.processes,
            gpus=self._gpus(unit),
        )

    def _cpus(self, unit: UnitNow) -> float | None:
        """Return CPUs in use since the unit was first seen, a window ago at most: older CPU time may not be ours."""
        now_ns = self._recent[-1][0]
        for then_ns, units in self._recent[:-1]:
            then = units.get((unit.manager, unit.run))
            if then is not None and then.cpu_ns is not None and unit.cpu_ns is not None:
                return max(0, unit.cpu_ns - then.cpu_ns) / (now_ns - then_ns)
        return None

    def _gpus(self, unit: UnitNow) -> float | None:
        """Return GPUs in use since the unit was first seen with one, a window ago at most."""
        now_ns = self._recent[-1][0]
        for then_ns, units in self._recent[:-1]:
            then = units.get((unit.manager, unit.run))
            if then is not None and then.gpu_busy_ns is not None and unit.gpu_busy_ns is not None:
                return max(0, unit.gpu_busy_ns - then.gpu_busy_ns) / (now_ns - then_ns)
        return None


def _by_run(sample: TopSample) -> dict[tuple[str, str], UnitNow]:
    return {(unit.manager, unit.run): unit for unit in sample.units}


def _gone_uj(first: TopSample, before: TopSample, now: TopSample) -> int:
    began, left = _by_run(first), _by_run(now)
    gone = [(key, unit) for key, unit in _by_run(before).items() if key not in left]
    return sum((unit.energy_uj or 0) - (began[key].energy_uj or 0 if key in began else 0) for key, unit in gone)


def _ended(rows: Sequence[TopRow], gone_joules: float) -> Iterator[TopRow]:
    """Yield one row for all units that ended since the view began, if they used anything."""
    energy = sum(row.energy_joules or 0.0 for row in rows) + gone_joules
    if energy > 0:
        yield TopRow(
            manager="",
            user=None,
            label="ended units",
            power_watts=sum(row.power_watts or 0.0 for row in rows),
            energy_joules=energy,
        )


def _unowned(first: TopSample, before: TopSample, now: TopSample, seconds: float) -> Iterator[TopRow]:
    for label, then_uj, before_uj, now_uj in (
        ("system", first.system_uj, before.system_uj, now.system_uj),
        ("unallocated", first.unallocated_uj, before.unallocated_uj, now.unallocated_uj),
    ):
        if now_uj is not None:
            yield TopRow(
                manager="",
                user=None,
                label=label,
                power_watts=_watts(now_uj, before_uj, seconds),
                energy_joules=_joules(now_uj, then_uj),
                total_joules=_joules(now_uj, 0),
            )


def _follows(before: TopSample, now: TopSample) -> bool:
    if now.utc_ns < before.utc_ns or now.sees_all != before.sees_all:
        return False
    return all(uj <= _of(now.node_uj, component) for component, uj in (before.node_uj or {}).items())


def _of(row: Mapping[Component, int] | None, component: Component) -> int:
    return (row or {}).get(component, 0)


def _watts(now_uj: int | None, before_uj: int | None, seconds: float) -> float | None:
    joules = _joules(now_uj, before_uj)
    return None if joules is None or seconds <= 0 else joules / seconds


def _joules(now_uj: int | None, before_uj: int | None) -> float | None:
    return None if now_uj is None else max(0, now_uj - (before_uj or 0)) / _UJ_PER_J
