"""AMD's GPUs by the driver's files: MI250, MI300X, Radeon, processors with graphics inside."""

from pathlib import Path

import pytest
from tests.gpu_trees import GIB, accumulator, table
from tests.unit.graphics.graphics_bench import SECOND, WATT, Bench

from kwhere.devices.gpu import DeviceState, GpuProcess, ProcessKind
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.devices.gpu_library import LibraryError
from kwhere.graphics.amd_energy import accumulated_uj

MI210, MI250X, MI300X, RADEON = 0x740F, 0x7408, 0x74A1, 0x744C
POWERS = (GpuField.POWER_UW, GpuField.POWER_AVERAGE_UW, GpuField.POWER_INSTANT_UW)


def powers(state: DeviceState) -> list[int | None]:
    assert state.readings is not None
    return [state.readings.integer(name) for name in POWERS]


def energy(state: DeviceState) -> int | Absence:
    assert state.readings is not None
    found = state.readings.integer(GpuField.ENERGY_UJ)
    return state.readings.missing[GpuField.ENERGY_UJ] if found is None else found


def mi300x(root: Path, mode: str = "SPX", **more: object) -> Bench:
    """Return a node with one MI300X."""
    bench = Bench(root)
    parts = [0] * 8 if mode == "CPX" else []
    place = bench.tree.amd("0000:05:00.0", 1, MI300X, unique_id="f00dcafe12345678", serial_number="692231000123",
                           current_compute_partition=mode, current_memory_partition="NPS1",
                           mem_info_vram_total=192 * GIB, mem_info_vram_used=20 * GIB,
                           gpu_metrics=table(6, watts=717, energy=accumulator(1000), partitions=parts))  # fmt: skip
    bench.tree.put(f"{place}/hwmon/hwmon1", power1_input=716 * WATT, power1_cap=750 * WATT, power1_cap_max=750 * WATT,
                   temp2_label="junction", temp2_input=62_000, temp3_label="mem", temp3_input=55_000)  # fmt: skip
    return bench


def mi250x(root: Path) -> Bench:
    """Return a node with two packages of two dies; the second die of each tells nothing."""
    bench = Bench(root)
    for number, bus in enumerate(("c1", "c6", "c9", "ce")):
        primary = number % 2 == 0
        place = bench.tree.amd(f"0000:{bus}:00.0", number, MI250X, unique_id=f"{number + 1:016x}",
                               serial_number=f"pcb{number // 2}", gpu_busy_percent=90,
                               gpu_metrics=table(3, watts=480 if primary else 0,
                                                 energy=accumulator(5000) if primary else 0))  # fmt: skip
        if primary:
            bench.tree.put(f"{place}/hwmon/hwmon{number}", power1_average=478 * WATT, power1_cap=560 * WATT)
    return bench


