from pathlib import Path

import pytest
from tests.unit.meters.powercap_tree import FaultyFS
from tests.unit.meters.test_hwmon import write_chip

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hwmon import HwmonSensor, SensorFile, find_energy_sensors, find_power_sensors


def test_a_sensor_as_the_kernel_shows_it(tmp_path: Path) -> None:
    files: dict[str, int | str] = {"power1_average": 5, "power1_input": 6, "power1_average_interval": 50}
    write_chip(tmp_path, 3, "power_meter", files | {"power1_oem_info": "CPU Power Socket 0"}, "ACPI000D:00")

    (sensor,) = find_power_sensors(FaultyFS(tmp_path))

    assert sensor == HwmonSensor(
        chip="power_meter",
        device="ACPI000D:00",
        number=1,
        paths=("sys/class/hwmon/hwmon3/power1_average", "sys/class/hwmon/hwmon3/power1_input"),
        label="CPU Power Socket 0",
        interval_ms=50,
    )


def test_channels_are_ordered_by_number_and_told_apart_by_kind(tmp_path: Path) -> None:
    files: dict[str, int | str] = {f"energy{number}_input": number for number in (10, 2)}
    write_chip(tmp_path, 0, "amd_energy", files | {"power1_input": 7, "energy2_label": "Esocket0", "in0_input": 1})

    sensors = find_energy_sensors(FaultyFS(tmp_path))

    assert [(sensor.number, sensor.label, sensor.device) for sensor in sensors] == [
        (2, "Esocket0", "hwmon0"),
        (10, "", "hwmon0"),
    ]


@pytest.mark.parametrize("interval", [0, -1, "garbage"])
def test_an_interval_that_is_none_is_not_known(tmp_path: Path, interval: int | str) -> None:
    write_chip(tmp_path, 0, "power_meter", {"power1_average": 5, "power1_average_interval": interval})

    assert find_power_sensors(FaultyFS(tmp_path))[0].interval_ms is None


def test_no_hwmon_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        find_power_sensors(FaultyFS(tmp_path))

    assert caught.value.reason == "absent"


def test_a_value_is_read_as_it_stands_and_nonsense_is_an_error(tmp_path: Path) -> None:
    path = write_chip(tmp_path, 0, "power_meter", {"power1_input": 5})
    fs = FaultyFS(tmp_path)
    file = SensorFile(fs, find_power_sensors(fs)[0])

    first = file.read()
    (path / "power1_input").write_text("hello\n")

    assert first == 5
    with pytest.raises(SourceError, match="power1_input"):
        file.read()
    file.close()
    assert fs.kept_files == 0


def test_a_chip_whose_directory_holds_only_a_device_that_is_no_directory_is_skipped(tmp_path: Path) -> None:
    chip = tmp_path / "class" / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "device").write_text("x")

    assert find_power_sensors(FaultyFS(tmp_path)) == []
