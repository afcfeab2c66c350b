"""Which unit holds which GPU: series by unit and GPU, whatever runs there, and their promises to Prometheus."""

import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from tests.hand_gpus import HandGpus
from tests.sampling_world import GIB, SECOND, World, make_world, unit_key

from kwhere.collectors import gpu as gpu_collector
from kwhere.collectors import unit_gpu
from kwhere.collectors.collector import CollectorContext
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import GpuProcess, GpuSource, XidCount
from kwhere.devices.gpu_fields import GpuField
from kwhere.discovery.gpu_claims import ClaimSource, GpuClaim
from kwhere.exposition.text import Format, Renderer
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.meters.meter import Meter
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.snapshot import attach
from kwhere.sampling.totals import StepCounts, TotalsBoard

NOWHERE = HostFS(Path("/nowhere"), Path("/nowhere"))
A, B = unit_key("a"), unit_key("b")
UNIT_A = "manager=slurm,unit=a,run=a@1,gpu=0,uuid=GPU-0"


@dataclass
class Holders:
    """Claims and owners of processes, by hand."""

    held: list[GpuClaim] = field(default_factory=list)
    owners: dict[int, UnitKey] = field(default_factory=lambda: {1: A, 2: B})

    def claims(self) -> list[GpuClaim]:
        return list(self.held)

    def owner_of(self, pid: int) -> UnitKey | None:
        return self.owners.get(pid)


@dataclass
class Node:
    """A node with GPUs and the units a and b."""

    world: World
    gpus: HandGpus
    holders: Holders

    def step(self, **more: int | float) -> None:
        self.world.clock.advance(SECOND)
        readings = {GpuField(name): value for name, value in more.items()}
        for uuid in self.gpus.states:
            self.gpus.read(uuid, joules=self.world.clock.monotonic / SECOND * 100, more=readings)
        self.world.sampler.step()

    def runner(self) -> CollectorRunner:
        context = CollectorContext(
            NOWHERE,
            self.world.clock,
            self.world.sampler.parts.board,
            gpus=(self.gpus,),
        )
        plugins = (unit_gpu.plugin, gpu_collector.plugin)
        return CollectorRunner([(plugin, plugin.settings_class()) for plugin in plugins], context)

    def shown(self) -> dict[str, float]:
        found = {}
        for sample in self.runner().collect(["unit_gpu"]):
            labels = [f"{n}={v}" for n, v in zip(sample.spec.labels, sample.labels, strict=True) if v]
            found[f"{sample.spec.name.removeprefix('kwhere_unit_gpu_')}{{{','.join(labels)}}}"] = sample.value
        return {name: value for name, value in found.items() if not name.startswith("kwhere_")}


def make(*claims: GpuClaim, slices: int = 1, instances: tuple[tuple[str, int], ...] = ()) -> Node:
    world = make_world(meters=[])
    gpus, holders = HandGpus(world.clock), Holders(list(claims))
    gpus.add("GPU-0", slices=slices, instances=instances)
    cast("list[Meter]", world.meters).append(GpuMeter("nvml", cast(GpuSource, gpus)))
    world.gpus = GpuBook([gpus], holders)
    world.sampler = world.new_sampler()
    attach(world.sampler, StepCounts)
    for name in ("a", "b"):
        world.units.start(name)
    node = Node(world, gpus, holders)
    node.step()
    return node


def test_who_holds_a_gpu_and_runs_nothing_is_shown_case_gpu_61() -> None:
    node = make(GpuClaim(A, "GPU-0", source=ClaimSource.PROLOG))
    node.step(gpu_util_percent=0, memory_used_bytes=0)

    found = node.shown()

    assert found == {
        f"info{{{UNIT_A},source=prolog}}": 1,
        f"share_ratio{{{UNIT_A}}}": 1,
        f"memory_used_bytes{{{UNIT_A}}}": 0,
        f"memory_peak_bytes{{{UNIT_A}}}": 0,
        f"busy_seconds_total{{{UNIT_A}}}": 0,
        f"held_seconds_total{{{UNIT_A}}}": 1,
        f"held_idle_seconds_total{{{UNIT_A}}}": 1,
    }


def test_use_is_counted_in_seconds_of_a_whole_gpu() -> None:
    node = make(GpuClaim(A, "GPU-0", source=ClaimSource.CGROUP))
    node.gpus.run("GPU-0", GpuProcess(1, sm_percent=40))
    for _ in range(4):
        node.step(gpu_util_percent=50, memory_used_bytes=GIB)

    found = node.shown()

    assert found[f"busy_seconds_total{{{UNIT_A}}}"] == 2
    assert found[f"held_seconds_total{{{UNIT_A}}}"] == 4
    assert found[f"held_idle_seconds_total{{{UNIT_A}}}"] == 0
    assert found[f"memory_used_bytes{{{UNIT_A}}}"] == GIB


