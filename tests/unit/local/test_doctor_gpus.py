"""What doctor says of GPUs, in the ordinary checks and in the self-check that an owner sends."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.doctor_place import made, place_of
from tests.hand_gpus import HandGpus
from tests.sampling_world import HandClock

from kwhere.devices.gpu import EventWatch, GpuDevice, GpuSnapshot, LibraryState, LinkReadings, Vendor, XidCount
from kwhere.devices.gpu_activity import OutsideState
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.discovery.gpu_mapping import ClaimSourceState
from kwhere.kernel.pci import PciGpu
from kwhere.local.doctor import Check, CheckState, examine
from kwhere.local.doctor_gpus import CHECKS
from kwhere.local.doctor_place import SeenGpus
from kwhere.local.gpu_report import GpuReport, Timing, VendorReport, as_json
from kwhere.local.gpu_report_text import lines_of

ABSENT = OutsideState("dcgm_exporter", "http://127.0.0.1:9400", False, "absent", "refused")
TELLS = OutsideState("dcgm_exporter", "http://127.0.0.1:9400", True)


@pytest.fixture
def gpus() -> HandGpus:
    made_gpus = HandGpus(HandClock(), library=LibraryState(True, driver="550.54.15", version="12.550", cuda="12.4"))
    made_gpus.add("GPU-0", instances=(("MIG-3", 3), ("MIG-2", 2)), slices=7)
    made_gpus.add("GPU-1")
    return made_gpus


def checks(directory: Path, found: GpuSnapshot, outside: OutsideState = TELLS, expected: int = 2) -> dict[str, Check]:
    place = place_of(made(directory, {}), gpus=lambda: [SeenGpus("nvml", found, (outside,), expected)])
    return {check.name: check for check in examine(CHECKS, place)}


def test_a_healthy_node_has_a_line_or_two(gpus: HandGpus, tmp_path: Path) -> None:
    found = checks(tmp_path, gpus.snapshot())

    assert {name: check.state for name, check in found.items()} == {
        "gpu_nvidia": CheckState.OK,
        "gpu_nvidia_activity": CheckState.OK,
    }
    assert found["gpu_nvidia"].found == "2 GPUs answer by nvml; driver 550.54.15, CUDA 12.4"


def test_where_nobody_tells_activity_a_divided_gpu_is_split_by_slices(gpus: HandGpus, tmp_path: Path) -> None:
    found = checks(tmp_path, gpus.snapshot(), ABSENT)["gpu_nvidia_activity"]

    assert found.state is CheckState.WARNING
    assert "slices" in found.why

    gpus.states.pop("GPU-0")

    assert checks(tmp_path, gpus.snapshot(), ABSENT)["gpu_nvidia_activity"].state is CheckState.MISSING


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        pytest.param("lost", "fell off the bus", id="case_gpu_70"),
        pytest.param("timeout", "does not come back", id="case_gpu_71"),
        pytest.param("absent", "was here within 14 days", id="absent"),
    ],
)
def test_a_gpu_that_is_down_is_to_be_looked_at(gpus: HandGpus, tmp_path: Path, reason: str, said: str) -> None:
    gpus.lose("GPU-1", reason)

    found = checks(tmp_path, gpus.snapshot())

    assert found["gpu_nvidia_1"].state is CheckState.FAILED
    assert said in found["gpu_nvidia_1"].why


def test_what_the_driver_wants_done_is_said_case_gpu_93(gpus: HandGpus, tmp_path: Path) -> None:
    gpus.read("GPU-1", more={GpuField.RECOVERY_ACTION: 1})

    assert checks(tmp_path, gpus.snapshot())["gpu_nvidia_1"].found == "A100 wants a reset of the GPU"


def test_a_gpu_of_the_bus_that_is_not_listed_is_missed_case_gpu_71(gpus: HandGpus, tmp_path: Path) -> None:
    assert checks(tmp_path, gpus.snapshot(), expected=3)["gpu_nvidia_count"].state is CheckState.WARNING


@pytest.mark.parametrize(
    ("reason", "state", "command"),
    [
        ("driver", CheckState.FAILED, "sudo modprobe nvidia"),
        ("mismatch", CheckState.FAILED, "sudo reboot"),
        ("permission", CheckState.FAILED, "ls -l /dev/nvidia*"),
        ("error", CheckState.FAILED, None),
        ("asleep", CheckState.MISSING, None),
        ("released", CheckState.MISSING, None),
    ],
)
def test_a_library_that_does_not_work_says_why(
    gpus: HandGpus, tmp_path: Path, reason: str, state: CheckState, command: str | None
) -> None:
    gpus.library = LibraryState(False, reason, "NVML: something")

    (found,) = checks(tmp_path, gpus.snapshot()).values()

    assert found.state is state
    assert (found.remedies[0].command if found.remedies else None) == command


def test_events_that_are_not_told_are_read_from_the_log(gpus: HandGpus, tmp_path: Path) -> None:
    found = replace(gpus.snapshot(), events=EventWatch(False, "NVML: no device tells events"))

    assert "kernel's log" in checks(tmp_path, found)["gpu_nvidia_events"].why


def test_a_node_without_gpus_says_so_once_and_why_their_collectors_are_silent(tmp_path: Path) -> None:
    (found,) = examine(CHECKS, place_of(made(tmp_path, {})))

    assert (found.name, found.state) == ("gpus", CheckState.MISSING)
    assert "unit_gpu" in found.why


@pytest.fixture
def report(gpus: HandGpus) -> GpuReport:
    gpus.read("GPU-0", watts=None, more={GpuField.FAN_PERCENT: 30, GpuField.PROF_SM_RATIO: 0.25}, why=Absence.BLANK)
    gpus.states["GPU-0"] = replace(
        gpus.states["GPU-0"],
        xids=(XidCount(79, 2, 5),),
        links=(LinkReadings(0, True), LinkReadings(1, False)),
        device=replace(gpus.states["GPU-0"].device, serial="1321", facts={"vbios": "92.00", "serial": "1321"}),
    )
    gpus.lose("GPU-1")
    return GpuReport(
        version="0.1.0",
        kernel="6.1.0",
        bus=(PciGpu("0000:41:00.0", 0x10DE, 0x20B0, "nvidia", "active"),),
        vendors=(VendorReport("nvml", gpus.snapshot(), (Timing("fast group", 0.0125),), (ABSENT,), 2),),
        mapping=(ClaimSourceState(ClaimSource.PROLOG, False, "absent", "no directory"),),
    )


def test_everything_is_there_or_has_a_reason(report: GpuReport) -> None:
    first, second = as_json(report)["vendors"][0]["devices"]

    assert first["values"]["fan_percent"] == 30
    assert first["missing"]["power_uw"] == "blank"
    assert first["missing"]["pcie_replays"] == "not_asked"
    assert first["values"].keys() | first["missing"].keys() == {name.value for name in GpuField}
    assert first["xids"][0]["meaning"] == "GPU has fallen off the bus"
    assert (second["up"], second["reason"]) == (False, "lost")
    assert not report.is_well


def test_nothing_tells_one_board_from_another(report: GpuReport) -> None:
    assert "1321" not in json.dumps(as_json(report)) + "\n".join(lines_of(report, 80))


def test_the_text_fits_a_terminal(report: GpuReport) -> None:
    lines = lines_of(report, 80)

    assert max(map(len, lines)) <= 80
    assert "  2 GPUs expected, 1 present" in lines
    assert "    fan_percent                                         30" in lines
    assert any(line.startswith("    blank: power_uw") for line in lines)
    assert "GPU 1: A100, lost" in lines


def test_gpus_that_tell_the_same_are_told_once() -> None:
    gpus = HandGpus(HandClock())
    for number in range(8):
        gpus.add(f"GPU-{number}")
    report = GpuReport("0.1.0", "6.1", (), (VendorReport("nvml", gpus.snapshot(), expected=8),))

    lines = lines_of(report, 80)

    assert "  GPUs that tell and lack the same: 1, 2, 3, 4, 5, 6, 7" in lines
    assert sum(line.startswith("GPU ") for line in lines) == 2


def test_a_node_without_gpus_is_well() -> None:
    report = GpuReport("0.1.0", "6.1", (), ())

    assert report.is_well
    assert "No vendor's GPUs are read here." in lines_of(report, 80)


def test_a_device_that_was_never_read_has_its_lines() -> None:
    gpus = HandGpus(HandClock())
    gpus.add("GPU-0")
    gpus.states["GPU-0"] = replace(
        gpus.states["GPU-0"], device=GpuDevice("unknown-0", 0, Vendor.NVIDIA, "unknown"), readings=None, processes=None
    )

    lines = lines_of(GpuReport("0", "6", (), (VendorReport("nvml", gpus.snapshot()),)), 80)

    assert "  processes: unknown; NVLinks up: 0 of 0" in lines
