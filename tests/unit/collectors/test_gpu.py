"""Native series of GPUs: what was read in base units, who is up, and nothing that was not read."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, GH200, GPM_BUSY, H100, H200, L40S, P100, V100, Model, gpu, split
from tests.fake_nvml.node import GpuNode, wait_until
from tests.fake_nvml.scenario import NO_PERMISSION, NOT_AVAILABLE_32, UNKNOWN, Ramp, Scenario
from tests.hand_gpus import HandGpus
from tests.sampling_world import START_UTC_NS, HandClock, make_world

from kwhere.collectors import gpu as gpu_collector
from kwhere.collectors.collector import CollectorContext
from kwhere.collectors.gpu import GpuCollector, GpuSettings
from kwhere.collectors.gpu_metrics import COUNTERS, GAUGES
from kwhere.core.errors import Unavailable
from kwhere.core.metrics import Kind, Sample
from kwhere.devices.gpu import GpuSource, LibraryState, XidCount
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.kernel.hostfs import HostFS
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.sampling.snapshot import attach
from kwhere.sampling.totals import StepCounts, TotalsBoard

MODELS = (P100, V100, A100, L40S, H100, H200, GH200)
BUDGET, BUDGET_DETAILED, BUDGET_INSTANCE = 90, 175, 20


def collector(
    *sources: GpuSource, board: TotalsBoard | None = None, host: HostFS | None = None, detailed: bool = False
) -> GpuCollector:
    context = CollectorContext(host or HostFS(Path("/nowhere"), Path("/nowhere")), HandClock(), board, gpus=sources)
    return GpuCollector(context, GpuSettings(detailed=detailed))


def shown(samples: Iterator[Sample]) -> dict[str, float]:
    found = {}
    for sample in samples:
        labels = [f"{n}={v}" for n, v in zip(sample.spec.labels, sample.labels, strict=True) if v and n != "uuid"]
        found[f"{sample.spec.name.removeprefix('kwhere_')}{{{','.join(labels)}}}"] = sample.value
    return found


@pytest.fixture
def gpus() -> HandGpus:
    made = HandGpus(HandClock())
    made.add("GPU-0", watts=250.5)
    made.add("GPU-1", watts=60)
    return made


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GpuNode]:
    made = GpuNode(tmp_path)
    yield made
    made.close()


def scrape(node: GpuNode, *, detailed: bool = False) -> dict[str, float]:
    node.write()
    node.poll()
    return shown(collector(node.watch, detailed=detailed).collect())


def test_units_are_those_of_the_base(gpus: HandGpus) -> None:
    more: dict[GpuField, int | float] = {
        GpuField.GPU_UTIL_PERCENT: 87,
        GpuField.MEMORY_USED_BYTES: 3 << 30,
        GpuField.TEMPERATURE_MC: 41_000,
        GpuField.SM_CLOCK_HZ: 1_410_000_000,
        GpuField.VIOLATION_POWER_NS: 1_500_000_000,
        GpuField.ECC_DBE_VOLATILE: 2,
        GpuField.PROF_TENSOR_RATIO: 0.25,
        GpuField.FAN_PERCENT: 101,
    }
    gpus.read("GPU-0", watts=250.5, more=more)

    found = shown(collector(gpus).collect())

    assert found["gpu_power_watts{gpu=0}"] == 250.5
    assert found["gpu_utilization_ratio{gpu=0}"] == 0.87
    assert found["gpu_memory_used_bytes{gpu=0}"] == 3221225472
    assert found["gpu_temperature_celsius{gpu=0}"] == 41
    assert found["gpu_sm_clock_hertz{gpu=0}"] == 1.41e9
    assert found["gpu_throttled_seconds_total{gpu=0,cause=power}"] == 1.5
    assert found["gpu_ecc_errors_total{gpu=0,kind=uncorrected,period=volatile}"] == 2
    assert found["gpu_activity_ratio{gpu=0,part=tensor}"] == 0.25
    assert found["gpu_fan_ratio{gpu=0}"] == 1.01
    assert found["gpu_power_limit_watts{gpu=0,kind=enforced}"] == 400


def test_what_was_not_read_has_no_series_and_the_rest_has_case_gpu_22(gpus: HandGpus) -> None:
    gpus.read("GPU-0", watts=None, more={GpuField.GPU_UTIL_PERCENT: 0}, why=Absence.BLANK)

    found = shown(collector(gpus).collect())

    assert "gpu_power_watts{gpu=0}" not in found
    assert found["gpu_utilization_ratio{gpu=0}"] == 0
    assert found["gpu_power_watts{gpu=1}"] == 60


def test_who_a_gpu_is_stands_in_one_series_case_gpu_52(gpus: HandGpus) -> None:
    gpus.library = LibraryState(True, driver="550.54.15", version="12.550", cuda="12.4")

    samples = list(collector(gpus).collect())

    found = shown(iter(samples))
    assert found["gpu_info{gpu=0,vendor=nvidia,model=A100,driver=550.54.15}"] == 1
    assert found["gpu_library_info{vendor=nvidia,driver=550.54.15,version=12.550,cuda=12.4}"] == 1
    others = [sample for sample in samples if sample.spec.kind is not Kind.INFO]
    assert not [sample.spec.name for sample in others if {"model", "driver", "unit"} & set(sample.spec.labels)]


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("lost", id="case_gpu_70-case_users_62"),
        pytest.param("timeout", id="case_gpu_71"),
        pytest.param("absent", id="case_gpu_73"),
        pytest.param("reset_required", id="case_gpu_93"),
    ],
)
def test_a_gpu_that_is_down_says_why_and_shows_nothing_old(gpus: HandGpus, reason: str) -> None:
    gpus.lose("GPU-0", reason)

    found = shown(collector(gpus).collect())

    assert [name for name in found if "gpu=0" in name] == [
        "gpu_info{gpu=0,vendor=nvidia,model=A100}",
        f"gpu_up{{gpu=0,reason={reason}}}",
    ]
    assert found[f"gpu_up{{gpu=0,reason={reason}}}"] == 0
    assert found["gpu_up{gpu=1}"] == 1
    assert found["gpu_power_watts{gpu=1}"] == 60


def test_gpus_expected_and_present_are_counted_case_gpu_70_case_gpu_79(gpus: HandGpus) -> None:
    gpus.lose("GPU-0")

    found = shown(collector(gpus).collect())

    assert found["gpus_expected{vendor=nvidia}"] == 2
    assert found["gpus_present{vendor=nvidia}"] == 1


def test_a_gpu_of_the_bus_that_the_library_does_not_list_is_missed_case_gpu_71(tmp_path: Path) -> None:
    for address, driver in (("41", "nvidia"), ("42", "nvidia"), ("43", "vfio-pci")):
        place = tmp_path / "sys/bus/pci/devices" / f"0000:{address}:00.0"
        place.mkdir(parents=True)
        for name, text in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x20b0")):
            (place / name).write_text(text)
        (tmp_path / driver).mkdir(exist_ok=True)
        (place / "driver").symlink_to(tmp_path / driver)
    gpus = HandGpus(HandClock())
    gpus.add("GPU-0")
    gpus.states["GPU-0"] = replace(
        gpus.states["GPU-0"], device=replace(gpus.states["GPU-0"].device, pci="00000000:41:00.0")
    )

    found = shown(collector(gpus, host=HostFS(tmp_path / "proc", tmp_path / "sys")).collect())

    assert (found["gpus_expected{vendor=nvidia}"], found["gpus_present{vendor=nvidia}"]) == (2, 1)


def test_xids_are_shown_though_the_gpu_is_gone_case_gpu_77_case_gpu_78_case_gpu_94(gpus: HandGpus) -> None:
    xids = (XidCount(31, 2, START_UTC_NS), XidCount(79, 1, START_UTC_NS + 5), XidCount(9001, 1, 0, gpu_instance=3))
    gpus.states["GPU-0"] = replace(gpus.states["GPU-0"], xids=xids)
    gpus.lose("GPU-0")
    gpus.library = LibraryState(False, "driver", "gone")

    found = shown(collector(gpus).collect())

    assert found["gpu_xid_errors_total{gpu=0,xid=31}"] == 2
    assert found["gpu_xid_errors_total{gpu=0,gpu_instance=3,xid=9001}"] == 1
    assert found["gpu_xid_last_timestamp_seconds{gpu=0,xid=79}"] == 1_795_000_000.000000005
    assert found["gpu_xid_info{xid=79,meaning=GPU has fallen off the bus}"] == 1
    assert found["gpu_xid_info{xid=9001,meaning=Unknown Error}"] == 1
    assert found["gpu_library_up{vendor=nvidia,reason=driver}"] == 0
    assert found["gpus_present{vendor=nvidia}"] == 0


def test_counters_go_on_over_a_driver_reload(gpus: HandGpus) -> None:
    made = collector(gpus)
    totals = []
    for raw in (1000, 1500, 10, 30):
        gpus.read("GPU-0", more={GpuField.PCIE_REPLAYS: raw, GpuField.ECC_SBE_AGGREGATE: 7})
        found = shown(made.collect())
        totals.append(found["gpu_pcie_replays_total{gpu=0}"])

    assert totals == [1000, 1500, 1510, 1530]
    assert found["gpu_counter_resets_total{gpu=0}"] == 1
    assert found["gpu_ecc_errors_total{gpu=0,kind=corrected,period=lifetime}"] == 7


def test_a_sum_that_lost_a_part_adds_nothing_twice(gpus: HandGpus) -> None:
    made = collector(gpus)
    totals = []
    for raw in (1000, 900, 950):  # one of ten links went down
        gpus.read("GPU-0", more={GpuField.NVLINK_TX_BYTES: raw})
        totals.append(shown(made.collect())["gpu_nvlink_transmit_bytes_total{gpu=0}"])

    assert totals == [1000, 1000, 1050]


def test_energy_is_what_the_ledger_books() -> None:
    world = make_world(meters=[])
    gpus = HandGpus(world.clock)
    gpus.add("GPU-0", joules=5000)
    gpus.add("GPU-1", joules=5000)
    world.meters.append(GpuMeter("nvml", gpus))  # type: ignore[arg-type]
    world.sampler = world.new_sampler()
    attach(world.sampler, StepCounts)
    world.step()
    for joules in (5100, 30, 60):  # a driver reload in between
        world.clock.advance(1_000_000_000)
        gpus.read("GPU-0", joules=joules)
        world.sampler.step()
    gpus.lose("GPU-1")

    samples = list(collector(gpus, board=world.sampler.parts.board).collect())

    energy = [sample for sample in samples if sample.spec is gpu_collector.ENERGY]
    assert [(sample.labels, sample.value) for sample in energy] == [(("0", "GPU-0"), 130)]
    assert energy[0].created_s == world.sampler.created_utc_ns / 1e9


def test_what_holds_the_clocks_is_named(gpus: HandGpus) -> None:
    gpus.read("GPU-0", more={GpuField.CLOCK_EVENT_REASONS: 0x4 | 0x40 | 0x8000})

    found = shown(collector(gpus).collect())

    events = {name: value for name, value in found.items() if name.startswith("gpu_clock_event{gpu=0")}
    assert len(events) == 9
    assert [name for name, value in events.items() if value] == [
        "gpu_clock_event{gpu=0,reason=power_cap}",
        "gpu_clock_event{gpu=0,reason=hw_thermal}",
    ]


def test_utilisation_says_that_it_is_not_that_of_the_processors_case_users_60() -> None:
    told = {spec.name: spec.help for spec in gpu_collector.plugin.specs}

    assert "not of SMs" in told["kwhere_gpu_utilization_ratio"]
    assert "DCGM_FI_PROF_" in told["kwhere_gpu_activity_ratio"]


def test_without_a_gpu_there_is_no_collector_case_users_62() -> None:
    with pytest.raises(Unavailable):
        collector()


def test_before_the_library_answered_nothing_is_said_of_it(gpus: HandGpus) -> None:
    gpus.answered, gpus.states = False, {}

    assert list(collector(gpus).collect()) == []


@pytest.mark.service("cc")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_generation_keeps_the_budget(node: GpuNode, model: Model) -> None:
    node.scenario = Scenario([gpu(model, 0)])
    node.write()
    node.poll()

    assert 20 <= len([s for s in collector(node.watch).collect() if "gpu" in s.spec.labels]) <= BUDGET
    assert len([s for s in collector(node.watch, detailed=True).collect() if "gpu" in s.spec.labels]) <= BUDGET_DETAILED


@pytest.mark.service("cc")
def test_an_instance_shows_only_what_is_its_own_case_gpu_8_case_gpu_38(node: GpuNode) -> None:
    device = split(gpu(H100, 0, watts=200), ["3g.40gb", "1g.10gb"])
    device.migs[0].facts |= {f"gpm.{metric}": value for metric, value in GPM_BUSY.items()}
    device.migs[0].facts["gpm.1"] = 150.0
    node.scenario = Scenario([device])
    node.write()
    node.poll()
    wait_until(lambda: "part=sm" in " ".join(scrape(node)))

    found = scrape(node)

    mine = [name for name in found if f"mig={device.migs[0].uuid}" in name]
    assert {name.split("{")[0] for name in mine} == {
        "gpu_instance_info",
        "gpu_memory_total_bytes",
        "gpu_memory_used_bytes",
        "gpu_memory_free_bytes",
        "gpu_memory_reserved_bytes",
        "gpu_activity_ratio",
        "gpu_activity_source_info",
    }
    assert len(mine) <= BUDGET_INSTANCE
    assert found[f"gpu_activity_ratio{{gpu=0,mig={device.migs[0].uuid},part=graphics}}"] == 1
    assert found[f"gpu_activity_source_info{{gpu=0,mig={device.migs[0].uuid},source=gpm}}"] == 1
    assert [name for name in found if name.startswith("gpu_power_watts")] == ["gpu_power_watts{gpu=0}"]


@pytest.mark.service("cc")
def test_an_a100_does_not_say_how_active_its_parts_are_case_gpu_38(node: GpuNode) -> None:
    node.scenario = Scenario([split(gpu(A100, 0), ["3g.20gb", "1g.5gb"])])

    assert not [name for name in scrape(node) if "activity" in name]


@pytest.mark.service("cc")
def test_a_gpu_without_memory_of_its_own_shows_none_case_gpu_26(node: GpuNode) -> None:
    device = gpu(H100, 0)
    for name in ("MemoryInfo", "BAR1MemoryInfo"):
        device.facts.pop(name)
    node.scenario = Scenario([device])

    found = scrape(node, detailed=True)

    assert not [name for name in found if "memory_total" in name or "memory_used" in name or "bar1" in name]
    assert "gpu_power_watts{gpu=0}" in found


@pytest.mark.service("cc")
@pytest.mark.parametrize(
    ("fault", "gone"),
    [
        pytest.param({"PowerUsage": NOT_AVAILABLE_32}, "gpu_power_watts{gpu=0}", id="case_gpu_22 blank"),
        pytest.param({"ret.DeviceGetFanSpeed": UNKNOWN}, "gpu_fan_ratio{gpu=0}", id="case_gpu_93 ERR!"),
        pytest.param({"ret.DeviceGetTemperature": NO_PERMISSION}, "gpu_temperature_celsius{gpu=0}", id="no right"),
    ],
)
def test_one_bad_field_removes_nothing_else(node: GpuNode, fault: dict[str, int], gone: str) -> None:
    node.scenario = Scenario([gpu(V100, 0), gpu(V100, 1)])
    for device in node.gpus:
        device.facts["FanSpeed"] = 30
    whole = scrape(node)
    node.gpus[0].facts |= fault

    found = scrape(node)

    assert whole.keys() - found.keys() == {gone}


@pytest.mark.service("cc")
def test_what_the_driver_wants_done_is_shown_case_gpu_93(node: GpuNode) -> None:
    device = gpu(H100, 0)
    device.facts["fi.230.0"] = 1
    node.scenario = Scenario([device])

    assert scrape(node)["gpu_recovery_action{gpu=0}"] == 1


@pytest.mark.service("cc")
def test_sent_is_not_received_case_gpu_25(node: GpuNode) -> None:
    device = gpu(H100, 0)
    device.facts |= {"fi.197.0": 7, "fi.198.0": 9}
    node.scenario = Scenario([device])

    found = scrape(node, detailed=True)

    assert found["gpu_pcie_transmit_bytes_total{gpu=0}"] == 7
    assert found["gpu_pcie_receive_bytes_total{gpu=0}"] == 9
    assert found["gpu_pcie_sampled_transmit_bytes_per_second{gpu=0}"] == 1_200_000
    assert found["gpu_pcie_sampled_receive_bytes_per_second{gpu=0}"] == 3_400_000


@pytest.mark.service("cc")
def test_counters_go_on_over_a_driver_reload_of_the_real_library(node: GpuNode) -> None:
    device = gpu(A100, 0)
    device.facts["fi.74.0"] = 5_000_000_000
    node.scenario = Scenario([device])
    node.write()
    node.poll()
    made = collector(node.watch)
    before = shown(made.collect())["gpu_throttled_seconds_total{gpu=0,cause=power}"]
    node.scenario.reload_driver()
    device.facts["fi.74.0"] = 1_000_000_000
    node.write()
    wait_until(lambda: node.poll().devices[0].up)

    after = shown(made.collect())["gpu_throttled_seconds_total{gpu=0,cause=power}"]

    assert (before, after) == (5, 6)


@pytest.mark.service("cc")
def test_powers_are_told_apart_case_gpu_13(node: GpuNode) -> None:
    device = gpu(GH200, 0, watts=300)
    device.facts |= {"fi.185.0": 290_000, "fi.186.0": 310_000}
    node.scenario = Scenario([device])

    found = scrape(node)

    assert found["gpu_power_watts{gpu=0}"] == 300
    assert found["gpu_power_average_watts{gpu=0}"] == 290
    assert found["gpu_power_instant_watts{gpu=0}"] == 310
    assert found["gpu_power_module_watts{gpu=0}"] == 450


@pytest.mark.service("cc")
def test_links_are_shown_on_request(node: GpuNode) -> None:
    device = gpu(V100, 0)
    device.facts |= {"fi.138.4294967295": 10, "fi.139.4294967295": 20, "fi.138.0": Ramp(3, 0), "fi.139.0": 4}
    node.scenario = Scenario([device])

    found = scrape(node, detailed=True)

    assert found["gpu_nvlink_transmit_bytes_total{gpu=0}"] == 10 * 1024
    assert found["gpu_nvlink_receive_bytes_total{gpu=0}"] == 20 * 1024
    assert found["gpu_nvlink_link_transmit_bytes_total{gpu=0,link=0}"] == 3 * 1024
    assert found["gpu_nvlink_link_receive_bytes_total{gpu=0,link=0}"] == 4 * 1024
    assert found["gpu_nvlink_up{gpu=0,link=5}"] == 1
    assert "gpu_nvlink_up{gpu=0,link=0}" not in scrape(node)


def test_every_series_has_its_own_place() -> None:
    """No two quantities may share family and labels."""
    places = [(one.spec.name, one.more) for one in (*GAUGES, *COUNTERS)]

    assert len(places) == len(set(places))


def test_every_number_of_a_gpu_is_a_series_case_gpu_24() -> None:
    shown_fields = {one.field for one in (*GAUGES, *COUNTERS)}

    # the energy counter comes from the meter, the mask becomes one series per reason
    assert set(GpuField) - shown_fields == {GpuField.ENERGY_UJ, GpuField.CLOCK_EVENT_REASONS}
