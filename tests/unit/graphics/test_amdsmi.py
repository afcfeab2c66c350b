"""AMD's GPUs through a package that answers as amdsmi does, in the real child process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_amdsmi.node import (
    DRIVER_NOT_LOADED,
    NO_PERMISSION,
    NOT_INITIALISED,
    NOT_SUPPORTED,
    AmdNode,
    Answers,
    mi250x,
    mi300x,
)
from tests.gpu_trees import GIB, Tree, accumulator, table

from kwhere.core.terms import Method
from kwhere.devices.gpu import DeviceState, GpuProcess
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.graphics.amdsmi_calls import entry, first_number, number, text
from kwhere.graphics.readers import has_amdsmi
from kwhere.meters.gpu_energy import GpuMeter

WATT = 1_000_000
MakeNode = Callable[..., AmdNode]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeNode]:
    """Return a maker of a node with the given GPUs."""
    made: list[AmdNode] = []

    def make(*gpus: Answers, tree: Tree | None = None, path: str | None = None, **more: object) -> AmdNode:
        extra = {} if path is None else {"path": path}
        made.append(AmdNode(tmp_path, monkeypatch, list(gpus), tree or Tree(), more, **extra))
        return made[-1]

    yield make
    for one in made:
        one.watch.close()


def value(state: DeviceState, name: GpuField) -> int | Absence | None:
    assert state.readings is not None
    found = state.readings.integer(name)
    return state.readings.missing.get(name) if found is None else found


def test_an_mi300x_case_gpu_17(node: MakeNode) -> None:
    made = node(mi300x())
    state = made.device()
    library = made.watch.snapshot().library

    assert (state.device.uuid, state.device.model) == ("f00dcafe12345678", "AMD Instinct MI300X")
    assert (state.device.serial, state.device.mig) == ("692231000123", False)
    assert (library.driver, library.version) == ("6.12.12", "amdsmi 7.0.2")
    assert value(state, GpuField.POWER_UW) == value(state, GpuField.POWER_INSTANT_UW) == 717 * WATT
    assert value(state, GpuField.POWER_AVERAGE_UW) is Absence.UNSUPPORTED
    assert value(state, GpuField.GPU_UTIL_PERCENT) == 88
    assert value(state, GpuField.MEMORY_TOTAL_BYTES) == 196_592 << 20
    assert value(state, GpuField.POWER_LIMIT_ENFORCED_UW) == 750 * WATT
    assert (value(state, GpuField.TEMPERATURE_MC), value(state, GpuField.TEMPERATURE_HOTSPOT_MC)) == (62_000, 62_000)
    assert value(state, GpuField.SM_CLOCK_HZ) == 2_100_000_000
    assert (value(state, GpuField.PCIE_LINK_GEN), value(state, GpuField.PCIE_REPLAYS)) == (5, 4)
    assert value(state, GpuField.ECC_SBE_VOLATILE) == 3
    assert state.processes == (GpuProcess(900, memory_bytes=8 * GIB),)


def test_the_librarys_unit_of_energy_is_not_used_case_gpu_14(node: MakeNode) -> None:
    gpu = mi300x()
    gpu["amdsmi_get_energy_count"] = {"energy_accumulator": 65628, "counter_resolution": 15.3, "timestamp": 1}

    assert value(node(gpu).device(), GpuField.ENERGY_UJ) == 1_001_403


@pytest.mark.parametrize(
    ("power", "watts"),
    [
        pytest.param(
            {"current_socket_power": "N/A", "average_socket_power": 94, "socket_power": 94}, 94, id="case_gpu_17-mean"
        ),
        pytest.param(
            {"current_socket_power": 717, "average_socket_power": "N/A", "socket_power": 717}, 717, id="case_gpu_17-now"
        ),
        ({"current_socket_power": "N/A", "average_socket_power": "N/A", "socket_power": 120}, 120),
        ({"current_socket_power": 65535, "average_socket_power": 94}, 94),
        pytest.param({"current_socket_power": 2**31, "average_socket_power": "N/A"}, "blank", id="case_gpu_20"),
        ({"current_socket_power": 0, "average_socket_power": 94}, 94),
        ({"current_socket_power": "717", "average_socket_power": None}, 717),
        ({"current_socket_power": "N/A", "average_socket_power": "N/A"}, None),
        ({}, None),
        ("N/A", None),
        (None, None),
    ],
)
def test_the_first_power_that_is_a_number(node: MakeNode, power: object, watts: int | str | None) -> None:
    gpu = mi300x()
    gpu["amdsmi_get_power_info"] = power

    found = value(node(gpu).device(), GpuField.POWER_UW)
    if isinstance(watts, str):
        assert found == Absence(watts)
    else:
        assert found == (Absence.UNSUPPORTED if watts is None else watts * WATT)


def test_the_second_die_is_measured_by_the_first_case_gpu_18(node: MakeNode) -> None:
    dies = [mi250x(bus, primary=place % 2 == 0, serial=f"0x{place + 1}") for place, bus in enumerate(("c1", "c6"))]
    first, second = node(*dies).poll().devices

    assert (first.device.carrier, second.device.carrier) == ("", first.device.uuid)
    assert value(first, GpuField.POWER_UW) == 480 * WATT
    assert value(second, GpuField.POWER_UW) is Absence.UNSUPPORTED
    assert value(second, GpuField.ENERGY_UJ) is Absence.UNSUPPORTED


def with_files(clock_ns: int = 1) -> Tree:
    """Return the driver's files of the same GPU."""
    tree = Tree()
    place = tree.amd("0000:05:00.0", 1, 0x74A1, unique_id="f00dcafe12345678",
                     gpu_metrics=table(6, watts=650, energy=accumulator(2000), clock_ns=clock_ns))  # fmt: skip
    tree.put(f"{place}/hwmon/hwmon1", power1_input=655 * WATT)
    tree.put(place, mem_busy_percent=7)
    return tree