def test_processes_that_say_more_than_all_are_all_of_it_case_gpu_28() -> None:
    node = make(GpuClaim(A, "GPU-0", share=500, exclusive=False), GpuClaim(B, "GPU-0", share=500, exclusive=False))
    node.gpus.run("GPU-0", GpuProcess(1, sm_percent=80), GpuProcess(1, sm_percent=70), GpuProcess(2, sm_percent=10))
    node.step()

    found = node.shown()

    assert found[f"busy_seconds_total{{{UNIT_A}}}"] == 1
    assert found[f"share_ratio{{{UNIT_A}}}"] == 0.5


def test_what_runs_on_one_gpu_says_nothing_of_another_case_gpu_40() -> None:
    node = make(GpuClaim(A, "GPU-0"), GpuClaim(B, "GPU-1"))
    node.gpus.add("GPU-1")
    node.step()
    node.gpus.run("GPU-0", GpuProcess(1, sm_percent=100))
    node.step()

    found = node.shown()

    assert found[f"held_idle_seconds_total{{{UNIT_A}}}"] == 1
    assert found["held_idle_seconds_total{manager=slurm,unit=b,run=b@1,gpu=1,uuid=GPU-1}"] == 2
    assert found["busy_seconds_total{manager=slurm,unit=b,run=b@1,gpu=1,uuid=GPU-1}"] == 0


def test_an_instance_is_named_beside_its_gpu() -> None:
    node = make(
        GpuClaim(A, "GPU-0", "MIG-3", source=ClaimSource.POD_RESOURCES),
        slices=7,
        instances=(("MIG-3", 3), ("MIG-2", 2)),
    )
    node.step()

    found = node.shown()

    assert found[f"info{{{UNIT_A},mig=MIG-3,source=pod_resources}}"] == 1
    assert found[f"share_ratio{{{UNIT_A},mig=MIG-3}}"] == pytest.approx(3 / 7)


def test_what_was_given_back_keeps_its_sums_and_its_peak() -> None:
    node = make(GpuClaim(A, "GPU-0"))
    node.step(gpu_util_percent=100)
    node.holders.held.clear()
    node.step()

    found = node.shown()

    kept = ("busy_seconds_total", "held_seconds_total", "held_idle_seconds_total", "memory_peak_bytes")
    assert set(found) == {f"{name}{{{UNIT_A}}}" for name in kept}


def test_series_of_a_gpu_do_not_change_with_its_holder_case_gpu_52() -> None:
    node = make(GpuClaim(A, "GPU-0"))
    before = {(s.spec.name, s.labels) for s in node.runner().collect(["gpu"])}
    node.holders.held = [GpuClaim(B, "GPU-0")]
    node.step()

    assert {(s.spec.name, s.labels) for s in node.runner().collect(["gpu"])} == before


@pytest.mark.service("promtool")
def test_promtool_reads_the_page() -> None:
    node = make(GpuClaim(A, "GPU-0", "MIG-3"), slices=7, instances=(("MIG-3", 3), ("MIG-2", 2)))
    node.gpus.states["GPU-0"] = replace(node.gpus.states["GPU-0"], xids=(XidCount(79, 1, 5),))
    every = {
        name.value: 0.5 if name.value.endswith("_ratio") else 1
        for name in GpuField
        if name not in (GpuField.ENERGY_UJ, GpuField.POWER_UW)
    }
    node.step(**every)
    page = Renderer().render(node.runner().collect(), Format.TEXT)

    outcome = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)

    assert (outcome.returncode, outcome.stdout + outcome.stderr) == (0, b"")
    assert page.count(b"kwhere_gpu_") > 100


def test_without_a_sampler_or_a_gpu_there_is_nothing_to_show() -> None:
    clock = make_world().clock
    for context in (
        CollectorContext(NOWHERE, clock, None, gpus=(HandGpus(clock),)),
        CollectorContext(NOWHERE, clock, TotalsBoard()),
    ):
        with pytest.raises(Unavailable):
            unit_gpu.plugin.build(context, unit_gpu.UnitGpuSettings())


def test_before_the_first_step_there_is_no_data() -> None:
    clock = make_world().clock
    context = CollectorContext(NOWHERE, clock, TotalsBoard(), gpus=(HandGpus(clock),))

    with pytest.raises(NoData):
        list(unit_gpu.plugin.build(context, unit_gpu.UnitGpuSettings()).collect())
