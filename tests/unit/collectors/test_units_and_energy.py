"""What the sampler's snapshot becomes: series of units, of energy and of the sampler, and how many of them."""

from pathlib import Path

import pytest
from tests.sampling_world import SECOND, WATT, HandClock, HandMeter, World, make_world

from kwhere.collectors import energy, sampler, units
from kwhere.collectors.collector import AnyPlugin, CollectorContext
from kwhere.core.errors import NoData, Unavailable
from kwhere.core.metrics import Sample
from kwhere.core.terms import Component, DomainKind
from kwhere.discovery.unit_source import CpuReading, UnitDetail
from kwhere.kernel.cgroup_detail import NO_LIMIT_BYTES
from kwhere.kernel.frequency import FrequencyMonitor
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.snapshot import attach
from kwhere.sampling.totals import StepCounts, TotalsBoard

CPU0, DRAM0 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.DRAM, "0")
GPU0 = Domain(DomainKind.GPU, "0")

FULL = UnitDetail(
    memory_current_bytes=1,
    memory_peak_bytes=2,
    memory_anon_bytes=3,
    memory_file_bytes=4,
    memory_shmem_bytes=5,
    memory_swap_bytes=6,
    memory_limit_bytes=7,
    oom_kills=8,
    io_read_bytes=9,
    io_write_bytes=10,
    io_read_operations=11,
    io_write_operations=12,
    throttled_ns=13 * SECOND,
    cpu_user_ns=14 * SECOND,
    cpu_system_ns=15 * SECOND,
    pressure_us={(resource, kind): 16_000_000 for resource in ("cpu", "memory", "io") for kind in ("some", "full")},
    processes=17,
    threads=18,
)


def collect(plugin: AnyPlugin, board: TotalsBoard | None, frequency: FrequencyMonitor | None = None) -> list[Sample]:
    context = CollectorContext(HostFS(), HandClock(), board, frequency=frequency)
    collector = plugin.build(context, plugin.settings_class())
    return list(collector.collect())


def values(samples: list[Sample]) -> dict[str, float]:
    return {text(sample): sample.value for sample in samples}


def text(sample: Sample) -> str:
    labels = [f"{n}={v}" for n, v in zip(sample.spec.labels, sample.labels, strict=True) if v]
    return f"{sample.spec.name}{{{','.join(labels)}}}"


@pytest.fixture
def world() -> World:
    cpu = HandMeter(counters={CPU0: 0, DRAM0: 0})
    bmc = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=frozenset({Component.CPU, Component.DRAM}))
    world = make_world(idle_watts={CPU0: 10, DRAM0: 2, PLATFORM: 20}, meters=[cpu, bmc])
    attach(world.sampler, StepCounts)
    job = world.units.start("7", milli_cpus=1500)
    world.units.details[job] = FULL
    world.step()
    world.units.cpu[job] = CpuReading(2 * SECOND, 1_500_000_000, 500_000_000)
    world.busy(0, SECOND)
    cpu.add(CPU0, 30 * WATT)
    cpu.add(DRAM0, 5 * WATT)
    bmc.add(PLATFORM, 60 * WATT)
    world.step()
    return world


def test_a_unit_shows_what_the_kernel_says_of_it(world: World) -> None:
    found = values(collect(units.plugin, world.sampler.parts.board))

    unit = "manager=slurm,unit=7,run=7@1"
    assert found["kwhere_units{manager=slurm}"] == 1
    assert found[f"kwhere_unit_info{{{unit},name=7}}"] == 1
    assert found[f"kwhere_unit_cpu_seconds_total{{{unit},mode=user}}"] == 1.5
    assert found[f"kwhere_unit_cpu_seconds_total{{{unit},mode=system}}"] == 0.5
    assert found[f"kwhere_unit_cpus{{{unit}}}"] == 1.5
    assert found[f"kwhere_unit_cpu_throttled_seconds_total{{{unit}}}"] == 13
    assert found[f"kwhere_unit_memory_swap_bytes{{{unit}}}"] == 6
    assert found[f"kwhere_unit_pressure_seconds_total{{{unit},resource=io,kind=full}}"] == 16


