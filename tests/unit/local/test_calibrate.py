"""Phases over a meter of known truth, in a time of our own: no load is run and nothing sleeps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kwhere.core.errors import NoData, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.calibration import Calibration, PowerPoint, Scope
from kwhere.local import calibrate_text
from kwhere.local.calibrate import (
    Instruments,
    Phase,
    Plan,
    busy_reason,
    dram_idle_watts,
    fit_phases,
    run_phases,
    settle_seconds,
)
from kwhere.meters.meter import PLATFORM, Domain, Reading
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
CPUS = 4
CPU, DRAM = Domain(DomainKind.CPU, "0"), Domain(DomainKind.DRAM, "0")
PLAN = Plan("fake", (DomainKind.CPU,), (0, 1, 2, 3), 20.0, 2.0, 1.0)


@dataclass
class World:
    """A machine that draws 20 W and 5 W per busy CPU, 8 W of memory; it is its own clock."""

    idle_watts: float = 20.0
    slope_watts: float = 5.0
    base_cpus: float = 0.0
    now_ns: int = 0
    percent: int = 0
    busy_ns: int = 0
    cpu_uj: float = 0.0
    levels: list[int] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        busy = min(CPUS, self.base_cpus + CPUS * self.percent / 100)
        self.now_ns += int(seconds * SECOND)
        self.busy_ns += int(busy * seconds * SECOND)
        self.cpu_uj += (self.idle_watts + self.slope_watts * busy) * seconds * 1e6

    def set_level(self, percent: int) -> None:
        self.levels.append(percent)
        self.percent = percent

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def utc_ns(self) -> int:
        return self.now_ns


class FakeMeter:
    """Counters of the CPUs and the memory; or power of the whole node, averaged over ten seconds."""

    source = "fake"
    covers: frozenset[Component] = frozenset()
    needs_proof = False

    def __init__(self, world: World, *, is_bmc: bool = False, failure: Unavailable | None = None) -> None:
        self.world = world
        self.method = Method.INTEGRATED if is_bmc else Method.COUNTER
        self.refresh_seconds = 10.0 if is_bmc else 0.0
        self.domains: tuple[Domain, ...] = (PLATFORM,) if is_bmc else (CPU, DRAM)
        self.failure = failure
        self._window = (0, 0.0)
        self._shown: Reading | None = None

    def read(self, now_ns: int) -> Sequence[Reading]:
        if self.failure is not None:
            raise self.failure
        if PLATFORM not in self.domains:
            memory_uj = 8 * now_ns // 1000
            return [
                Reading(CPU, "c", now_ns, counter_uj=int(self.world.cpu_uj)),
                Reading(DRAM, "d", now_ns, counter_uj=memory_uj),
            ]
        begin_ns, begin_uj = self._window
        if now_ns - begin_ns >= 10 * SECOND:
            power_uw = int((self.world.cpu_uj - begin_uj) * SECOND / (now_ns - begin_ns))
            self._window = (now_ns, self.world.cpu_uj)
            self._shown = Reading(PLATFORM, "p", now_ns, power_uw=power_uw, device_time=True)
        if self._shown is None:
            raise NoData("fake: still to come")
        return [self._shown]

    def p_max_uw(self, domain: Domain) -> int:
        return 1_000_000_000

    def close(self) -> None: ...


def run(world: World, plan: Plan = PLAN, meter: FakeMeter | None = None) -> Iterator[Phase]:
    meter = meter or FakeMeter(world)
    bank = MeterBank([meter], {}, SECOND)
    instruments = Instruments(bank, meter, lambda: world.busy_ns, world, world.wait)
    return run_phases(plan, instruments, world.set_level)


def test_the_truth_is_found() -> None:
    world = World()

    phases = list(run(world))
    fit = fit_phases(phases, CPUS)

    assert world.levels == [0, 25, 50, 100]
    assert [phase.busy_cpus for phase in phases] == pytest.approx([0, 1, 2, 4])
    assert [phase.watts for phase in phases] == pytest.approx([20, 25, 30, 40])
    assert all(len(phase.points) >= 3 for phase in phases)
    assert (fit.idle_watts, fit.watts_per_cpu) == pytest.approx((20, 5))
    assert dram_idle_watts(phases) == pytest.approx(8)


def test_work_of_others_is_no_error_of_the_fit() -> None:
    phases = list(run(World(base_cpus=0.7)))

    fit = fit_phases(phases, CPUS)

    assert (fit.idle_watts, fit.watts_per_cpu) == pytest.approx((20, 5))
    assert "0.70 of 4 CPUs are busy (18%)" in busy_reason(phases[0], CPUS)


def test_an_idle_machine_is_no_reason() -> None:
    assert busy_reason(next(run(World(base_cpus=0.1))), CPUS) == ""


def test_a_meter_that_averages_is_given_time() -> None:
    world = World()
    plan = replace(PLAN, kinds=(DomainKind.PLATFORM,), phase_seconds=60.0, settle_seconds=settle_seconds(10.0))

    phases = list(run(world, plan, FakeMeter(world, is_bmc=True)))
    fit = fit_phases(phases, CPUS)

    assert plan.settle_seconds == 20
    assert (fit.idle_watts, fit.watts_per_cpu) == pytest.approx((20, 5), rel=1e-4)
    assert dram_idle_watts(phases) is None


@pytest.mark.parametrize("world", [World(slope_watts=0.0), World(slope_watts=-1.0), World(slope_watts=0.01)])
def test_a_meter_that_does_not_move_is_refused(world: World) -> None:
    phases = list(run(world))

    with pytest.raises(Unavailable, match="does not move"):
        fit_phases(phases, CPUS)


def test_a_meter_that_shows_nothing_is_refused() -> None:
    with pytest.raises(Unavailable, match="no new reading within 60 s") as caught:
        list(run(World(idle_watts=0.0, slope_watts=0.0)))

    assert caught.value.reason == "timeout"


def test_a_meter_that_fails_says_why() -> None:
    world = World()
    meter = FakeMeter(world, failure=Unavailable("unauthorized", "fake: who are you?"))

    with pytest.raises(Unavailable, match="unauthorized"):
        list(run(world, PLAN, meter))


def test_a_phase_too_short_for_the_meter_says_so() -> None:
    world = World()
    plan = replace(PLAN, kinds=(DomainKind.PLATFORM,), phase_seconds=5.0)

    with pytest.raises(NoData, match="a longer --seconds may help"):
        list(run(world, plan, FakeMeter(world, is_bmc=True)))


def test_a_machine_that_was_always_busy_gives_no_line() -> None:
    phase = Phase(0, (PowerPoint(4, 40), PowerPoint(4, 41)))

    with pytest.raises(Unavailable, match="expected different loads"):
        fit_phases([phase], CPUS)


def test_a_load_that_did_not_reach_the_machine_is_told() -> None:
    phases = list(run(World()))

    assert calibrate_text.caution(phases, CPUS) == ""
    assert "only 2.00 of 4 CPUs" in calibrate_text.caution(phases[:3], CPUS)


def test_what_is_printed_fits_80_columns() -> None:
    phases = list(run(World()))
    fit = fit_phases(phases, CPUS)
    found = Calibration("fake", Scope.NODE, "A CPU", 1, 4, 20.0, 5.0, 0.05, "2026-11-30T00:00:00+00:00", 8.0)

    lines = [
        *calibrate_text.announce(PLAN, "A processor with a long name, 4 CPUs on 1 socket", 80).splitlines(),
        *(calibrate_text.progress(phase) for phase in phases),
        *calibrate_text.table(phases, fit),
        *calibrate_text.verdict(fit, found),
    ]

    assert all(len(line) <= 80 for line in lines)
    assert "about 1 min 28 s in all" in " ".join(lines)
    assert calibrate_text.table(phases, fit)[2] == "  25 %       1.00       25.00     25.00     +0.00"
    assert "fans and losses are inside" in " ".join(calibrate_text.written(Path("state.json"), found, 80).split())
