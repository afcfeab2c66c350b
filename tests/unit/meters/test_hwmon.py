"""hwmon meters: which sensor counts for what, and what is no reading at all."""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest
from pydantic import ValidationError
from tests.unit.meters.powercap_tree import EACCES, EIO, FaultyFS, context

from kwhere.core.errors import NoData, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.kernel.hostfs import KeptFile
from kwhere.meters import hwmon_energy, hwmon_power
from kwhere.meters.asked import AskedMeter
from kwhere.meters.hwmon_settings import HwmonSettings, SiteSensor
from kwhere.meters.meter import PLATFORM, Domain, Meter
from kwhere.meters.settings import MeterSettings

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


def write_grace(root: Path, socket: int, watts_of: Mapping[str, int]) -> None:
    """Write the ACPI meters of one Grace socket."""
    for number, (what, power) in enumerate(watts_of.items()):
        files: dict[str, int | str] = {"power1_average": power * WATT, "power1_average_interval": 50}
        files["power1_oem_info"] = f"{what} Power Socket {socket}"
        write_chip(root, 10 * socket + number, "power_meter", files, f"ACPI000D:{socket}{number}")


def watts(meter: Meter) -> list[tuple[str, int]]:
    """Return domain and watts of every reading, sorted."""
    return sorted((str(reading.domain), (reading.power_uw or 0) // WATT) for reading in meter.read(0))


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
def test_an_acpi_meter_that_does_not_know_is_absent_case_energy_m6(tmp_path: Path, power_uw: int) -> None:
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


@pytest.mark.parametrize("chip", ["amd_energy", "zenergy"])
def test_sockets_of_amd_energy_count_and_cores_do_not(tmp_path: Path, chip: str) -> None:
    files: dict[str, int | str] = {"energy1_input": 7, "energy1_label": "Ecore000", "energy3_input": 30}
    files |= {"energy2_input": 20, "energy2_label": "Esocket0", "energy3_label": "Esocket1"}
    write_chip(tmp_path, 0, chip, files)

    meter = hwmon_energy.build(context(tmp_path, sockets=("0", "1")))

    assert [(str(r.domain), r.counter_uj, r.range_uj) for r in meter.read(0)] == [
        ("cpu[0]", 20, None),
        ("cpu[1]", 30, None),
    ]
    assert (meter.method, meter.covers, meter.refresh_seconds) == (Method.COUNTER, frozenset(), 0.0)
    assert meter.p_max_uw(Domain(DomainKind.CPU, "0")) == 1000 * WATT


def test_grace_says_what_it_measures(tmp_path: Path) -> None:
    for socket in range(2):
        write_grace(tmp_path, socket, {"Module": 700, "Grace": 300, "CPU": 200 + socket, "SysIO": 50})

    meter = hwmon_power.build(context(tmp_path, sockets=("0", "1")))

    assert watts(meter) == [
        ("cpu[0]", 50), ("cpu[0]", 200), ("cpu[1]", 50), ("cpu[1]", 201), ("platform", 700), ("platform", 700),
    ]  # fmt: skip
    assert meter.covers == frozenset(Component)  # a module holds its GPU
    assert meter.refresh_seconds == 0.05


def test_a_grace_without_modules_holds_no_gpu(tmp_path: Path) -> None:
    for socket in range(2):
        write_grace(tmp_path, socket, {"Grace": 300, "CPU": 200, "SysIO": 50})

    meter = hwmon_power.build(context(tmp_path, sockets=("0", "1")))

    assert [found for found in watts(meter) if found[0] == "platform"] == [("platform", 300), ("platform", 300)]
    assert meter.covers == {Component.CPU, Component.DRAM, Component.OTHER}


def test_a_module_of_one_socket_alone_is_not_the_machine(tmp_path: Path) -> None:
    write_grace(tmp_path, 0, {"Module": 700, "CPU": 200})
    write_grace(tmp_path, 1, {"CPU": 200})

    meter = hwmon_power.build(context(tmp_path, sockets=("0", "1")))

    assert watts(meter) == [("cpu[0]", 200), ("cpu[1]", 200)]
    assert meter.covers == frozenset()


def test_a_meter_of_the_whole_machine_is_better_than_modules(tmp_path: Path) -> None:
    write_grace(tmp_path, 0, {"Module": 700, "CPU": 200})
    write_chip(tmp_path, 90, "power_meter", {"power1_average": 1100 * WATT}, "ACPI000D:90")

    meter = hwmon_power.build(context(tmp_path))

    assert watts(meter) == [("cpu[0]", 200), ("platform", 1100)]


@pytest.mark.parametrize("unknown", [SENTINEL, 0xFFFFFFFF, 0x7FFFFFFF, 2_147_483_647_000, 0, -5])
def test_a_grace_meter_that_does_not_know_leaves_the_others(tmp_path: Path, unknown: int) -> None:
    write_grace(tmp_path, 0, {"CPU": 200, "SysIO": 50})
    files = tmp_path.glob("class/hwmon/*/power1_oem_info")
    (path,) = (file.parent for file in files if "SysIO" in file.read_text())
    (path / "power1_average").write_text(f"{unknown}\n")

    assert watts(hwmon_power.build(context(tmp_path))) == [("cpu[0]", 200)]


def test_the_site_says_what_a_sensor_measures(tmp_path: Path) -> None:
    files: dict[str, int | str] = {"energy1_input": 11, "energy1_label": "VDD_CPU1", "energy2_input": 12}
    write_chip(tmp_path, 0, "ina238", files | {"energy2_label": "VDD_FAN"}, "1-0040")
    write_chip(tmp_path, 1, "ltc2947", {"energy1_input": 99}, "1-005c")
    cpus = SiteSensor(chip="ina238", label=r"VDD_CPU(\d+)", domain=DomainKind.CPU)
    board = SiteSensor(chip="ltc2947", domain=DomainKind.PLATFORM)
    settings = MeterSettings(hwmon=HwmonSettings(sensors=(cpus, board)))

    meter = hwmon_energy.build(context(tmp_path, sockets=("0", "1"), settings=settings))

    assert [(str(r.domain), r.counter_uj) for r in meter.read(0)] == [("cpu[1]", 11), ("platform", 99)]
    assert meter.covers == frozenset(Component)


@pytest.mark.parametrize(
    "sensor",
    [
        {"chip": "(", "domain": "cpu"},
        {"chip": "ina238", "domain": "gpu"},
        {"chip": "ina238"},
        {"chip": "", "domain": "cpu"},
    ],
)
def test_a_sensor_of_the_site_that_cannot_be_is_refused(sensor: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        HwmonSettings.model_validate({"sensors": [sensor]})


class SlowFS(FaultyFS):
    """A running machine whose ACPI meter waits for its BMC."""

    def __init__(self, sysfs: Path) -> None:
        super().__init__(sysfs)
        self.is_recorded = False
        self.answered = Event()

    def keep(self, area_path: str) -> KeptFile:
        if area_path.endswith("_average"):
            self.answered.wait()
        return super().keep(area_path)


def test_an_acpi_meter_that_waits_for_its_bmc_holds_up_nobody(tmp_path: Path) -> None:
    write_chip(tmp_path, 0, "power_meter", {"power1_average": 312 * WATT})
    fs = SlowFS(tmp_path)
    meter = hwmon_power.build(context(fs))
    assert isinstance(meter, AskedMeter)

    for _ in range(3):  # it hangs in a read, and yet these return
        with pytest.raises(NoData):
            meter.read(0)
    fs.answered.set()
    meter.ask_once()
    (reading,) = meter.read(0)
    meter.close()

    assert (reading.domain, reading.power_uw, reading.device_time) == (PLATFORM, 312 * WATT, True)
    assert (meter.source, meter.covers, meter.p_max_uw(PLATFORM)) == ("hwmon_power", frozenset(Component), 2000 * WATT)


def test_chips_that_answer_at_once_are_read_by_the_step_itself(tmp_path: Path) -> None:
    write_chip(tmp_path, 0, "smpro_hwmon", {"power1_input": 90 * WATT, "power1_label": "CPU VRD"}, "smpro.0")
    fs = FaultyFS(tmp_path)
    fs.is_recorded = False

    assert watts(hwmon_power.build(context(fs))) == [("cpu[0]", 90)]


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