@pytest.mark.parametrize(
    ("told", "meminfo", "shown"),
    [
        pytest.param(NO_LIMIT_BYTES, "MemTotal: 100 kB\nSwapTotal: 8 kB\n", 8192, id="case_ceems_260_max"),
        pytest.param(NO_LIMIT_BYTES, "MemTotal: 100 kB\nSwapTotal: 0 kB\n", 0, id="case_ceems_260_no_swap"),
        pytest.param(4096, "MemTotal: 100 kB\nSwapTotal: 8 kB\n", 4096, id="case_ceems_260_less"),
        pytest.param(1 << 40, "MemTotal: 100 kB\nSwapTotal: 8 kB\n", 8192, id="case_ceems_260_more"),
        pytest.param(NO_LIMIT_BYTES, "garbage", None, id="case_ceems_260_not_known"),
        pytest.param(None, "MemTotal: 100 kB\nSwapTotal: 8 kB\n", None, id="case_ceems_260_not_told"),
    ],
)
def test_swap_without_a_limit_is_limited_by_what_there_is(
    tmp_path: Path, told: int | None, meminfo: str, shown: int | None
) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    world = make_world()
    attach(world.sampler, StepCounts)
    world.units.details[world.units.start("7")] = UnitDetail(memory_swap_limit_bytes=told)
    world.step()
    world.step()
    context = CollectorContext(HostFS(tmp_path, tmp_path, tmp_path), HandClock(), world.sampler.parts.board)

    found = values(list(units.plugin.build(context, units.plugin.settings_class()).collect()))

    assert found.get("kwhere_unit_memory_swap_limit_bytes{manager=slurm,unit=7,run=7@1}") == shown


def test_a_unit_shows_the_mean_frequency_of_its_own_cpus(tmp_path: Path) -> None:
    cpus = tmp_path / "sys" / "devices" / "system" / "cpu"
    for cpu, khz in enumerate((1_000_000, 2_000_000, 3_000_000)):
        (cpus / f"cpu{cpu}" / "cpufreq").mkdir(parents=True)
        (cpus / f"cpu{cpu}" / "cpufreq" / "scaling_cur_freq").write_text(f"{khz}\n")
    (cpus / "online").write_text("0-2\n")
    monitor = FrequencyMonitor(HostFS(tmp_path / "proc", tmp_path / "sys", tmp_path / "cgroup"))
    world = make_world()
    attach(world.sampler, StepCounts)
    world.units.start("pinned", cpuset=frozenset({1, 2}))
    world.units.start("free")
    world.step()

    found = values(collect(units.plugin, world.sampler.parts.board, monitor))
    monitor.close()

    shown = {text: value for text, value in found.items() if "frequency" in text}
    assert shown == {
        "kwhere_unit_cpu_frequency_hertz{manager=slurm,unit=pinned,run=pinned@1}": 2.5e9,
        "kwhere_unit_cpu_frequency_hertz{manager=slurm,unit=free,run=free@1}": 2e9,
    }


def test_energy_of_units_and_of_the_node_is_in_joules(world: World) -> None:
    found = values(collect(energy.plugin, world.sampler.parts.board))

    assert found["kwhere_unit_energy_joules_total{manager=slurm,unit=7,run=7@1,component=cpu,part=dynamic}"] == 20
    assert found["kwhere_unit_energy_joules_total{manager=slurm,unit=7,run=7@1,component=cpu,part=idle}"] == 3.75
    assert found["kwhere_unallocated_energy_joules_total{component=cpu,part=idle}"] == 6.25
    assert found["kwhere_node_energy_joules_total{component=cpu}"] == 30
    assert found["kwhere_node_energy_joules_total{component=other}"] == 25
    assert found["kwhere_node_platform_joules_total{source=hwmon_energy}"] == 60
    assert found["kwhere_node_other_carry_joules{}"] == 0
    assert found["kwhere_node_meter_joules_total{source=powercap,domain=dram,socket=0}"] == 5
    assert found["kwhere_node_idle_watts{component=other}"] == 20
    assert found["kwhere_energy_source_up{source=powercap}"] == 1
    assert found["kwhere_energy_method_info{component=cpu,method=counter,source=powercap}"] == 1
    assert found["kwhere_attribution_residual_microjoules{}"] == 0
    assert not [name for name in found if "gpu" in name]


