"""A node's energy over an hour, whatever the pace of the steps; and counters that wrap, fall, sleep and fall silent."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sampling_world import SECOND, WATT, HandMeter, World, make_world
from tests.unit.meters.powercap_tree import context

from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.zone import DomainTrack, ZoneReading
from kwhere.meters import model as model_meter
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts

CPU0, CPU1 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.CPU, "1")
DRAM0 = Domain(DomainKind.DRAM, "0")
RANGE_AMD = 65_532_610_987
HOUR_S = 3600
SEED = 20_261_130


def node_joules(world: World) -> dict[Component, float]:
    return {component: uj / WATT for component, uj in build_totals(world.sampler, StepCounts()).node_uj.items()}


def counted_hour(pace_s: int, jitter: random.Random | None = None) -> dict[Component, float]:
    """Return the node's joules of an hour of load that changes every second, read every `pace_s` or so."""
    load = random.Random(SEED)
    rapl = HandMeter(counters={CPU0: RANGE_AMD - 9 * WATT, CPU1: 77, DRAM0: 5}, range_uj=RANGE_AMD, p_max_watts=500)
    bmc = HandMeter(
        "redfish", counters={PLATFORM: 11}, covers=frozenset({Component.CPU, Component.DRAM}), range_uj=None
    )
    world = make_world(
        sockets=(0, 0, 1, 1), idle_watts={CPU0: 40, CPU1: 40, DRAM0: 3, PLATFORM: 50}, meters=[rapl, bmc]
    )
    rapl.range_uj = RANGE_AMD
    world.step()
    second, due, last = 0, pace_s, 0
    while second < HOUR_S:
        second += 1
        watts = [load.randrange(30, 400), load.randrange(30, 300), load.randrange(2, 30)]
        for domain, power in zip((CPU0, CPU1, DRAM0), watts, strict=True):
            value = rapl.counters[domain] + power * WATT
            rapl.counters[domain] = value % (RANGE_AMD + 15)  # one unit of 15.258 uJ beyond the range
        bmc.add(PLATFORM, (sum(watts) + load.randrange(60, 200)) * WATT)
        if second >= due or second == HOUR_S:
            world.step((second - last) * SECOND)
            last, due = second, second + (pace_s if jitter is None else jitter.randrange(1, 2 * pace_s))
    return node_joules(world)


@pytest.mark.parametrize("pace_s", [5, 30])
def test_an_hour_of_counters_is_the_same_at_every_pace(pace_s: int) -> None:
    every_second = counted_hour(1)

    assert counted_hour(pace_s) == pytest.approx(every_second, rel=1e-6)
    assert counted_hour(pace_s, random.Random(1)) == pytest.approx(every_second, rel=1e-6)
    assert every_second.keys() == {Component.CPU, Component.DRAM, Component.OTHER}


def modelled_hour(tmp_path: Path, pace_s: int) -> dict[Component, float]:
    """Return the joules of an hour on a machine without a meter: virtual counters of uptime and busy time."""
    load = random.Random(SEED)
    busy_ns = dict.fromkeys(range(4), 0)
    real = model_meter.build(
        context(tmp_path, cpus_per_socket=4, busy_ns=busy_ns, model="AMD EPYC 7742 64-Core Processor")
    )
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0, DRAM0: 0}, range_uj=None, p_max_watts=10_000)
    world = make_world(idle_watts={CPU0: 2, DRAM0: 3}, meters=[model])

    def set_counters() -> None:
        for reading in real.read(world.clock.monotonic):
            model.counters[reading.domain] = reading.counter_uj or 0

    set_counters()
    world.step()
    begin_ns = world.clock.monotonic
    for second in range(1, HOUR_S + 1):
        for cpu in busy_ns:
            busy_ns[cpu] += load.randrange(SECOND)
        if second % pace_s == 0:
            world.clock.advance(begin_ns + second * SECOND - world.clock.monotonic)
            set_counters()
            world.sampler.step()
    return node_joules(world)


@pytest.mark.parametrize("pace_s", [5, 30])
def test_an_hour_of_the_model_is_the_same_at_every_pace(tmp_path: Path, pace_s: int) -> None:
    assert modelled_hour(tmp_path, pace_s) == pytest.approx(modelled_hour(tmp_path, 1), rel=1e-6)


class History:
    """A counter through wraps, resets, suspends and silence. It knows what each interval really drew."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.range_uj = self.random.choice([RANGE_AMD, 262_143_328_850, 262_143_999_938])
        self.modulus = self.range_uj + round(self.range_uj / (2**32 - 1))
        self.p_max_uw = self.random.choice([200, 500, 1000]) * WATT
        self.now_ns = self.random.randrange(10**12)
        self.counter = self.random.randrange(self.modulus)
        self.truth_uj = 0

    def reading(self) -> ZoneReading:
        return ZoneReading(self.now_ns, counter_uj=self.counter, range_uj=self.range_uj)

    def spend(self, duration_ns: int) -> None:
        energy_uj = self.random.randrange(self.p_max_uw) * duration_ns // SECOND
        self.now_ns += duration_ns
        self.truth_uj += energy_uj
        self.counter = (self.counter + energy_uj) % self.modulus

    def steps(self) -> Iterator[tuple[ZoneReading, bool]]:
        """Yield readings, and whether the machine slept before it."""
        for _ in range(self.random.randrange(5, 30)):
            what = self.random.random()
            read = self.counter
            slept = what < 0.05
            if what > 0.95:  # nobody reads for up to two turns of the counter
                self.spend(self.random.randrange(1, 2 * self.modulus * SECOND // self.p_max_uw))
            else:
                self.spend(self.random.choice([SECOND, 5 * SECOND, 30 * SECOND]) + self.random.randrange(SECOND))
            if slept:
                self.counter = self.random.randrange(self.modulus)
            elif 0.05 <= what < 0.12:
                self.reset(read)
            yield self.reading(), slept

    def reset(self, read: int) -> None:
        """Let the counter begin anew, unless nobody who last read `read` could tell that from a wrap, or from rest."""
        if 0 < read < self.modulus - 32 * self.p_max_uw:
            self.counter = 0


def lost(seed: int) -> tuple[int, int, int]:
    """Return the truth, the total, and the energy of the intervals that were counted as gaps."""
    history = History(seed)
    track = DomainTrack(p_max_uw=history.p_max_uw, hold_ns=3 * SECOND)
    track.advance([("zone", history.reading())], history.now_ns)
    total_uj = gap_uj = before_uj = 0
    for reading, slept in history.steps():
        step = track.advance([("zone", reading)], reading.time_ns, suspended=slept)
        total_uj += step.energy_uj or 0
        gap_uj += history.truth_uj - before_uj if step.gaps else 0
        before_uj = history.truth_uj
    return history.truth_uj, total_uj, gap_uj


def test_ten_thousand_histories_give_the_truth_or_a_counted_gap() -> None:
    found = [lost(seed) for seed in range(10_000)]

    wrong = [seed for seed, (truth_uj, total_uj, gap_uj) in enumerate(found) if total_uj + gap_uj != truth_uj]
    assert wrong == []
    assert sum(1 for _, _, gap_uj in found if gap_uj) > 5_000  # else the histories would prove little
    assert sum(1 for _, _, gap_uj in found if not gap_uj) > 500
