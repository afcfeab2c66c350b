"""Intel's GPUs by the drivers' files: Flex and Arc (i915), Battlemage (xe), graphics inside processors."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_trees import GIB, Tree
from tests.unit.graphics.graphics_bench import SECOND, WATT, Bench

from kwhere.devices.gpu import DeviceState, GpuProcess, ProcessKind, Vendor
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.devices.gpu_library import LibraryError
from kwhere.graphics.intel import PowerOfCounter

FLEX, BATTLEMAGE, IRIS = 0x56C0, 0xE20B, 0x9A49
PLACE = "sys/bus/pci/devices/0000:4d:00.0"
RENDER = (
    "drm-driver: i915\ndrm-pdev: 0000:4d:00.0\ndrm-client-id: {}\ndrm-engine-render: {} ns\ndrm-total-local0: {} KiB\n"
)
CYCLES = (
    "drm-driver: xe\ndrm-pdev: 0000:4d:00.0\ndrm-client-id: 3\ndrm-cycles-ccs: {}\ndrm-total-cycles-ccs: {}\n"
    "drm-engine-capacity-ccs: 2\ndrm-cycles-rcs: 0\ndrm-total-cycles-rcs: {}\n"
)


def i915(root: Path, device: int = FLEX) -> Bench:
    bench = Bench(root, Vendor.INTEL)
    bench.tree.device("0000:4d:00.0", 0x8086, device, "i915", 1)
    bench.tree.put("sys/class/drm/card1", gt_act_freq_mhz=1950, gt_cur_freq_mhz=2000, gt_max_freq_mhz=2050)
    bench.tree.links["proc/1/fd/0"] = "/dev/null"
    return bench


def flex(root: Path, energy: int = 5_000_000_000) -> Bench:
    """Return a node with a Flex 170: the card's counter, and one of its tile that is part of it."""
    bench = i915(root)
    bench.tree.put(f"{PLACE}/hwmon/hwmon3", name="i915_gt0", energy1_input=energy // 2)
    bench.tree.put(
        f"{PLACE}/hwmon/hwmon4", name="i915", energy1_input=energy, power1_max=0, power1_rated_max=150 * WATT
    )
    return bench


def counted(state: DeviceState) -> tuple[int | Absence, int | Absence]:
    """Return energy and power."""
    assert state.readings is not None
    read = state.readings
    energy, power = (
        read.missing[name] if (value := read.integer(name)) is None else value
        for name in (GpuField.ENERGY_UJ, GpuField.POWER_UW)
    )
    return energy, power


def test_power_is_what_the_counter_gained_over_time(tmp_path: Path) -> None:
    bench = flex(tmp_path).open()
    assert counted(bench.device()) == (5_000_000_000, Absence.NO_DATA)

    bench.tree.put(f"{PLACE}/hwmon/hwmon4", energy1_input=5_240_000_000)
    assert counted(bench.device(seconds=2)) == (5_240_000_000, 120 * WATT)


@pytest.mark.parametrize("energy", [4_294_967_295, 4_294_967_296, 2**33 + 5, 2**63])
def test_the_counter_has_64_bits_case_gpu_21(tmp_path: Path, energy: int) -> None:
    bench = flex(tmp_path, energy).open()
    bench.device()
    bench.tree.put(f"{PLACE}/hwmon/hwmon4", energy1_input=energy + 200 * WATT)

    assert counted(bench.device(seconds=2)) == (energy + 200 * WATT, 100 * WATT)


def test_a_counter_that_falls_is_no_power_case_gpu_20(tmp_path: Path) -> None:
    bench = flex(tmp_path).open()
    bench.device()
    bench.tree.put(f"{PLACE}/hwmon/hwmon4", energy1_input=4_999_999_000)
    assert counted(bench.device()) == (4_999_999_000, Absence.NO_DATA)

    bench.tree.put(f"{PLACE}/hwmon/hwmon4", energy1_input=5_099_999_000)
    assert counted(bench.device()) == (5_099_999_000, 100 * WATT)


def test_a_counter_that_leaps_is_no_power_case_gpu_20(tmp_path: Path) -> None:
    bench = flex(tmp_path).open()
    bench.device()
    bench.tree.put(f"{PLACE}/hwmon/hwmon4", energy1_input=5_226_000_000)  # 226 W; 1.5 x 150 W is the most

    assert counted(bench.device())[1] is Absence.NO_DATA


@given(st.lists(st.tuples(st.integers(0, 2**64), st.integers(0, 10**12)), max_size=20))
def test_power_is_never_negative_nor_more_than_is_possible(steps: list[tuple[int, int]]) -> None:
    power, now_ns = PowerOfCounter(), 0
    for energy_uj, passed_ns in steps:
        now_ns += passed_ns
        found = power.power_uw(energy_uj, now_ns, 225 * WATT)
        assert found is None or 0 <= found <= 225 * WATT


def test_the_card_holds_its_tiles_and_its_package(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Vendor.INTEL)
    bench.tree.device("0000:4d:00.0", 0x8086, BATTLEMAGE, "xe", 1)
    bench.tree.put(f"{PLACE}/hwmon/hwmon2", name="xe", energy1_input=900, energy1_label="card", energy2_input=600,
                   energy2_label="pkg", power1_max=190 * WATT, temp2_label="pkg", temp2_input=48_000,
                   temp3_label="vram", temp3_input=52_000)  # fmt: skip
    bench.tree.put(f"{PLACE}/tile0/gt0/freq0", act_freq=0, cur_freq=1500, max_freq=2850)
    bench.tree.put(f"{PLACE}/tile0/gt1/freq0", act_freq=1200, cur_freq=1500, max_freq=1500)
    state = bench.open().device()

    assert counted(state)[0] == 900
    values = state.readings
    assert values is not None
    assert values.integer(GpuField.TEMPERATURE_MC) == 48_000
    assert values.integer(GpuField.MEMORY_TEMPERATURE_MC) == 52_000
    assert values.integer(GpuField.SM_CLOCK_HZ) == 1_200_000_000
    assert values.integer(GpuField.MAX_SM_CLOCK_HZ) == 2_850_000_000
    assert values.integer(GpuField.POWER_LIMIT_ENFORCED_UW) == 190 * WATT


def test_a_board_that_counts_its_package_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Vendor.INTEL)
    bench.tree.device("0000:4d:00.0", 0x8086, BATTLEMAGE, "xe", 1)
    bench.tree.put(f"{PLACE}/hwmon/hwmon2", name="xe", energy2_input=600, energy2_label="pkg")

    assert counted(bench.open().device())[0] == 600


