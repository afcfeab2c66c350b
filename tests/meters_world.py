"""A node with several meters of the same power, run through the real sampler and collector, and what a scraper saw.

Two sockets draw 80 to 200 W together, memory 20 to 28 W; beside them the board 45 W, and the supplies lose 8 % of it
all. The BMC averages over 30 s and answers every 10 s, 5 s late; psys sees what is behind the supplies; hwmon_power 1 %
less than the wall. Everything is a factor in `Wiring`, so that a test can wire a node wrongly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tests.sampling_world import SECOND, START_UTC_NS, WATT, HandMeter, World, make_world

from kwhere.collectors import energy
from kwhere.collectors.collector import CollectorContext
from kwhere.core.metrics import Sample
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.meter import PLATFORM, Domain, Reading
from kwhere.sampling.snapshot import attach
from kwhere.sampling.totals import StepCounts
from kwhere.series.store import ScrapedSample

CLUSTER, NODE = "local", "node-a"
START_S = START_UTC_NS // SECOND
SCRAPE_SECONDS = 10
BOARD_WATTS = 45.0
LOSS = 1.08
_AVERAGE_SECONDS, _LATE_SECONDS = 30, 5


@dataclass(frozen=True, slots=True)
class Wiring:
    """How the node's meters are wired; None: that meter is not there. Factors of what they ought to show."""

    redfish: float | None = 1.0
    hwmon_power: float | None = 0.99
    psys: float | None = 1.0
    powercap: bool = True
    gpu_watts: float = 0.0
    """Of a GPU that nothing but the meters of the whole node sees, on for five minutes in ten."""
    idle_watts: float = 50.0
    """Idle power of what lies beside the components; the agent refuses a meter by it that is below them."""
    down_from_s: int = 0
    down_until_s: int = 0
    """When the BMC does not answer, seconds since the start."""


@dataclass
class LaggingBmc(HandMeter):
    """Shows the mean of the last half minute, every ten seconds, five seconds late, with the time of its answer."""

    wall_watts: list[float] = field(default_factory=list)
    answered_ns: int = 0

    @property
    def domains(self) -> tuple[Domain, ...]:
        return (PLATFORM,)

    @domains.setter
    def domains(self, _: tuple[Domain, ...]) -> None:
        raise AttributeError

    def see(self, watts: float, now_ns: int, factor: float) -> None:
        self.wall_watts.append(watts)
        if len(self.wall_watts) % SCRAPE_SECONDS == 0:
            seen = self.wall_watts[: len(self.wall_watts) - _LATE_SECONDS][-_AVERAGE_SECONDS:]
            self.powers[PLATFORM] = int(factor * math.fsum(seen) / len(seen) * WATT)
            self.answered_ns = now_ns

    def read(self, now_ns: int) -> Sequence[Reading]:
        return [
            Reading(reading.domain, reading.zone, self.answered_ns, power_uw=reading.power_uw, device_time=True)
            for reading in super().read(now_ns)
        ]


def cpu_watts(second: int) -> float:
    """Return the draw of both sockets: a slow wave, and a job every ten minutes."""
    return 110.0 + 30.0 * math.sin(second / 170.0) + (60.0 if second % 600 < 300 else 0.0)


def dram_watts(second: int) -> float:
    """Return the draw of both sockets' memory."""
    return 24.0 + 4.0 * math.sin(second / 170.0)


def scrape_node(wiring: Wiring, seconds: int = 1860, node: str = NODE) -> list[ScrapedSample]:
    """Return every sample of the energy collector, scraped each 10 s from the first second on."""
    place = (("cluster", CLUSTER), ("node", node))
    return [replace(each, labels=tuple(sorted((*each.labels, *place)))) for each in _scrape(wiring, seconds)]


@cache
def _scrape(wiring: Wiring, seconds: int) -> tuple[ScrapedSample, ...]:
    cpus = [Domain(DomainKind.CPU, socket) for socket in "01"]
    drams = [Domain(DomainKind.DRAM, socket) for socket in "01"]
    all_of_it = frozenset(Component)
    powercap = HandMeter(counters=dict.fromkeys([*cpus, *drams], 0), range_uj=None)
    psys = HandMeter("psys", counters={PLATFORM: 0}, covers=all_of_it - {Component.GPU}, range_uj=None)
    bmc = LaggingBmc("redfish", Method.INTEGRATED, powers={PLATFORM: 0}, covers=all_of_it, refresh_seconds=10.0)
    hwmon = HandMeter("hwmon_power", Method.INTEGRATED, powers={PLATFORM: 0}, covers=all_of_it, refresh_seconds=1.0)
    meters = [
        *([powercap] if wiring.powercap else []),
        *([bmc] if wiring.redfish is not None else []),
        *([hwmon] if wiring.hwmon_power is not None else []),
        *([psys] if wiring.psys is not None else []),
    ]
    world = make_world(sockets=(0, 0, 1, 1), meters=meters, idle_watts={PLATFORM: wiring.idle_watts})
    attach(world.sampler, StepCounts)
    found: list[ScrapedSample] = []
    for second in range(seconds):
        inside = cpu_watts(second) + dram_watts(second)
        gpu = wiring.gpu_watts if second % 600 < 300 else 0.0
        for domain, watts in [*((d, cpu_watts(second)) for d in cpus), *((d, dram_watts(second)) for d in drams)]:
            powercap.add(domain, int(watts / 2 * WATT))
        psys.add(PLATFORM, int((wiring.psys or 0.0) * (inside + BOARD_WATTS) * WATT))
        wall = LOSS * (inside + BOARD_WATTS + gpu)
        bmc.see(wall, world.clock.monotonic + SECOND, wiring.redfish or 0.0)
        bmc.broken = "timeout" if wiring.down_from_s <= second < wiring.down_until_s else ""
        hwmon.powers[PLATFORM] = int((wiring.hwmon_power or 0.0) * wall * WATT)
        world.step()
        if second % SCRAPE_SECONDS == 0:
            found += _scraped(world, START_S + second + 1)
    return tuple(found)


def _scraped(world: World, time_s: float) -> list[ScrapedSample]:
    collector = energy.EnergyCollector(
        CollectorContext(HostFS(), world.clock, world.sampler.parts.board), energy.EnergySettings()
    )
    return [_sample(sample, time_s) for sample in collector.collect()]


def _sample(sample: Sample, time_s: float) -> ScrapedSample:
    labels = {name: value for name, value in zip(sample.spec.labels, sample.labels, strict=True) if value}
    return ScrapedSample(sample.spec.name, tuple(sorted(labels.items())), time_s, sample.value)