def test_totals_of_kwhere_say_since_when_they_count(world: World) -> None:
    samples = collect(energy.plugin, world.sampler.parts.board)

    counters = [sample for sample in samples if sample.spec.name.endswith("_total")]
    assert {sample.created_s for sample in counters} == {world.sampler.created_utc_ns / SECOND}


def test_a_unit_has_at_most_forty_series_without_gpus(world: World) -> None:
    board = world.sampler.parts.board

    samples = [*collect(units.plugin, board), *collect(energy.plugin, board)]

    of_unit = [sample for sample in samples if "unit" in sample.spec.labels and "7" in sample.labels]
    assert len(of_unit) == len({text(sample) for sample in of_unit}) <= 40


def test_shown_cpu_time_follows_the_step_and_never_falls() -> None:
    world = make_world()
    attach(world.sampler, StepCounts)
    job = world.units.start("7")
    world.units.details[job] = UnitDetail(cpu_user_ns=3 * SECOND, cpu_system_ns=SECOND)
    world.units.cpu[job] = CpuReading(4 * SECOND)
    world.step()
    world.units.cpu[job] = CpuReading(8 * SECOND)
    world.step()

    first = values(collect(units.plugin, world.sampler.parts.board))
    world.units.details[job] = UnitDetail(cpu_user_ns=5 * SECOND, cpu_system_ns=3 * SECOND)
    world.step(15 * SECOND)
    second = values(collect(units.plugin, world.sampler.parts.board))

    user, system = (
        f"kwhere_unit_cpu_seconds_total{{manager=slurm,unit=7,run=7@1,mode={mode}}}" for mode in ("user", "system")
    )
    assert (first[user], first[system]) == (6, 2)
    assert (second[user], second[system]) == (6, 3)


def test_the_sampler_shows_its_own_health(world: World) -> None:
    found = values(collect(sampler.plugin, world.sampler.parts.board))

    assert found["kwhere_sampler_late_total{}"] == 0
    assert "kwhere_sampler_step_seconds{}" in found


@pytest.mark.parametrize("plugin", [units.plugin, energy.plugin, sampler.plugin])
def test_without_a_sampler_there_is_nothing_to_show(plugin: AnyPlugin) -> None:
    with pytest.raises(Unavailable):
        collect(plugin, None)


@pytest.mark.parametrize("plugin", [units.plugin, energy.plugin, sampler.plugin])
def test_before_the_first_step_there_is_no_data(plugin: AnyPlugin) -> None:
    with pytest.raises(NoData):
        collect(plugin, TotalsBoard())


def test_a_meter_that_cannot_be_read_has_no_series_and_no_zero(world: World) -> None:
    cpu = world.meters[0]
    cpu.broken = "permission"
    world.step()

    found = values(collect(energy.plugin, world.sampler.parts.board))

    assert not [name for name in found if name.startswith("kwhere_node_meter_joules_total{source=powercap")]
    assert found["kwhere_node_meter_joules_total{source=hwmon_energy,domain=platform}"] == 60
    assert found["kwhere_energy_source_up{source=powercap,reason=permission}"] == 0


def test_a_domain_that_is_not_read_any_more_has_no_series_and_no_zero(world: World) -> None:
    cpu = world.meters[0]
    assert isinstance(cpu, HandMeter)
    del cpu.counters[DRAM0]
    world.step()

    found = values(collect(energy.plugin, world.sampler.parts.board))

    assert "kwhere_node_meter_joules_total{source=powercap,domain=dram,socket=0}" not in found
    assert "kwhere_node_meter_joules_total{source=powercap,domain=cpu,socket=0}" in found
    assert found["kwhere_energy_source_up{source=powercap,reason=partial}"] == 1


def test_what_lies_inside_a_meter_of_the_whole_node_is_told(world: World) -> None:
    found = values(collect(energy.plugin, world.sampler.parts.board))

    covers = [name for name in found if name.startswith("kwhere_energy_source_covers_info")]
    assert covers == [
        "kwhere_energy_source_covers_info{source=hwmon_energy,component=cpu}",
        "kwhere_energy_source_covers_info{source=hwmon_energy,component=dram}",
    ]
