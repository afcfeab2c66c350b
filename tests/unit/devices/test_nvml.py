"""NVIDIA's GPUs through the real nvidia-ml-py, in its real child process, over the fake library."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fake_nvml.gpus import A100, GH200, H100, H200, L40S, P100, V100, Model, gpu, split
from tests.fake_nvml.node import GpuNode, wait_until
from tests.fake_nvml.scenario import (
    GIB,
    LOST,
    NO_PERMISSION,
    NOT_AVAILABLE_32,
    NOT_AVAILABLE_64,
    UNKNOWN,
    FakeGpu,
    Scenario,
    handles_held,
)

from kwhere.devices.gpu import GpuProcess, ProcessKind
from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup

pytestmark = pytest.mark.service("cc")
WATT = 1_000_000
MakeNode = Callable[..., GpuNode]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MakeNode]:
    """Return a maker of a node with the given GPUs."""
    made: list[GpuNode] = []

    def make(*gpus: FakeGpu, driver: str = "550.54.15", **more: float) -> GpuNode:
        made.append(GpuNode(tmp_path, Scenario(list(gpus), driver=driver), **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_device_is_known_by_four_different_numbers(node: MakeNode) -> None:
    state = node(gpu(A100, 0, minor=5)).device()

    found = state.device
    assert (found.index, found.minor, found.pci) == (0, 5, "00000000:07:00.0")
    assert found.uuid == "GPU-a0000000-1111-2222-3333-000000000000"
    assert (found.model, found.mig, found.compute_slices) == ("NVIDIA A100-SXM4-40GB", False, 7)
    assert state.up


def test_units_are_those_of_the_house(node: MakeNode) -> None:
    values = node(gpu(A100, 0, watts=250).memory(3 * GIB)).device().readings

    assert values is not None
    assert values.integer(GpuField.POWER_UW) == 250 * WATT
    assert values.integer(GpuField.POWER_LIMIT_ENFORCED_UW) == 400 * WATT
    assert values.integer(GpuField.TEMPERATURE_MC) == 41_000
    assert values.integer(GpuField.SM_CLOCK_HZ) == 1_410_000_000
    assert values.integer(GpuField.PCIE_TX_BYTES_PER_SECOND) == 1_200_000
    assert (values.integer(GpuField.ENERGY_UJ) or 0) >= 1_000_000_000


def test_memory_is_used_and_free_and_reserved_case_gpu_9_case_gpu_10(node: MakeNode) -> None:
    values = node(gpu(A100, 0)).device().readings

    assert values is not None
    total, used, free, reserved = (
        values.integer(name) or 0
        for name in (
            GpuField.MEMORY_TOTAL_BYTES,
            GpuField.MEMORY_USED_BYTES,
            GpuField.MEMORY_FREE_BYTES,
            GpuField.MEMORY_RESERVED_BYTES,
        )
    )
    assert (total, used, reserved) == (40 * GIB, 0, 575 << 20)
    assert total == used + free + reserved


def test_a_driver_without_the_newer_memory_call_has_no_reserved_memory(node: MakeNode) -> None:
    readings = node(gpu(A100, 0).fail("DeviceGetMemoryInfo_v2", 13)).device().readings

    assert readings is not None
    assert readings.integer(GpuField.MEMORY_TOTAL_BYTES) == 40 * GIB
    assert readings.missing[GpuField.MEMORY_RESERVED_BYTES] is Absence.OLD_DRIVER


def test_a_device_without_memory_of_its_own_has_none_shown_case_gpu_26(node: MakeNode) -> None:
    device = gpu(A100, 0)
    device.facts.pop("MemoryInfo")
    device.process(4711, 5 * GIB)

    state = node(device).device()

    assert state.readings is not None
    assert state.readings.missing[GpuField.MEMORY_USED_BYTES] is Absence.UNSUPPORTED
    assert state.processes is not None
    assert state.processes[0].memory_bytes == 5 * GIB


@pytest.mark.parametrize("model", [P100, V100, A100, L40S, H100, H200, GH200], ids=lambda model: model.name)
def test_every_generation_says_what_it_has_and_what_it_lacks(node: MakeNode, model: Model) -> None:
    made = node(gpu(model, 0))
    made.poll()
    readings = made.device().readings  # activity needs two samples

    assert readings is not None
    assert not set(readings.values) & set(readings.missing)
    assert (GpuField.ENERGY_UJ in readings.values) is model.has_energy
    assert (GpuField.PROF_SM_RATIO in readings.values) in (model.has_gpm, False)
    assert (GpuField.NVLINK_TX_BYTES in readings.values) is bool(model.nvlinks)
    assert (GpuField.POWER_MODULE_UW in readings.values) is (model is GH200)
    assert readings.missing.get(GpuField.MEMORY_TEMPERATURE_MC) == (
        None if model.has_memory_temperature else Absence.UNSUPPORTED
    )


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        pytest.param("PowerUsage", NOT_AVAILABLE_32, GpuField.POWER_UW, id="32 bits set"),
        pytest.param("PowerUsage", NOT_AVAILABLE_32 - 296, GpuField.POWER_UW, id="four megawatts, a kind of case 20"),
        pytest.param("fi.186.0", 2**31, GpuField.POWER_INSTANT_UW, id="two megawatts"),
        pytest.param("TotalEnergyConsumption", NOT_AVAILABLE_64, GpuField.ENERGY_UJ, id="64 bits set"),
        pytest.param("UtilizationRates", "9223372036854775794 0", GpuField.GPU_UTIL_PERCENT, id="case_gpu_1"),
        pytest.param("UtilizationRates", "101 0", GpuField.GPU_UTIL_PERCENT, id="more than all"),
        pytest.param("PerformanceState", 32, GpuField.PSTATE, id="unknown performance state"),
        pytest.param("Temperature.0", 2147483632, GpuField.TEMPERATURE_MC, id="case_gpu_1-temperature"),
        pytest.param("fi.82.0", 65535, GpuField.MEMORY_TEMPERATURE_MC, id="16 bits set"),
        pytest.param("ClockInfo.1", 4294967280, GpuField.SM_CLOCK_HZ, id="case_gpu_1-clock"),
        pytest.param("EnforcedPowerLimit", 4294967280, GpuField.POWER_LIMIT_ENFORCED_UW, id="case_gpu_1-limit"),
        pytest.param("CurrPcieLinkWidth", 2147483632, GpuField.PCIE_LINK_WIDTH, id="case_gpu_2-lanes"),
        pytest.param("PcieThroughput.0", 9223372036854775794, GpuField.PCIE_TX_BYTES_PER_SECOND, id="case_gpu_2"),
        pytest.param("TotalEnergyConsumption", 9223372036854775794, GpuField.ENERGY_UJ, id="case_gpu_1-energy"),
        pytest.param("fi.74.0", 9223372036854775792, GpuField.VIOLATION_POWER_NS, id="case_gpu_1-counter"),
        pytest.param("fi.230.0", 2147483634, GpuField.RECOVERY_ACTION, id="case_gpu_1-action"),
        pytest.param("MemoryInfo", f"{80 * GIB} 0 {-GIB}", GpuField.MEMORY_USED_BYTES, id="more used than there is"),
        pytest.param("BAR1MemoryInfo", f"9223372036854775794 {GIB}", GpuField.BAR1_TOTAL_BYTES, id="case_gpu_1-BAR1"),
        pytest.param("fi.186.0", NOT_AVAILABLE_32, GpuField.POWER_INSTANT_UW, id="a field's 32 bits"),
        pytest.param("fi.3.0", NOT_AVAILABLE_64, GpuField.ECC_SBE_VOLATILE, id="a field's 64 bits"),
    ],
)
def test_what_means_not_known_is_absent(node: MakeNode, key: str, value: int | str, field: GpuField) -> None:
    device = gpu(V100, 0)
    device.facts[key] = value

    readings = node(device).device().readings

    assert readings is not None
    assert field not in readings.values
    assert readings.missing[field] is Absence.BLANK


@pytest.mark.parametrize("millijoules", [2147483632, 2147483634, 4294967295])
def test_an_energy_that_looks_like_a_sentinel_is_energy_case_gpu_5(node: MakeNode, millijoules: int) -> None:
    device = gpu(A100, 0)
    device.facts["TotalEnergyConsumption"] = millijoules

    readings = node(device).device().readings

    assert readings is not None
    assert readings.integer(GpuField.ENERGY_UJ) == millijoules * 1000


@pytest.mark.parametrize("number", [2**31 - 1, 2**32 - 1, 2**53 + 1])
def test_a_wide_counter_that_looks_like_a_sentinel_is_a_count(node: MakeNode, number: int) -> None:  # kind of case 5
    device = gpu(H100, 0)
    device.facts |= {"fi.74.0": number, "fi.3.0": number, "fi.138.4294967295": number}

    readings = node(device).device().readings

    assert readings is not None
    assert readings.integer(GpuField.VIOLATION_POWER_NS) == number
    assert readings.integer(GpuField.ECC_SBE_VOLATILE) == number
    assert readings.integer(GpuField.NVLINK_TX_BYTES) == number * 1024


@pytest.mark.parametrize(("code", "why"), [(3, "unsupported"), (4, "permission"), (13, "old_driver"), (999, "error")])
def test_a_bad_field_removes_no_other(node: MakeNode, code: int, why: str) -> None:
    device = gpu(A100, 0, watts=200).fail("DeviceGetTemperature", code).fail("FieldValue.82", code)

    readings = node(device).device().readings

    assert readings is not None
    assert readings.missing[GpuField.TEMPERATURE_MC] == why
    assert readings.missing[GpuField.MEMORY_TEMPERATURE_MC] == why
    assert readings.integer(GpuField.POWER_UW) == 200 * WATT
    assert readings.integer(GpuField.TEMPERATURE_SHUTDOWN_MC) == 92_000


@pytest.mark.parametrize("code", [2, 3, 4, 13, 999], ids="case_users_65-{}".format)
def test_memory_that_cannot_be_read_is_missing_and_processes_keep_theirs(node: MakeNode, code: int) -> None:
    device = gpu(A100, 0, watts=200).fail("DeviceGetMemoryInfo", code).fail("DeviceGetMemoryInfo_v2", code)
    device.process(1000, GIB)

    state = node(device).device()

    assert state.readings is not None
    assert {name for name in state.readings.missing if name.value.startswith("memory_")} >= {
        GpuField.MEMORY_USED_BYTES,
        GpuField.MEMORY_TOTAL_BYTES,
    }
    assert state.readings.integer(GpuField.POWER_UW) == 200 * WATT
    assert [process.memory_bytes for process in state.processes or ()] == [GIB]


def test_a_lost_gpu_is_shown_and_removes_no_other_case_gpu_70_case_gpu_73(node: MakeNode) -> None:
    made = node(gpu(A100, 0), gpu(A100, 1, watts=150))
    made.poll()
    made.gpus[0].fail("*", LOST)
    made.write()

    lost, other = made.poll().devices

    assert (lost.up, lost.reason, lost.device.uuid[-1]) == (False, "lost", "0")
    assert other.up
    assert other.readings is not None
    assert other.readings.integer(GpuField.POWER_UW) == 150 * WATT


def test_a_gpu_that_cannot_be_opened_is_counted_case_gpu_71(node: MakeNode) -> None:
    broken = gpu(A100, 1).fail("GetHandleByIndex", LOST)

    devices = node(gpu(A100, 0), broken, gpu(A100, 2)).poll().devices

    assert [(state.device.index, state.up, state.reason) for state in devices] == [
        (0, True, ""),
        (1, False, "lost"),
        (2, True, ""),
    ]


def test_a_gpu_whose_every_call_fails_is_down(node: MakeNode) -> None:
    made = node(gpu(A100, 0), gpu(A100, 1))
    made.poll()
    made.gpus[1].fail("*", UNKNOWN)
    made.write()

    assert [(state.up, state.reason) for state in made.poll().devices] == [(True, ""), (False, "error")]


def test_a_hung_gpu_delays_no_other_case_gpu_71(node: MakeNode) -> None:
    made = node(gpu(A100, 0), gpu(A100, 1, watts=100))
    made.poll()
    made.gpus[0].hang("DeviceGetPowerUsage")
    made.gpus[1].power(180)
    made.write()

    hung, other = made.poll(timeout_seconds=1).devices

    assert (hung.up, hung.reason) == (False, "timeout")
    assert other.up
    assert other.readings is not None
    assert other.readings.integer(GpuField.POWER_UW) == 180 * WATT


def test_a_gpu_that_comes_back_is_up_again(node: MakeNode) -> None:
    made = node(gpu(A100, 0), gpu(A100, 1))
    made.gpus[0].hang("DeviceGetPowerUsage")
    made.write()
    made.poll(timeout_seconds=1)
    made.gpus[0].heal()
    made.write()

    wait_until(lambda: made.poll(timeout_seconds=1).devices[0].up)


def test_a_driver_that_was_reloaded_is_opened_anew(node: MakeNode) -> None:
    made = node(gpu(A100, 0, watts=100))
    made.poll()
    made.scenario.reload_driver()
    made.write()

    during = made.poll()
    after = made.device()

    assert (during.library.up, during.library.reason) == (False, "reopen")
    assert after.up
    assert after.readings is not None
    assert (after.readings.integer(GpuField.ENERGY_UJ) or 0) < 1_000_000_000


@pytest.mark.parametrize(("code", "reason"), [(9, "driver"), (18, "mismatch"), (4, "permission"), (999, "error")])
def test_a_library_that_does_not_open_says_why(node: MakeNode, code: int, reason: str) -> None:
    made = node(gpu(A100, 0))
    made.scenario.system["ret.Init"] = code
    made.write()

    found = made.poll()

    assert (found.library.up, found.library.reason, found.answered) == (False, reason, True)
    assert found.devices == ()


def test_a_library_that_is_not_there_is_absent(node: MakeNode) -> None:
    made = node(gpu(A100, 0))
    made.library.unlink()

    assert made.poll().library.reason == "absent"


def test_handles_are_given_back_and_taken_again(node: MakeNode) -> None:
    made = node(gpu(A100, 0))
    made.poll()
    assert handles_held(made.library)

    assert made.watch.release()

    assert not handles_held(made.library)
    assert (made.poll().library.reason, made.poll().devices[0].reason) == ("released", "released")
    assert not handles_held(made.library)
    made.watch.acquire()
    assert made.device().up


def test_a_sleeping_gpu_is_not_touched(node: MakeNode) -> None:
    made = node(gpu(A100, 0))
    asleep = made.new_watch(may_open=lambda: "asleep")

    found = asleep.poll()

    assert found.library.reason == "asleep"
    assert not handles_held(made.library)


def test_processes_have_their_memory_and_use_case_gpu_90(node: MakeNode) -> None:  # names are not asked for
    device = gpu(A100, 0)
    device.process(100, 5 * GIB)
    device.process(200, None)
    device.process(300, GIB, kind="Graphics")
    made = node(device)
    made.poll()
    now_us = time.time_ns() // 1000
    device.sample(100, now_us, 60, 10)
    device.sample(100, now_us + 1, 80, 20)
    made.write()

    processes = made.device().processes

    assert processes == (
        GpuProcess(100, ProcessKind.COMPUTE, 5 * GIB, None, None, 70, 15, 0, 0),
        GpuProcess(200, ProcessKind.COMPUTE, None, None, None, 0, 0, 0, 0),
        GpuProcess(300, ProcessKind.GRAPHICS, GIB, None, None, 0, 0, 0, 0),
    )


def test_a_sample_of_no_time_blinds_nobody(node: MakeNode) -> None:
    device = gpu(A100, 0)
    device.process(100, GIB)
    made = node(device)
    made.poll()
    device.sample(100, 2**63, 90)  # what drivers leave in places of a buffer that they did not fill
    device.sample(31, 2**62, 90)
    made.write()
    assert [(one.pid, one.sm_percent) for one in made.device().processes or ()] == [(100, 0)]

    device.sample(100, time.time_ns() // 1000, 40)
    made.write()

    assert [(one.pid, one.sm_percent) for one in made.device().processes or ()] == [(100, 40)]


def test_a_driver_that_does_not_sample_processes_leaves_their_use_unknown(node: MakeNode) -> None:
    device = gpu(A100, 0).fail("DeviceGetProcessUtilization", NO_PERMISSION)
    device.process(100, GIB)

    processes = node(device).device().processes

    assert processes == (GpuProcess(100, ProcessKind.COMPUTE, GIB),)


@pytest.mark.parametrize("driver", ["535.43.02", "535.86.10", "535.98", "550.54.15"])
def test_pid_and_memory_keep_their_places_case_gpu_75(node: MakeNode, driver: str) -> None:
    device = gpu(A100, 0)
    for pid in (1000, 1001, 1002):
        device.process(pid, pid * GIB)

    processes = node(device, driver=driver).device().processes

    assert processes is not None
    assert [(one.pid, one.memory_bytes) for one in processes] == [(pid, pid * GIB) for pid in (1000, 1001, 1002)]


def test_processes_that_cannot_be_listed_are_not_none_of_them(node: MakeNode) -> None:
    device = gpu(A100, 0)
    for kind in ("Compute", "Graphics", "MPSCompute"):
        device.fail(f"DeviceGet{kind}RunningProcesses", NO_PERMISSION)

    state = node(device).device()

    assert state.processes is None
    assert state.processes_missing is Absence.PERMISSION


def test_instances_are_named_by_the_driver(node: MakeNode) -> None:
    state = node(split(gpu(H100, 0), ["3g.40gb", "1c.2g.20gb", "1g.10gb+me"])).device()

    found = [(one.instance.profile, one.instance.compute_slices, one.instance.gpu_instance) for one in state.instances]
    assert state.device.mig is True
    assert found == [("3g.40gb", 3, 1), ("1c.2g.20gb", 1, 2), ("1g.10gb+me", 1, 3)]
    assert [one.readings.integer(GpuField.MEMORY_TOTAL_BYTES) for one in state.instances] == [
        40 * GIB,
        20 * GIB,
        10 * GIB,
    ]


def test_a_divided_gpu_has_no_utilisation_of_its_own_case_gpu_30(node: MakeNode) -> None:
    device = split(gpu(A100, 0), ["3g.20gb"])
    device.facts["UtilizationRates"] = "0 0"  # what some drivers say

    readings = node(device).device().readings

    assert readings is not None
    assert readings.missing[GpuField.GPU_UTIL_PERCENT] is Absence.UNSUPPORTED
    assert GpuField.POWER_UW in readings.values


def test_only_hopper_tells_how_active_an_instance_is_case_gpu_38_case_gpu_8(node: MakeNode) -> None:
    hopper, ampere = split(gpu(H100, 0), ["3g.40gb"]), split(gpu(A100, 1), ["3g.20gb"])
    hopper.migs[0].facts["gpm.1"] = 150.0
    hopper.migs[0].facts["gpm.5"] = "nan"
    made = node(hopper, ampere)
    made.poll()
    wait_until(lambda: GpuField.PROF_GRAPHICS_RATIO in made.device(0).instances[0].readings.values)

    first, second = (state.instances[0].readings for state in made.poll().devices)

    assert first.ratio(GpuField.PROF_GRAPHICS_RATIO) == 1.0
    assert first.missing[GpuField.PROF_TENSOR_RATIO] is Absence.BLANK
    assert GpuField.PROF_GRAPHICS_RATIO not in second.values


def test_another_layout_leaves_nothing_of_the_last_case_gpu_37(node: MakeNode) -> None:
    made = node(split(gpu(H100, 0), ["3g.40gb", "3g.40gb"]))
    made.poll()
    split(made.gpus[0], ["7g.80gb"], serial=2)
    made.write()

    state = made.device()

    assert [one.instance.uuid for one in state.instances] == [made.gpus[0].migs[0].uuid]


@pytest.mark.parametrize(("most", "slices"), [(4, 4), (7, 7)])
def test_a_board_has_as_many_slices_as_it_takes_instances(node: MakeNode, most: int, slices: int) -> None:
    device = split(gpu(H100, 0), ["1g.20gb"] * 4)
    device.facts |= {"MaxMigDeviceCount": most, "Name": "NVIDIA RTX PRO 6000 Blackwell Server Edition"}

    state = node(device).device()

    assert state.device.compute_slices == slices
    assert sum(one.instance.compute_slices for one in state.instances) == 4


def test_two_boards_with_one_uuid_are_two(node: MakeNode) -> None:
    first, second = gpu(A100, 0, watts=100), gpu(A100, 1, watts=300)
    second.facts["UUID"] = first.uuid

    seen = node(first, second).poll().devices

    assert [state.readings and state.readings.integer(GpuField.POWER_UW) for state in seen] == [100 * WATT, 300 * WATT]
    assert len({state.device.uuid for state in seen}) == 2
    assert seen[0].device.uuid == first.uuid


def test_instances_with_a_hole_between_them_are_all_found(node: MakeNode) -> None:
    device = split(gpu(H100, 0), ["1g.10gb"] * 3)
    del device.migs[1]

    assert len(node(device).device().instances) == 2


def test_xids_are_counted_with_their_last_time_case_gpu_77_case_gpu_94(node: MakeNode) -> None:
    made = node(gpu(A100, 0), gpu(A100, 1))
    made.poll()
    for _ in range(2):
        made.scenario.xid(1, 31)
    made.scenario.xid(1, 94, gi=3)
    made.write()

    wait_until(lambda: len(made.device(1).xids) == 2)

    healthy, ill = made.poll().devices
    assert healthy.xids == ()
    assert [(one.xid, one.count, one.gpu_instance) for one in ill.xids] == [(31, 2, None), (94, 1, 3)]
    assert ill.xids[0].last_utc_ns > 0


@pytest.mark.parametrize("word", ["N/A", "[N/A]", "[Not Supported]", "ERR!", "", "  "], ids="case_ceems_388-{}".format)
def test_a_drivers_words_for_nothing_are_nothing(node: MakeNode, word: str) -> None:
    device = gpu(A100, 0)
    device.facts |= {"Serial": word, "VbiosVersion": word, "Name": word}

    found = node(device).device()

    assert found.device.serial is None
    assert "vbios" not in found.device.facts
    assert found.device.model == "NVIDIA GPU"
    assert found.up


def test_names_with_bytes_that_are_no_text_are_still_names_case_gpu_74(node: MakeNode) -> None:
    device = gpu(A100, 0)
    device.facts["Name"] = "NVIDIA \\xff\\xfe A100\\x00garbage"

    assert node(device).device().device.model == "NVIDIA �� A100"


def test_transmit_is_not_receive_case_gpu_25(node: MakeNode) -> None:
    device = gpu(A100, 0)
    device.facts |= {"PcieThroughput.0": 7, "PcieThroughput.1": 9}

    readings = node(device).device().readings

    assert readings is not None
    assert readings.integer(GpuField.PCIE_TX_BYTES_PER_SECOND) == 7_000
    assert readings.integer(GpuField.PCIE_RX_BYTES_PER_SECOND) == 9_000


def test_links_are_read_one_by_one(node: MakeNode) -> None:
    links = node(gpu(V100, 0)).device().links

    assert [(link.link, link.up) for link in links] == [(link, True) for link in range(6)]
    assert all(GpuField.NVLINK_TX_BYTES in link.values for link in links)


def test_a_handle_that_became_anothers_is_looked_at_anew_case_gpu_37(node: MakeNode) -> None:
    made = node(split(gpu(H100, 0), ["3g.40gb", "3g.40gb"]))
    made.poll()
    session = made.watch._session
    assert session is not None
    split(made.gpus[0], ["1g.10gb", "1g.10gb"], serial=2)
    made.write()

    for _ in range(2):  # the first finds out, the second reads
        session.ask((RateGroup.FAST,), 30)

    state = made.watch.snapshot().devices[0]
    assert [one.instance.uuid for one in state.instances] == [mig.uuid for mig in made.gpus[0].migs.values()]
    assert [one.readings.integer(GpuField.MEMORY_TOTAL_BYTES) for one in state.instances] == [10 * GIB] * 2


@pytest.mark.parametrize(("license", "status"), [("0 0", 0), ("1 0", 0), ("1 1", 1), ("0 1", 0)])
def test_a_vgpu_license_is_in_force_or_not(node: MakeNode, license: str, status: int) -> None:
    device = gpu(L40S, 0)
    device.facts["GridLicense"] = license

    readings = node(device).device().readings

    assert readings is not None
    assert readings.integer(GpuField.VGPU_LICENSE_STATUS) == status


@pytest.mark.parametrize(
    "function", ["DeviceGetPcieThroughput", "DeviceGetInforomImageVersion", "DeviceGetRemappedRows"]
)
def test_what_takes_long_is_not_in_each_reading_case_gpu_91(node: MakeNode, function: str) -> None:
    made = node(gpu(A100, 0))
    made.poll()
    made.gpus[0].hang(function)
    made.write()

    found = made.watch.poll(30.0, (RateGroup.FAST,)).devices[0]

    assert (found.up, found.reason) == (True, "")
