from pathlib import Path

import pytest
from tests.recorded_hosts import build_collector, open_host, said

from kwhere.collectors.temperature import plugin
from kwhere.core.errors import Unavailable
from kwhere.kernel.hostfs import HostFS

CELSIUS = "kwhere_node_temperature_celsius"


def test_tenths_and_more_are_kept_and_cores_left_out() -> None:
    assert said(plugin, open_host("laptop-psys-mmio")) == {
        (CELSIUS, ("coretemp/Package id 0",)): 51.0,
        (CELSIUS, ("acpitz",)): 25.0,
        (CELSIUS, ("iwlwifi_1/temp1",)): 41.0,
        (CELSIUS, ("nvme/Composite",)): 38.85,
    }


def test_processors_come_before_what_the_limit_cuts() -> None:
    found = said(plugin, open_host("laptop-psys-mmio"), limit=1, exclude="")

    assert list(found) == [(CELSIUS, ("coretemp/Core 0",))]


def test_a_host_without_sensors_has_no_collector(tmp_path: Path) -> None:
    for fs in (open_host("vm-no-meter"), HostFS(tmp_path, tmp_path, tmp_path)):
        with pytest.raises(Unavailable):
            build_collector(plugin, fs)


def chip(root: Path, number: int, name: str, device: str, **files: str) -> None:
    directory = root / "class" / "hwmon" / f"hwmon{number}"
    directory.mkdir(parents=True)
    (root / device).mkdir(exist_ok=True)
    (directory / "device").symlink_to(root / device)
    for file, text in {"name": name, **files}.items():
        (directory / file).write_text(f"{text}\n")


def test_two_devices_of_one_name_are_told_apart_in_the_order_of_their_places__case_ceems_456(tmp_path: Path) -> None:
    for number, device, value in ((3, "nvme1", 41000), (7, "nvme0", 38000)):
        chip(tmp_path, number, "nvme", device, temp1_input=str(value), temp1_label="Composite")
    chip(tmp_path, 9, "amdgpu", "gpu0", temp1_input="50000", temp1_label="edge")

    assert said(plugin, HostFS(tmp_path, tmp_path, tmp_path)) == {
        (CELSIUS, ("nvme-0/Composite",)): 38.0,
        (CELSIUS, ("nvme-1/Composite",)): 41.0,
        (CELSIUS, ("amdgpu/edge",)): 50.0,
    }