def test_tiles_without_a_card_are_not_taken_for_it(tmp_path: Path) -> None:
    bench = i915(tmp_path)
    bench.tree.put(f"{PLACE}/hwmon/hwmon3", name="i915_gt0", energy1_input=7)

    assert counted(bench.open().device()) == (Absence.UNSUPPORTED, Absence.UNSUPPORTED)


def test_graphics_inside_a_processor_are_there_without_power_case_gpu_87(tmp_path: Path) -> None:
    state = i915(tmp_path, IRIS).open().device()

    assert state.up
    assert counted(state) == (Absence.UNSUPPORTED, Absence.UNSUPPORTED)
    assert state.readings is not None
    assert state.readings.integer(GpuField.SM_CLOCK_HZ) == 1_950_000_000
    assert state.device.uuid == "intel-0000:4d:00.0"


def test_a_counter_that_cannot_be_read_now_is_missing_for_now(tmp_path: Path) -> None:
    bench = flex(tmp_path).open()
    bench.device()
    bench.tree.put(f"{PLACE}/hwmon/hwmon4", energy1_input="N/A")

    assert counted(bench.device()) == (Absence.BLANK, Absence.BLANK)


def use(bench: Bench) -> tuple[int | None, int | None]:
    """Return how busy the GPU was, and the use of its first process."""
    state = bench.device()
    assert state.readings is not None
    assert state.processes is not None
    return state.readings.integer(GpuField.GPU_UTIL_PERCENT), state.processes[0].sm_percent


