"""Whether the kernel or firmware knows of a BMC."""

from pathlib import Path

import pytest

from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.ipmi import find_interfaces, has_bmc


def host(root: Path, *directories: str) -> HostFS:
    for directory in directories:
        (root / directory).mkdir(parents=True)
    return HostFS(root / "no-proc", root, root / "no-cgroup")


def test_the_drivers_devices_are_found(tmp_path: Path) -> None:
    assert find_interfaces(host(tmp_path, "class/ipmi/ipmi1", "class/ipmi/ipmi0")) == ["ipmi0", "ipmi1"]


@pytest.mark.parametrize(
    "directory",
    [
        "firmware/dmi/entries/38-0",
        "bus/acpi/devices/IPI0001:00",
        "bus/platform/devices/IPI0001:00",
        "bus/platform/devices/dmi-ipmi-si.0",
        "bus/platform/devices/ipmi_bmc.0",
    ],
)
def test_firmware_tells_of_a_bmc(tmp_path: Path, directory: str) -> None:
    fs = host(tmp_path, directory)

    assert has_bmc(fs)
    assert find_interfaces(fs) == []


def test_a_machine_without_one(tmp_path: Path) -> None:
    fs = host(tmp_path, "firmware/dmi/entries/1-0", "bus/platform/devices/serial8250", "class/ipmi")

    assert not has_bmc(fs)
    assert find_interfaces(fs) == []
