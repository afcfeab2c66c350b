"""Containers of pods over a tree of cgroups: their series and the rest are the pod's; nothing of it by default."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tests.sampling_world import HandClock
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.collectors.collector import CollectorContext
from kwhere.collectors.pod_containers import PodContainersCollector, PodContainersSettings, plugin
from kwhere.collectors.registry import find_collectors
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.terms import Component, Part
from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.exposition.text import Format, Renderer
from kwhere.kernel.hostfs import HostFS
from kwhere.sampling.totals import EnergyRow, Totals, TotalsBoard, UnitTotals

UID = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
POD = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
MAIN, PROXY, PAUSE, NEW = ("ab" * 32, "cd" * 32, "ef" * 32, "12" * 32)
DYNAMIC, IDLE = (Component.CPU, Part.DYNAMIC), (Component.CPU, Part.IDLE)
JOULE = 1_000_000


def host_of(cgroups: FakeCgroups) -> HostFS:
    return HostFS(cgroups.proc.root / "proc", cgroups.proc.root / "sys", cgroups.root)


@dataclass
class World:
    """A node with a pod of two containers, a scraper, and the pod's energy as the sampler has it."""

    cgroups: FakeCgroups
    logs: Path
    row: EnergyRow = field(default_factory=lambda: {DYNAMIC: 100 * JOULE, IDLE: 10 * JOULE})
    live: bool = True

    def __post_init__(self) -> None:
        self.host = host_of(self.cgroups)
        self.logs.mkdir()
        self.use(10, main=6, proxy=2)
        board = TotalsBoard()
        board.attach(self._totals)
        self.board = board
        settings = UnitsSettings(container_log_dir=self.logs, containerd_dirs=(), crio_dirs=())
        context = CollectorContext(self.host, HandClock(), board, units=settings)
        self.collector = PodContainersCollector(context, PodContainersSettings())

    def use(self, pod: float, **containers: float) -> None:
        self.cgroups.put(POD, pod, **{"memory.current": "1000\n"})
        for name, seconds in containers.items():
            identifier = {"main": MAIN, "proxy": PROXY, "new": NEW}[name]
            self.cgroups.put(f"{POD}/cri-containerd-{identifier}.scope", seconds, **{"memory.current": "300\n"})
            (self.logs / f"web-0_team-a_{'main' if name == 'new' else name}-{identifier}.log").touch()
        self.cgroups.put(f"{POD}/cri-containerd-{PAUSE}.scope", 0, **{"memory.current": "20\n"})

    def _totals(self) -> Totals:
        key = UnitKey("kubernetes", UID, UID)
        tracked = TrackedUnit(key, POD, 1, None, None, UnitInfo(name="web-0"), Allocation(), True, 0)
        return Totals(0, 1, units=(UnitTotals(tracked, self.live, self.row),))

    def scrape(self) -> dict[str, float]:
        self.board.moved()
        page = Renderer().render(self.collector.collect(), Format.TEXT).decode()
        return {
            f"{sample.name.removeprefix('kwhere_unit_container_')}:{sample.labels.get('name', '')}"
            + "".join(
                f":{sample.labels[label]}" for label in ("component", "part") if label in sample.labels
            ): sample.value
            for family in parse_text(page)
            for sample in family.samples
        }


@pytest.fixture(params=[False, True], ids=["v2", "v1"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(FakeCgroups(tmp_path, v1=request.param), tmp_path / "logs")


def test_containers_and_the_rest_are_the_pod(world: World) -> None:
    first = world.scrape()
    world.use(20, main=12, proxy=4)
    world.row = {DYNAMIC: 200 * JOULE, IDLE: 15 * JOULE}
    second = world.scrape()

    assert {key: value for key, value in first.items() if "memory" not in key} == {
        "cpu_seconds_total:main": 6,
        "cpu_seconds_total:proxy": 2,
        "cpu_seconds_total:": 2,
        "energy_joules_total::cpu:dynamic": 100,
        "energy_joules_total::cpu:idle": 10,
    }
    # Of 100 J more and 10 s more, main used 6 s, proxy 2 s.
    assert {key: value for key, value in second.items() if "memory" not in key} == {
        "cpu_seconds_total:main": 12,
        "cpu_seconds_total:proxy": 4,
        "cpu_seconds_total:": 4,
        "energy_joules_total:main:cpu:dynamic": 60,
        "energy_joules_total:proxy:cpu:dynamic": 20,
        "energy_joules_total::cpu:dynamic": 120,
        "energy_joules_total::cpu:idle": 15,
    }


def test_memory_of_containers_and_the_rest(tmp_path: Path) -> None:
    found = World(FakeCgroups(tmp_path), tmp_path / "logs").scrape()

    memory = {key: value for key, value in found.items() if "memory" in key}
    assert memory == {"memory_used_bytes:main": 300, "memory_used_bytes:proxy": 300, "memory_used_bytes:": 400}


def test_a_container_that_is_restarted_goes_on_and_an_ended_pod_stands_still(world: World) -> None:
    world.scrape()
    world.cgroups.remove(f"{POD}/cri-containerd-{MAIN}.scope")
    world.use(14, new=3, proxy=2)
    world.row = {DYNAMIC: 140 * JOULE, IDLE: 10 * JOULE}
    again = world.scrape()
    world.live, world.row = False, {DYNAMIC: 150 * JOULE, IDLE: 10 * JOULE}
    ended = world.scrape()

    assert (again["cpu_seconds_total:main"], again["cpu_seconds_total:"]) == (9, 3)
    assert again["energy_joules_total:main:cpu:dynamic"] == 30
    assert ended["energy_joules_total:main:cpu:dynamic"] == 30
    assert ended["energy_joules_total::cpu:dynamic"] == 120
    assert not [key for key in ended if "memory" in key]


def test_a_pod_that_is_gone_is_forgotten(world: World) -> None:
    world.scrape()
    world.board.attach(lambda: Totals(0, 1))

    assert world.scrape() == {}


def test_it_is_off_by_default_and_wants_a_sampler(tmp_path: Path) -> None:
    board = TotalsBoard()
    cgroups = FakeCgroups(tmp_path)

    assert find_collectors().plugins["pod_containers"].enabled_by_default is False
    with pytest.raises(Unavailable):
        plugin.build(CollectorContext(HostFS(), HandClock()), PodContainersSettings())
    with pytest.raises(NoData):
        list(plugin.build(CollectorContext(host_of(cgroups), HandClock(), board), PodContainersSettings()).collect())
