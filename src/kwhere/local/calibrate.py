"""Runs a machine through known loads and watches a meter: the measuring half of `kwhere calibrate`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kwhere.core.clock import Clock
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import DomainKind
from kwhere.energy.calibration import Fit, Mark, PowerPoint, fit_power, objection, points_between
from kwhere.meters.meter import Meter
from kwhere.sampling.meter_bank import MeterBank

LEVELS = (0, 25, 50, 100)
"""Percent of each CPU, phase by phase."""
LARGEST_IDLE_RATIO = 0.05
"""A machine whose CPUs are busier than this before we load them is not idle."""
LEAST_SETTLE_SECONDS = 2.0
LEAST_WINDOW_SECONDS = 4.0
ANSWER_REFRESHES = 3
_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done to the machine, and for how long."""

    meter: str
    kinds: tuple[DomainKind, ...]
    """Domains that are fitted: the CPUs', or the whole platform."""
    cpus: tuple[int, ...]
    phase_seconds: float
    settle_seconds: float
    """Left out at the beginning of each phase: a meter lags behind."""
    step_seconds: float
    levels: tuple[int, ...] = LEVELS

    @property
    def total_seconds(self) -> float:
        """Return how long the load takes, without the wait for a meter's first answer."""
        return len(self.levels) * (self.phase_seconds + self.settle_seconds)

    @property
    def window_seconds(self) -> float:
        """Return the length of what gives one point."""
        return max(LEAST_WINDOW_SECONDS, self.settle_seconds, self.phase_seconds / 4)


@dataclass(frozen=True, slots=True)
class Phase:
    """One load as it was: what the meter said, window by window."""

    percent: int
    points: tuple[PowerPoint, ...]
    dram_points: tuple[PowerPoint, ...] = ()

    @property
    def seconds(self) -> float:
        """Return the measured time."""
        return sum(point.seconds for point in self.points)

    @property
    def busy_cpus(self) -> float:
        """Return the mean number of busy CPUs."""
        return sum(point.busy_cpus * point.seconds for point in self.points) / self.seconds

    @property
    def watts(self) -> float:
        """Return the mean power."""
        return sum(point.watts * point.seconds for point in self.points) / self.seconds


@dataclass(frozen=True, slots=True)
class Instruments:
    """What is read while the load runs."""

    bank: MeterBank
    meter: Meter
    read_busy_ns: Callable[[], int]
    """Busy time of all CPUs so far."""
    clock: Clock
    wait: Callable[[float], object]


def settle_seconds(refresh_seconds: float) -> float:
    """Return how long a meter takes to follow: two of its intervals, one to take in and one to show."""
    return max(LEAST_SETTLE_SECONDS, 2 * refresh_seconds)


def run_phases(plan: Plan, instruments: Instruments, set_level: Callable[[int], None]) -> Iterator[Phase]:
    """Yield each phase as it ends. Raises Unavailable where the meter does not answer."""
    recorder = _Recorder(plan, instruments)
    recorder.await_meter()
    for percent in plan.levels:
        set_level(percent)
        yield recorder.phase(percent)


def busy_reason(idle: Phase, cpus: int) -> str:
    """Return why this machine cannot be calibrated now; empty where it was idle before we loaded it."""
    ratio = idle.busy_cpus / cpus
    if ratio <= LARGEST_IDLE_RATIO:
        return ""
    return f"{idle.busy_cpus:.2f} of {cpus} CPUs are busy ({ratio:.0%}) although nothing was started yet"


def fit_phases(phases: Sequence[Phase], cpus: int) -> Fit:
    """Return the fit over all phases. Raises Unavailable, with a sentence, where it must not be used."""
    try:
        fit = fit_power([point for phase in phases for point in phase.points])
    except ValueError as error:
        raise Unavailable("unsupported", str(error)) from None
    reason = objection(fit, cpus)
    if reason:
        raise Unavailable("unsupported", reason)
    return fit


def dram_idle_watts(phases: Sequence[Phase]) -> float | None:
    """Return what all memory draws beside an idle CPU; None where the meter does not show memory by itself."""
    points = [point for phase in phases for point in phase.dram_points]
    try:
        watts = fit_power(points).idle_watts
    except ValueError:
        return None
    return watts if watts > 0 else None


class _Recorder:
    """Reads meter and CPU time step by step and keeps a mark of each fresh reading."""

    def __init__(self, plan: Plan, instruments: Instruments) -> None:
        self._plan = plan
        self._with = instruments
        self._marks: dict[bool, list[Mark]] = {False: [], True: []}
        """Of the fitted domains, and of memory beside them."""
        self._energy_uj: dict[bool, int] = {False: 0, True: 0}

    def await_meter(self) -> None:
        """Step until the meter has given energy twice. Raises Unavailable where it does not in good time."""
        meter = self._with.meter
        patience = max(_LONGEST_WAIT_SECONDS, ANSWER_REFRESHES * meter.refresh_seconds)
        deadline_ns = self._now_ns() + int(patience * NANOSECONDS_PER_SECOND)
        while len(self._marks[False]) < 2:
            if self._now_ns() > deadline_ns:
                raise Unavailable("timeout", f"{meter.source}: {self._health()} within {patience:.0f} s")
            self._with.wait(self._plan.step_seconds)
            self._step()

    def phase(self, percent: int) -> Phase:
        """Return what was measured at one level."""
        begin_ns = self._now_ns() + int(self._plan.settle_seconds * NANOSECONDS_PER_SECOND)
        end_ns = begin_ns + int(self._plan.phase_seconds * NANOSECONDS_PER_SECOND)
        while self._now_ns() < end_ns:
            self._with.wait(self._plan.step_seconds)
            self._step()
        points = {kind: self._points(marks, begin_ns) for kind, marks in self._marks.items()}
        if not points[False]:
            raise NoData(
                f"{self._with.meter.source}: expected at least two readings within {self._plan.phase_seconds:.0f} s,"
                f" found {self._health()}; a longer --seconds may help"
            )
        return Phase(percent, points[False], points[True])

    def _points(self, marks: Sequence[Mark], begin_ns: int) -> tuple[PowerPoint, ...]:
        end_ns = self._now_ns()
        window_ns = int(self._plan.window_seconds * NANOSECONDS_PER_SECOND)
        found = points_between(marks, begin_ns, end_ns, window_ns)
        return tuple(found or points_between(marks, begin_ns, end_ns, (end_ns - begin_ns) // 2))

    def _step(self) -> None:
        now_ns = self._now_ns()
        busy_ns = self._with.read_busy_ns()
        steps = self._with.bank.read(now_ns, suspended=False)
        for is_dram in (False, True):
            fresh = {
                str(step.domain): step.step.energy_uj
                for step in steps
                if step.step.energy_uj is not None and self._is_wanted(step.domain.kind, is_dram)
            }
            if fresh:
                self._energy_uj[is_dram] += sum(fresh.values())
                self._marks[is_dram].append(Mark(now_ns, self._energy_uj[is_dram], busy_ns))

    def _is_wanted(self, kind: DomainKind, is_dram: bool) -> bool:
        if is_dram:
            return kind is DomainKind.DRAM and DomainKind.PLATFORM not in self._plan.kinds
        return kind in self._plan.kinds

    def _health(self) -> str:
        health = self._with.bank.health.get(self._with.meter.source)
        return health.reason if health is not None and health.reason else "no new reading"

    def _now_ns(self) -> int:
        return self._with.clock.monotonic_ns()
