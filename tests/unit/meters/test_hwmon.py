"""hwmon meters: which sensor counts for what, and what is no reading at all."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.meters.powercap_tree import EACCES, EIO, FaultyFS, context

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.meters import hwmon_energy, hwmon_power
from kwhere.meters.meter import PLATFORM, Domain

WATT = 1_000_000
SECOND = 1_000_000_000
SENTINEL = 4_294_967_295_000


def write_chip(root: Path, number: int, name: str, files: Mapping[str, int | str], device: str | None = None) -> Path:
    path = root / "class" / "hwmon" / f"hwmon{number}"
    path.mkdir(parents=True)
    for file, content in {"name": name, **files}.items():
        (path / file).write_text(f"{content}\n")
    if device is not None:
        os.symlink(f"../../../devices/{device}", path / "device")
    return path


def domains(root: Path, module: object = hwmon_power) -> dict[str, str]:
    """Return domain by zone name."""
    meter = module.build(context(root))  # type: ignore[attr-defined]
    return {reading.zone: str(reading.domain) for reading in meter.read(0)}


def test_an_acpi_power_meter_measures_the_platform(tmp_path: Path) -> None:
    write_chip(
        tmp_path, 2, "power_meter", {"power1_average": 312 * WATT, "power1_average_interval": 2000}, "ACPI000D:00"
    )

    meter = hwmon_power.build(context(tmp_path))
    (reading,) = meter.read(7)

    assert (reading.domain, reading.zone, reading.power_uw) == (PLATFORM, "ACPI000D:00/power_meter/1", 312 * WATT)
    assert (reading.counter_uj, reading.time_ns) == (None, 7)
    assert (meter.source, meter.method, meter.refresh_seconds) == ("hwmon_power", Method.INTEGRATED, 2.0)
    assert meter.covers == frozenset(Component)
    assert meter.p_max_uw(PLATFORM) == 2000 * WATT
    assert not meter.needs_proof


@pytest.mark.parametrize("power_uw", [SENTINEL, SENTINEL + 1_000, 0, -1])
def test_an_acpi_meter_that_does_not_know_is_absent(tmp_path: Path, power_uw: int) -> None:  # case_energy_m6
    path = write_chip(tmp_path, 0, "power_meter", {"power1_average": power_uw})

    with pytest.raises(Unavailable) as caught:
        hwmon_power.build(context(tmp_path))
    (path / "power1_average").write_text(f"{200 * WATT}\n")
    meter = hwmon_power.build(context(tmp_path))
    (path / "power1_average").write_text(f"{power_uw}\n")

    assert caught.value.reason == "unsupported"
    with pytest.raises(Unavailable, match="power1_average"):
        meter.read(0)


def test_an_average_is_preferred_and_a_momentary_value_serves(tmp_path: Path) -> None:
    both, one = tmp_path / "both", tmp_path / "one"
    write_chip(both, 0, "power_meter", {"power1_average": 5 * WATT, "power1_input": 9 * WATT})
    write_chip(one, 0, "power_meter", {"power1_average": "garbage", "power1_input": 9 * WATT})

    assert hwmon_power.build(context(both)).read(0)[0].power_uw == 5 * WATT
    assert hwmon_power.build(context(one)).read(0)[0].power_uw == 9 * WATT
    assert hwmon_power.build(context(one)).refresh_seconds == 1.0


def test_a_second_acpi_meter_is_the_same_machine_again(tmp_path: Path) -> None:
    write_chip(tmp_path, 0, "power_meter", {"power1_average": 300 * WATT}, "ACPI000D:01")
    write_chip(tmp_path, 1, "power_meter", {"power1_average": 310 * WATT}, "ACPI000D:00")

    assert domains(tmp_path) == {"ACPI000D:00/power_meter/1": "platform"}


def test_one_device_under_two_directories_is_one(tmp_path: Path) -> None:
    for number in range(2):
        write_chip(tmp_path, number, "amd_energy", {"energy1_input": 5, "energy1_label": "Esocket0"}, "amd_energy.0")

    assert domains(tmp_path, hwmon_energy) == {"amd_energy.0/amd_energy/1": "cpu[0]"}


def test_sockets_of_amd_energy_count_and_cores_do_not(tmp_path: Path) -> None:
    files: dict[str, int | str] = {"energy1_input": 7, "energy1_label": "Ecore000", "energy3_input": 30}
    files |= {"energy2_input": 20, "energy2_label": "Esocket0", "energy3_label": "Esocket1"}
    write_chip(tmp_path, 0, "amd_energy", files)

    meter = hwmon_energy.build(context(tmp_path, sockets=("0", "1")))

    assert [(str(r.domain), r.counter_uj, r.range_uj) for r in meter.read(0)] == [
        ("cpu[0]", 20, None),
        ("cpu[1]", 30, None),
    ]
    assert (meter.method, meter.covers, meter.refresh_seconds) == (Method.COUNTER, frozenset(), 0.0)
    assert meter.p_max_uw(Domain(DomainKind.CPU, "0")) == 1000 * WATT


def test_grace_says_what_it_measures(tmp_path: Path) -> None:
    for socket in range(2):
        for number, what in enumerate(["Module", "Grace", "CPU", "SysIO"]):
            files: dict[str, int | str] = {"power1_average": (socket + 1) * 10 * WATT, "power1_average_interval": 50}
            files["power1_oem_info"] = f"{what} Power Socket {socket}"
            write_chip(tmp_path, 4 * socket + number, "power_meter", files, f"ACPI000D:0{4 * socket + number}")

    meter = hwmon_power.build(context(tmp_path, sockets=("0", "1")))

    assert [(str(r.domain), r.power_uw) for r in meter.read(0)] == [
        ("cpu[0]", 10 * WATT),
        ("cpu[0]", 10 * WATT),
        ("cpu[1]", 20 * WATT),
        ("cpu[1]", 20 * WATT),
    ]
    assert meter.refresh_seconds == 0.05


def test_ampere_and_ibm_by_their_labels(tmp_path: Path) -> None:
    ampere: dict[str, int | str] = {
        "power1_input": 90 * WATT,
        "power1_label": "CPU VRD",
        "power2_input": 20 * WATT,
        "power2_label": "SoC VRD",
    }
    write_chip(tmp_path, 0, "smpro_hwmon", ampere | {"power3_input": 9 * WATT, "power3_label": "DIMM VRD1"}, "smpro.0")
    write_chip(tmp_path, 1, "smpro_hwmon", {"power1_input": 80 * WATT, "power1_label": "CPU VRD"}, "smpro.1")
    write_chip(
        tmp_path,
        2,
        "ibmpowernv",
        {"power1_input": 700 * WATT, "power1_label": "System", "power2_input": WATT, "power2_label": "Chip 8 Vdd"},
    )

    assert domains(tmp_path) == {
        "smpro.0/smpro_hwmon/1": "cpu[0]",
        "smpro.0/smpro_hwmon/2": "cpu[0]",
        "smpro.0/smpro_hwmon/3": "dram[0]",
        "smpro.1/smpro_hwmon/1": "cpu[1]",
        "hwmon2/ibmpowernv/1": "platform",
    }


@pytest.mark.parametrize("name", ["amdgpu", "xe", "i915", "corsairpsu", "nvme", "ina3221"])
def test_chips_of_other_meaning_are_left_alone(tmp_path: Path, name: str) -> None:
    write_chip(tmp_path, 0, name, {"power1_average": 30 * WATT, "energy1_input": 5, "power1_label": "total"})

    for module in (hwmon_power, hwmon_energy):
        with pytest.raises(Unavailable) as caught:
            module.build(context(tmp_path))
        assert caught.value.reason == "absent"


def test_a_host_without_hwmon_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        hwmon_power.build(context(tmp_path))

    assert caught.value.reason == "absent"


def test_a_closed_sensor_names_the_permission(tmp_path: Path) -> None:
    write_chip(tmp_path, 0, "amd_energy", {"energy1_input": 5, "energy1_label": "Esocket0"})
    fs = FaultyFS(tmp_path)
    fs.closed["energy1_input"] = EACCES

    with pytest.raises(Unavailable) as caught:
        hwmon_energy.build(context(fs))

    assert caught.value.reason == "permission"


def test_one_bad_sensor_is_left_out_of_that_read(tmp_path: Path) -> None:
    files: dict[str, int | str] = {"energy1_input": 5, "energy1_label": "Esocket0"}
    path = write_chip(tmp_path, 0, "amd_energy", files | {"energy2_input": 6, "energy2_label": "Esocket1"})
    fs = FaultyFS(tmp_path)
    meter = hwmon_energy.build(context(fs))
    fs.mute["energy1_input"] = EIO
    (path / "energy2_input").write_text("-4\n")
    with pytest.raises(Unavailable):
        meter.read(0)
    (path / "energy2_input").write_text("8\n")

    readings = meter.read(SECOND)
    meter.close()

    assert [(str(r.domain), r.counter_uj) for r in readings] == [("cpu[1]", 8)]
    assert fs.kept_files == 0


@pytest.mark.parametrize("content", ["", "garbage", "-3"])
def test_a_sensor_that_never_said_a_number_is_unsupported(tmp_path: Path, content: str) -> None:
    write_chip(tmp_path, 0, "amd_energy", {"energy1_input": content, "energy1_label": "Esocket0"})

    with pytest.raises(Unavailable) as caught:
        hwmon_energy.build(context(tmp_path))

    assert caught.value.reason == "unsupported"


def test_drivers_that_put_their_files_beside_the_device_are_found(tmp_path: Path) -> None:
    path = tmp_path / "class" / "hwmon" / "hwmon0" / "device"
    path.mkdir(parents=True)
    (path / "name").write_text("aem0\n")
    (path / "power1_average").write_text(f"{250 * WATT}\n")
    (tmp_path / "class" / "hwmon" / "hwmon1").mkdir()
    (tmp_path / "class" / "hwmon" / "stray").write_text("x")

    assert domains(tmp_path) == {"hwmon0/aem0/1": "platform"}