@pytest.mark.parametrize(
    ("raw", "microjoules"), [(65628, 1_001_403), (65536, 1_000_000), (2**63, 2**63 * 15625 // 1024)]
)
def test_the_unit_of_energy_is_a_binary_fraction_case_gpu_14(raw: int, microjoules: int) -> None:
    assert accumulated_uj(raw) == microjoules


def test_an_accumulator_is_energy_in_microjoules_case_gpu_14(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tree.amd("0000:03:00.0", 0, MI210, gpu_metrics=table(3, energy=65628))

    assert energy(bench.open().device()) == 1_001_403


def test_a_newer_board_tells_power_of_now_case_gpu_17(tmp_path: Path) -> None:
    state = mi300x(tmp_path).open().device()

    assert powers(state) == [716 * WATT, None, 716 * WATT]
    assert energy(state) == 1000 * WATT


def test_an_older_board_tells_a_mean_case_gpu_17(tmp_path: Path) -> None:
    state = mi250x(tmp_path).open().device()

    assert powers(state) == [478 * WATT, 478 * WATT, None]


def test_without_sensors_the_table_tells_the_power(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tree.amd("0000:03:00.0", 0, MI210, gpu_metrics=table(3, watts=94))
    bench.tree.amd("0000:04:00.0", 1, MI300X, gpu_metrics=table(8, watts=717))
    first, second = bench.open().read().devices

    assert powers(first) == [94 * WATT, 94 * WATT, None]
    assert powers(second) == [717 * WATT, None, 717 * WATT]


def test_what_is_all_ones_or_nothing_is_not_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tree.amd("0000:03:00.0", 0, MI210, gpu_metrics=table(3, watts=0xFFFF, energy=2**64 - 1, busy=0xFFFF))
    state = bench.open().device()

    assert powers(state) == [None, None, None]
    assert energy(state) is Absence.UNSUPPORTED
    assert state.readings is not None
    assert GpuField.GPU_UTIL_PERCENT not in state.readings.values


def test_the_second_die_is_measured_by_the_first_case_gpu_18(tmp_path: Path) -> None:
    found = mi250x(tmp_path).open().read().devices
    first, second, third, fourth = found

    assert [state.device.carrier for state in found] == ["", first.device.uuid, "", third.device.uuid]
    assert powers(second) == powers(fourth) == [None, None, None]
    assert energy(second) is Absence.UNSUPPORTED
    assert energy(first) == 5000 * WATT  # both dies, not divided
    assert all(state.up for state in found)


def test_dies_without_serial_numbers_are_neighbours_case_gpu_18(tmp_path: Path) -> None:
    bench = mi250x(tmp_path)
    for path in [path for path in bench.tree.files if path.endswith("serial_number")]:
        del bench.tree.files[path]
    found = bench.open().read().devices

    assert [state.device.carrier for state in found] == ["", found[0].device.uuid, "", found[2].device.uuid]


def test_a_die_alone_in_a_container_is_measured_by_nobody(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tree.amd("0000:c6:00.0", 0, MI250X, unique_id="2", gpu_metrics=table(3, watts=0, energy=0))

    assert bench.open().device().device.carrier == ""


def test_a_table_that_was_handed_out_before_is_no_reading_case_gpu_16(tmp_path: Path) -> None:
    bench = mi300x(tmp_path).open()
    assert energy(bench.device()) == 1000 * WATT

    stale = bench.device()
    assert energy(stale) is Absence.NO_DATA
    assert powers(stale)[0] == 716 * WATT  # the sensor is read anew

    place = "sys/bus/pci/devices/0000:05:00.0/gpu_metrics"
    bench.tree.files[place] = table(6, watts=717, energy=accumulator(1717), clock_ns=10**12 + 1)
    assert energy(bench.device()) == 1717 * WATT


def test_a_table_that_stays_old_has_no_energy_and_power_is_used_case_gpu_16(tmp_path: Path) -> None:
    bench = mi300x(tmp_path).open()
    bench.device()

    assert [energy(bench.device(seconds=4)) for _ in range(3)] == [
        Absence.NO_DATA,
        Absence.NO_DATA,
        Absence.UNSUPPORTED,
    ]


def test_an_accumulator_that_falls_to_nothing_is_missing_this_time(tmp_path: Path) -> None:
    bench = mi300x(tmp_path).open()
    bench.device()
    place = "sys/bus/pci/devices/0000:05:00.0/gpu_metrics"
    bench.tree.files[place] = table(6, watts=717, energy=0, clock_ns=10**12 + SECOND)

    assert energy(bench.device()) is Absence.BLANK


def test_a_table_that_fails_for_a_moment_does_not_end_the_counter(tmp_path: Path) -> None:
    bench = mi300x(tmp_path).open()
    bench.device()
    bench.tree.files["sys/bus/pci/devices/0000:05:00.0/gpu_metrics"] = b""

    assert [energy(bench.device(seconds=6)) for _ in range(2)] == [Absence.ERROR, Absence.UNSUPPORTED]


def test_a_radeon_is_measured_by_its_power(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    place = bench.tree.amd("0000:0b:00.0", 1, RADEON, gpu_metrics=table(3, watts=180, energy=4711))
    bench.tree.put(f"{place}/hwmon/hwmon1", power1_average=181 * WATT, temp1_label="edge", temp1_input=52_000,
                   temp2_label="junction", temp2_input=61_000, temp3_label="mem", temp3_input=60_000,
                   freq1_label="sclk", freq1_input=2_304_000_000, pwm1=51)  # fmt: skip
    bench.tree.put(place, pp_dpm_sclk="0: 500Mhz\n1: 2304Mhz *\n2: 2615Mhz", pp_dpm_mclk="0: 96Mhz *\n1: 1249Mhz",
                   pcie_replay_count=3)  # fmt: skip
    state = bench.open().device()

    assert energy(state) is Absence.UNSUPPORTED  # what its accumulator counts is nowhere documented
    assert powers(state)[0] == 181 * WATT
    values = state.readings
    assert values is not None
    assert values.integer(GpuField.TEMPERATURE_MC) == 52_000
    assert values.integer(GpuField.TEMPERATURE_HOTSPOT_MC) == 61_000
    assert values.integer(GpuField.MEMORY_TEMPERATURE_MC) == 60_000
    assert values.integer(GpuField.SM_CLOCK_HZ) == 2_304_000_000
    assert values.integer(GpuField.MAX_SM_CLOCK_HZ) == 2_615_000_000
    assert values.integer(GpuField.MEMORY_CLOCK_HZ) == 96_000_000
    assert values.integer(GpuField.FAN_PERCENT) == 20
    assert values.integer(GpuField.PCIE_REPLAYS) == 3
    assert (values.integer(GpuField.PCIE_LINK_GEN), values.integer(GpuField.PCIE_MAX_LINK_GEN)) == (4, 5)
    assert state.device.mig is None


def test_a_processors_graphics_have_no_power_of_their_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    place = bench.tree.amd("0000:04:00.0", 0, 0x15BF, gpu_metrics=table(3, format_=2), gpu_busy_percent=12)
    bench.tree.put(f"{place}/hwmon/hwmon0", power1_input=25 * WATT)  # the whole package: the processor's meter has it
    state = bench.open().device()

    assert state.up
    assert powers(state) == [None, None, None]
    assert energy(state) is Absence.UNSUPPORTED
    assert state.readings is not None
    assert state.readings.integer(GpuField.GPU_UTIL_PERCENT) == 12


def test_memory_and_limits_and_errors(tmp_path: Path) -> None:
    bench = mi300x(tmp_path)
    place = "sys/bus/pci/devices/0000:05:00.0"
    bench.tree.put(place, ras__umc_err_count="ue: 1\nce: 5", ras__gfx_err_count="ue: 0\nce: 2", ras__features="0xff")
    state = bench.open().device()

    values = state.readings
    assert values is not None
    assert values.integer(GpuField.MEMORY_TOTAL_BYTES) == 192 * GIB
    assert values.integer(GpuField.MEMORY_FREE_BYTES) == 172 * GIB
    assert values.integer(GpuField.POWER_LIMIT_ENFORCED_UW) == 750 * WATT
    assert (values.integer(GpuField.ECC_SBE_VOLATILE), values.integer(GpuField.ECC_DBE_VOLATILE)) == (7, 1)
    assert values.integer(GpuField.TEMPERATURE_MC) == 62_000  # no edge sensor: the junction's
    assert GpuField.FAN_PERCENT in values.missing


def test_who_it_is(tmp_path: Path) -> None:
    device = mi300x(tmp_path).open().device().device

    assert (device.uuid, device.pci, device.minor) == ("f00dcafe12345678", "0000:05:00.0", 1)
    assert (device.model, device.serial, device.mig) == ("AMD Instinct MI300X", "692231000123", False)
    assert device.facts["unique_id"] == "f00dcafe12345678"


def test_two_gpus_never_share_a_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(3):
        place = bench.tree.amd(f"0000:0{number}:00.0", number, MI210)
        if number < 2:
            bench.tree.put(place, unique_id="7")
    names = [state.device.uuid for state in bench.open().read().devices]

    assert names == ["0000000000000007", "amd-0000:01:00.0", "amd-0000:02:00.0"]


def test_partitions_are_instances_and_energy_is_the_sockets(tmp_path: Path) -> None:
    bench = mi300x(tmp_path, "CPX")
    place = "sys/bus/pci/devices/0000:05:00.0/gpu_metrics"
    bench.tree.files[place] = table(6, watts=717, energy=accumulator(1000), partitions=[100, 40, 0, 0, 0, 0, 0, 0])
    for number in range(8):
        bench.tree.kfd(number + 2, 5000 + number, "0000:05:00.0", partition=number, units=38, vram=24 * GIB)
    bench.tree.runs(900, 5000, vram=10 * GIB, units=38)
    bench.tree.runs(901, 5001, vram=3 * GIB, units=19)
    (state,) = bench.open().read().devices

    assert (state.device.mig, state.device.compute_slices, len(state.device.instances)) == (True, 8, 8)
    first, second, third, *_ = state.instances
    assert (first.instance.uuid, first.instance.profile) == ("f00dcafe12345678-0", "cpx/nps1")
    assert (first.instance.multiprocessors, first.instance.memory_bytes) == (38, 24 * GIB)
    assert [one.readings.ratio(GpuField.PROF_GRAPHICS_RATIO) for one in (first, second, third)] == [1.0, 0.4, 0.0]
    assert [one.readings.integer(GpuField.MEMORY_USED_BYTES) for one in (first, second, third)] == [
        10 * GIB,
        3 * GIB,
        0,
    ]
    assert not any(GpuField.ENERGY_UJ in one.readings.values for one in state.instances)
    assert energy(state) == 1000 * WATT
    assert state.processes == (
        GpuProcess(900, ProcessKind.COMPUTE, 10 * GIB, 0, 0, 100),
        GpuProcess(901, ProcessKind.COMPUTE, 3 * GIB, 1, 0, 50),
    )


def test_a_new_layout_is_seen(tmp_path: Path) -> None:
    bench = mi300x(tmp_path, "SPX")
    assert bench.open().device().device.instances == ()
    bench.tree.put("sys/bus/pci/devices/0000:05:00.0", current_compute_partition="CPX")
    bench.read()

    device = bench.device().device
    assert (device.mig, len(device.instances), device.facts["compute_partition"]) == (True, 8, "CPX")


def test_partitions_that_are_functions_of_one_device_are_told_apart(tmp_path: Path) -> None:
    bench = mi300x(tmp_path, "DPX")
    for number in range(2):
        bench.tree.kfd(number + 2, 5000 + number, f"0000:05:00.{number}", vram=96 * GIB)
    bench.tree.runs(901, 5001, vram=3 * GIB, units=19)
    state = bench.open().device()

    assert [one.gpu_instance for one in state.device.instances] == [0, 1]
    assert state.processes is not None
    assert [process.gpu_instance for process in state.processes] == [1]


def test_processes_by_open_files_when_they_draw(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tree.amd("0000:03:00.0", 0, RADEON, gpu_metrics=table(3))
    bench.tree.links["proc/1/fd/0"] = "/dev/null"
    text = "drm-driver: amdgpu\ndrm-client-id: 5\ndrm-pdev: 0000:03:00.0\ndrm-memory-vram: 2 MiB\ndrm-engine-gfx: {}"
    bench.tree.client(700, 9, 0, text.format(0))
    bench.open()
    bench.read()
    bench.tree.client(700, 9, 0, text.format(SECOND // 2))
    state = bench.device()

    assert state.processes == (GpuProcess(700, ProcessKind.GRAPHICS, 2 << 20, sm_percent=50),)


def test_a_gpu_that_sleeps_is_left_alone_and_one_that_is_gone_is_lost(tmp_path: Path) -> None:
    bench = mi300x(tmp_path).open()
    place = "sys/bus/pci/devices/0000:05:00.0"
    bench.tree.put(place, power__runtime_status="suspended")
    assert (bench.device().up, bench.device().reason) == (False, "asleep")
    bench.tree.put(place, power__runtime_status="active")
    assert bench.device().up

    (tmp_path / "sys/bus/pci/devices").rename(tmp_path / "gone")
    bench.tree.files.clear()
    bench.tree.links.clear()
    assert bench.device().reason == "lost"


def test_garbage_in_every_file_costs_only_what_it_stands_for(tmp_path: Path) -> None:
    bench = mi300x(tmp_path)
    place = "sys/bus/pci/devices/0000:05:00.0"
    bench.tree.put(place, mem_info_vram_used="<html>", gpu_metrics=b"\x01", unique_id=b"\xff\x00",
                   pp_dpm_sclk="fast", ras__umc_err_count="none", pcie_replay_count="-1")  # fmt: skip
    state = bench.open().device()

    assert state.up
    assert state.device.uuid == "amd-0000:05:00.0"
    assert powers(state)[0] == 716 * WATT
    assert state.readings is not None
    assert state.readings.integer(GpuField.MEMORY_TOTAL_BYTES) == 192 * GIB
    for name in (GpuField.MEMORY_USED_BYTES, GpuField.ECC_SBE_VOLATILE, GpuField.PCIE_REPLAYS):
        assert name in state.readings.missing


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="found none") as raised:
        Bench(tmp_path).open()
    assert raised.value.reason == "absent"