def test_what_the_library_only_remembers_is_read_from_the_files_case_gpu_16(node: MakeNode) -> None:
    gpu = mi300x()
    gpu["amdsmi_get_energy_count"] = {"energy_accumulator": accumulator(1000), "timestamp": 77}
    made = node(gpu, tree=with_files())
    assert value(made.device(), GpuField.ENERGY_UJ) == 1000 * WATT

    made.tree = with_files(clock_ns=2)
    made.write()
    state = made.device()
    assert value(state, GpuField.ENERGY_UJ) == 2000 * WATT
    assert value(state, GpuField.POWER_UW) == 655 * WATT
    assert state.device.uuid == "f00dcafe12345678"


def test_what_the_library_only_remembers_is_not_counted_as_new_case_gpu_16(node: MakeNode) -> None:
    gpu = mi300x()
    gpu["amdsmi_get_energy_count"] = {"energy_accumulator": accumulator(1000), "timestamp": 77}
    made = node(gpu)
    made.device()

    state = made.device()
    assert value(state, GpuField.ENERGY_UJ) is Absence.NO_DATA
    assert value(state, GpuField.POWER_UW) is Absence.NO_DATA


def test_files_fill_what_the_library_does_not_know(node: MakeNode) -> None:
    gpu = mi300x()
    gpu["amdsmi_get_gpu_activity"] = {"gfx_activity": "N/A", "umc_activity": "N/A", "mm_activity": "N/A"}
    state = node(gpu, tree=with_files()).device()

    assert value(state, GpuField.GPU_UTIL_PERCENT) == 73
    assert value(state, GpuField.MEMORY_UTIL_PERCENT) == 21


def test_partitions_are_one_package(node: MakeNode) -> None:
    parts = [mi300x(mode="CPX", part=n) for n in range(8)]
    for place, part in enumerate(parts):
        part["amdsmi_get_gpu_vram_usage"] = {"vram_total": 24_000, "vram_used": 100 * place}
        part["amdsmi_get_gpu_process_list"] = [{"pid": 900 + place, "memory_usage": {"vram_mem": 5}}]
        part["amdsmi_get_gpu_metrics_info"] = {"xcp_stats.gfx_busy_inst": [[10 * n, "N/A"] for n in range(8)]}
        if place:
            part["amdsmi_get_power_info"] = {"error": NOT_SUPPORTED}
            part["amdsmi_get_energy_count"] = {"error": NOT_SUPPORTED}
    made = node(*parts)
    (state,) = made.poll().devices

    assert (state.device.mig, state.device.compute_slices, len(state.instances)) == (True, 8, 8)
    third = state.instances[3]
    assert (third.instance.uuid, third.instance.profile) == ("f00dcafe12345678-3", "cpx/nps1")
    assert third.readings.integer(GpuField.MEMORY_USED_BYTES) == 300 << 20
    assert third.readings.ratio(GpuField.PROF_GRAPHICS_RATIO) == 0.3
    assert not any(GpuField.POWER_UW in one.readings.values for one in state.instances)
    assert state.processes is not None
    assert [(process.pid, process.gpu_instance) for process in state.processes] == [(900 + n, n) for n in range(8)]


