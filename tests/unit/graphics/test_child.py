"""Which reader a node gets, and each through its real child process."""

import sys
from pathlib import Path

import pytest
from tests.gpu_trees import Tree, table

from kwhere.apps.gpus import open_gpus
from kwhere.devices.gpu import Vendor
from kwhere.devices.gpu_fields import GpuField
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.gpu_watch import GpuWatch
from kwhere.kernel.hostfs import HostFS

NO_AMDSMI = GpuSettings(amdsmi_path="", start_seconds=10)


def mixed(tmp_path: Path) -> HostFS:
    """Return a running host whose PCI bus has a GPU of AMD, one of Intel, and one of AMD that a guest has."""
    tree = Tree()
    place = tree.amd("0000:03:00.0", 1, 0x740F, unique_id="7", gpu_metrics=table(3, energy=65536))
    tree.put(f"{place}/hwmon/hwmon1", power1_average=90_000_000)
    tree.device("0000:09:00.0", 0x1002, 0x740F, "vfio-pci", 3)
    arc = tree.device("0000:4d:00.0", 0x8086, 0x56A0, "i915", 0)
    tree.put(f"{arc}/hwmon/hwmon4", name="i915", energy1_input=5_000_000)
    tree.write(tmp_path)
    return HostFS(Path("/proc"), tmp_path / "sys")


def test_two_vendors_on_one_node_are_read_by_two_children(tmp_path: Path) -> None:
    watches = open_gpus(NO_AMDSMI, mixed(tmp_path))
    try:
        found = {}
        for watch in watches:
            assert isinstance(watch, GpuWatch)
            (state,) = watch.poll().devices
            assert state.readings is not None
            found[watch.source] = (state.device.uuid, state.readings.integer(GpuField.ENERGY_UJ))
    finally:
        for watch in watches:
            watch.close()

    assert found == {
        "amdgpu": ("0000000000000007", 1_000_000),
        "intel_gpu": ("intel-0000:4d:00.0", 5_000_000),
    }


def test_amdsmi_is_asked_where_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "amdsmi").mkdir()
    (tmp_path / "amdsmi/__init__.py").write_text("")
    settings = GpuSettings(amdsmi_path=str(tmp_path), off=frozenset({Vendor.INTEL}))

    assert [watch.source for watch in open_gpus(settings, mixed(tmp_path))] == ["amdsmi"]


def test_vendors_that_are_off_are_left_alone(tmp_path: Path) -> None:
    settings = GpuSettings(off=frozenset({Vendor.AMD, Vendor.INTEL}))

    assert open_gpus(settings, mixed(tmp_path)) == ()


@pytest.mark.parametrize(("reader", "message"), [("amdgpu", "found none"), ("radeon", "expected one of amdsmi")])
def test_a_reader_that_cannot_begin_says_why(tmp_path: Path, reader: str, message: str) -> None:
    argv = (sys.executable, "-m", "kwhere.graphics.child", reader, str(tmp_path / "proc"), str(tmp_path / "sys"))
    watch = GpuWatch(Vendor.AMD, argv, NO_AMDSMI)
    try:
        assert message in watch.poll().library.message
    finally:
        watch.close()
