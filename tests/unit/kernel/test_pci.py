"""GPUs on the PCI bus, found without touching one."""

from pathlib import Path

import pytest

from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.pci import AMD, NVIDIA, PciGpu, find_pci_gpus, is_asleep


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    found = tmp_path / "sys/bus/pci/devices"
    found.mkdir(parents=True)
    return found


def put(bus: Path, address: str, **files: str) -> None:
    for name, text in files.items():
        path = bus / address / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def host(bus: Path) -> HostFS:
    root = bus.parents[3]
    return HostFS(root / "proc", root / "sys", root / "cgroup")


def test_display_controllers_and_accelerators_are_gpus(bus: Path) -> None:
    put(bus, "0000:41:00.0", **{"class": "0x030200\n"}, vendor="0x10de\n", device="0x20b0\n")
    put(bus, "0000:c5:00.0", **{"class": "0x120000\n"}, vendor="0x1002\n", device="0x740c\n")
    put(bus, "0000:00:1f.0", **{"class": "0x060100\n"}, vendor="0x8086\n", device="0x1\n")
    driver = bus.parents[1] / "drivers/nvidia"
    driver.mkdir(parents=True)
    (bus / "0000:41:00.0/driver").symlink_to(driver)

    assert find_pci_gpus(host(bus)) == [
        PciGpu("0000:41:00.0", NVIDIA, 0x20B0, "nvidia"),
        PciGpu("0000:c5:00.0", AMD, 0x740C),
    ]
    assert [gpu.address for gpu in find_pci_gpus(host(bus), AMD)] == ["0000:c5:00.0"]


@pytest.mark.parametrize(("status", "asleep"), [("suspended\n", True), ("active\n", False), ("", False)])
def test_a_laptops_gpu_may_sleep(bus: Path, status: str, asleep: bool) -> None:
    files = {"class": "0x030000\n", "power__runtime_status": status, "power__control": "auto\n"}
    put(bus, "0000:01:00.0", **files, vendor="0x10de\n", device="0x2560\n")

    (gpu,) = find_pci_gpus(host(bus))

    assert gpu.sleeps
    assert is_asleep(host(bus), gpu) is asleep


@pytest.mark.parametrize("text", ["", "zz", "0x", "\0\0", "0x03"])
def test_nonsense_is_no_gpu(bus: Path, text: str) -> None:
    put(bus, "0000:01:00.0", **{"class": text}, vendor="0x10de", device="0x1")

    assert find_pci_gpus(host(bus)) == []


def test_a_machine_without_such_a_bus_has_none(tmp_path: Path) -> None:
    assert find_pci_gpus(HostFS(tmp_path, tmp_path, tmp_path)) == []