def test_each_client_counts_once_and_never_backwards(tmp_path: Path) -> None:
    bench = i915(tmp_path)
    for pid, number in ((700, 4), (700, 5), (701, 4)):  # three files of one client
        bench.tree.client(pid, number, 1, RENDER.format(9, 10 * SECOND, 1024))
    bench.open()
    assert use(bench) == (None, None)
    for ran_ns, percent in ((10.25, 25), (10.2, 0), (10.35, 10), (10.35, 0)):
        for pid, number in ((700, 4), (700, 5), (701, 4)):
            bench.tree.client(pid, number, 1, RENDER.format(9, int(ran_ns * SECOND), 1024))
        assert use(bench) == (percent, percent)
    assert bench.device().processes == (GpuProcess(700, ProcessKind.GRAPHICS, 1 << 20, sm_percent=0),)


def test_clients_of_one_process_add_up(tmp_path: Path) -> None:
    bench = i915(tmp_path)
    bench.open()
    for ran in (0, SECOND // 4):
        bench.tree.client(700, 4, 1, RENDER.format(1, ran, 512))
        bench.tree.client(700, 5, 1, RENDER.format(2, ran, 512))
        bench.tree.client(800, 5, 1, RENDER.format(3, ran, 512))
        found = bench.device(seconds=11 if not ran else 1)

    assert found.readings is not None
    assert found.readings.integer(GpuField.GPU_UTIL_PERCENT) == 75
    assert found.readings.integer(GpuField.MEMORY_USED_BYTES) == 3 << 19
    assert found.processes is not None
    assert [(process.pid, process.sm_percent) for process in found.processes] == [(700, 50), (800, 25)]


def test_cycles_are_a_share_of_all_cycles_of_all_engines(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Vendor.INTEL)
    bench.tree.device("0000:4d:00.0", 0x8086, BATTLEMAGE, "xe", 1)
    bench.tree.links["proc/1/fd/0"] = "/dev/null"
    bench.tree.client(700, 4, 1, CYCLES.format(1000, 10_000, 10_000))
    bench.open().read()
    bench.tree.client(700, 4, 1, CYCLES.format(2000, 11_000, 11_000))
    state = bench.device()

    assert state.processes == (GpuProcess(700, ProcessKind.COMPUTE, sm_percent=50),)  # one of two engines


def test_nobody_there_is_idle_and_nobody_seen_is_not_known(tmp_path: Path) -> None:
    bench = flex(tmp_path).open()
    state = bench.device()
    assert state.readings is not None
    assert (state.processes, state.readings.integer(GpuField.GPU_UTIL_PERCENT)) == ((), 0)

    (tmp_path / "proc/1/fd/0").unlink()
    (tmp_path / "proc/1/fd").rmdir()
    bench.tree.links.pop("proc/1/fd/0")
    state = bench.device()
    assert state.readings is not None
    assert (state.processes, state.processes_missing) == (None, Absence.PERMISSION)
    assert GpuField.GPU_UTIL_PERCENT in state.readings.missing


def test_memory_of_boards_whose_driver_tells_it(tmp_path: Path) -> None:
    bench = flex(tmp_path)
    bench.tree.put("sys/class/drm/card1", lmem_total_bytes=16 * GIB, lmem_avail_bytes=12 * GIB)
    values = bench.open().device().readings

    assert values is not None
    assert values.integer(GpuField.MEMORY_USED_BYTES) == 4 * GIB


def test_a_gpu_of_a_guest_is_not_here(tmp_path: Path) -> None:
    tree = Tree()
    tree.device("0000:4d:00.0", 0x8086, FLEX, "vfio-pci", 1)
    with pytest.raises(LibraryError, match="found none"):
        Bench(tmp_path, Vendor.INTEL, tree).open()