def test_a_new_layout_is_opened_anew(node: MakeNode) -> None:
    made = node(mi300x())
    assert made.device().device.instances == ()
    made.gpus[:] = [mi300x(mode="DPX", part=n) for n in range(2)]
    made.write()
    assert made.watch.poll().library.reason == "reopen"

    assert len(made.device().device.instances) == 2


def test_one_call_that_fails_takes_no_other_with_it(node: MakeNode) -> None:
    gpu = mi300x()
    gpu["amdsmi_get_gpu_vram_usage"] = {"error": NO_PERMISSION}
    gpu["amdsmi_get_energy_count"] = {"error": 14}
    gpu["amdsmi_get_gpu_process_list"] = {"error": NO_PERMISSION}
    gpu["amdsmi_get_pcie_info"] = ["nonsense"]
    state = node(gpu).device()

    assert state.up
    assert value(state, GpuField.POWER_UW) == 717 * WATT
    assert value(state, GpuField.MEMORY_USED_BYTES) is Absence.UNSUPPORTED
    assert (state.processes, state.processes_missing) == (None, Absence.PERMISSION)


def test_one_gpu_that_fails_or_hangs_takes_no_other_with_it(node: MakeNode) -> None:
    broken, hung, well = (mi300x(bus, serial=f"0x{n}") for n, bus in enumerate(("05", "15", "25"), start=1))
    for name in ("amdsmi_get_energy_count", "amdsmi_get_power_info", "amdsmi_get_gpu_activity"):
        broken[name] = {"error": 14}
    made = node(broken, hung, well)
    hung["amdsmi_get_gpu_activity"] = {"hang": 30}
    made.poll()
    made.write()
    states = made.poll(timeout_seconds=1.5).devices

    assert [(state.up, state.reason) for state in states] == [(False, "error"), (False, "timeout"), (True, "")]


def test_a_driver_that_goes_away_is_opened_anew(node: MakeNode) -> None:
    gpu = mi300x()
    made = node(gpu)
    assert made.device().up
    gpu["amdsmi_get_power_info"] = {"error": NOT_INITIALISED}
    made.write()
    assert made.watch.poll().library.reason == "reopen"

    gpu["amdsmi_get_power_info"] = mi300x()["amdsmi_get_power_info"]
    made.write()
    assert made.device().up


@pytest.mark.parametrize(
    ("code", "reason"), [(DRIVER_NOT_LOADED, "driver"), (NO_PERMISSION, "permission"), (18, "error")]
)
def test_a_library_that_does_not_open_says_why(node: MakeNode, code: int, reason: str) -> None:
    library = node(mi300x(), init=code).poll().library

    assert (library.up, library.reason) == (False, reason)


def test_no_gpu_is_absent(node: MakeNode) -> None:
    assert node().poll().library.reason == "absent"


def test_without_the_package_the_files_are_read(node: MakeNode, tmp_path: Path) -> None:
    made = node(tree=with_files(), path=str(tmp_path))
    state = made.device()

    assert made.watch.snapshot().library.version == "sysfs"
    assert value(state, GpuField.ENERGY_UJ) == 2000 * WATT


def test_where_the_package_is_looked_for(tmp_path: Path) -> None:
    assert not has_amdsmi("")
    assert not has_amdsmi(str(tmp_path))
    (tmp_path / "amdsmi").mkdir()
    (tmp_path / "amdsmi/__init__.py").write_text("")
    assert has_amdsmi(str(tmp_path))


def test_energy_is_a_counter_through_the_meter(node: MakeNode) -> None:
    made = node(mi300x())
    made.poll()
    (reading,) = GpuMeter("amdsmi", made.watch).read(0)

    assert (str(reading.domain), reading.method) == ("gpu[f00dcafe12345678]", None)
    assert reading.counter_uj is not None
    assert reading.p_max_uw == 1125 * WATT
    assert GpuMeter("amdsmi", made.watch).method is Method.COUNTER


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pid", "mem"]) | st.text(), inner),
    max_leaves=8,
)


@given(json)
def test_any_answer_is_a_number_or_none(answer: object) -> None:
    for found in (number(answer), entry(answer, "pid"), entry(answer, "mem", "pid"), first_number(answer, ("pid",))):
        assert found is None or found >= 0
    found_text = text({"x": answer}, "x")
    assert found_text is None or found_text.isprintable()
