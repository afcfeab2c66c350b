"""Which vendors' libraries are opened on a node, and when they are left alone."""

import time
from pathlib import Path

import pytest

from kwhere.apps.gpus import has_nvidia, open_gpus, past_xids, reason_to_wait, start_gpus
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.xid import XidLine
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.pci import NVIDIA


def host(root: Path, **files: str) -> HostFS:
    for area in ("proc", "sys", "cgroup"):
        (root / area).mkdir(exist_ok=True)
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return HostFS(root / "proc", root / "sys", root / "cgroup")


def on_bus(root: Path, *, status: str = "active", control: str = "on", driver: str = "nvidia") -> HostFS:
    place = root / "sys/bus/pci/devices/0000:01:00.0"
    (place / "power").mkdir(parents=True)
    files = {"class": "0x030200", "vendor": "0x10de", "device": "0x20b0", "power/runtime_status": status}
    for name, text in {**files, "power/control": control}.items():
        (place / name).write_text(text)
    (root / driver).mkdir()
    (place / "driver").symlink_to(root / driver)
    return host(root)


def test_a_gpu_on_the_bus_or_its_driver_or_the_setting_say_that_there_is_one(tmp_path: Path) -> None:
    nothing = host(tmp_path)
    assert not has_nvidia(GpuSettings(), nothing)
    assert has_nvidia(GpuSettings(nvml_library="/driver/libnvidia-ml.so.1"), nothing)
    assert has_nvidia(GpuSettings(), host(tmp_path, proc__driver__nvidia__version="NVRM version"))


@pytest.mark.parametrize(("driver", "found"), [("nvidia", True), ("nouveau", True), ("vfio-pci", False)])
def test_a_gpu_that_a_guest_has_is_not_ours(tmp_path: Path, driver: str, found: bool) -> None:
    assert has_nvidia(GpuSettings(), on_bus(tmp_path, driver=driver)) is found


@pytest.mark.parametrize(
    ("status", "control", "reason"),
    [("suspended", "auto", "asleep"), ("active", "auto", ""), ("suspended", "on", "")],
)
def test_a_sleeping_laptops_gpu_is_left_asleep(tmp_path: Path, status: str, control: str, reason: str) -> None:
    assert reason_to_wait(on_bus(tmp_path, status=status, control=control), NVIDIA) == reason


def test_no_real_device_is_asked_on_a_recorded_host(tmp_path: Path) -> None:
    recorded = on_bus(tmp_path)

    assert recorded.is_recorded
    assert open_gpus(GpuSettings(), recorded) == ()


def test_a_vendor_can_be_left_out() -> None:
    here = HostFS(Path("/proc"), Path("/sys"), Path("/sys/fs/cgroup"))
    library = GpuSettings(nvml_library="/nonexistent/libnvidia-ml.so.1")

    assert [watch.vendor for watch in open_gpus(library, here)] == [Vendor.NVIDIA]
    assert open_gpus(library.model_copy(update={"off": frozenset({Vendor.NVIDIA})}), here) == ()


def test_a_library_that_fails_ends_the_wait(tmp_path: Path) -> None:
    here = HostFS(Path("/proc"), Path("/sys"), Path("/sys/fs/cgroup"))
    (watch,) = open_gpus(GpuSettings(nvml_library=str(tmp_path / "nothing")), here)

    start_gpus([watch], 60)

    found = watch.snapshot()
    watch.close()
    assert (found.library.up, found.library.reason) == (False, "absent")


def test_xids_of_the_kernels_log_have_their_time(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"  # a file is one read: the first record alone is seen
    log.write_bytes(b"4,812,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n")

    (found,) = past_xids(str(log))

    assert (found.line, found.time_ns) == (XidLine("0000:3b:00.0", 79), 5_140_900_000)
    assert abs(found.utc_ns - (time.time_ns() - time.monotonic_ns() + 5_140_900_000)) < 60_000_000_000
