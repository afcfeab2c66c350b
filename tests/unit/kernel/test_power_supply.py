"""Batteries as their drivers show them: signs, missing files, empty slots, other people's batteries."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.meters.powercap_tree import FaultyFS
from tests.unit.meters.supply_tree import write_supply

from kwhere.core.errors import Unavailable
from kwhere.kernel.power_supply import Battery, Charge, Supplies, read_supplies


@pytest.mark.parametrize(
    ("files", "power_uw"),
    [
        pytest.param({"power_now": 12_345_000}, 12_345_000, id="power"),
        pytest.param({"power_now": -12_345_000}, 12_345_000, id="negative while discharging"),
        pytest.param({"current_now": 1_500_000, "voltage_now": 12_000_000}, 18_000_000, id="current x voltage"),
        pytest.param({"current_now": -1_500_000, "voltage_now": 12_000_000}, 18_000_000, id="negative current"),
        pytest.param({"power_now": 9_000_000, "current_now": 1, "voltage_now": 1}, 9_000_000, id="power is better"),
        pytest.param({"power_now": "", "current_now": 10**6, "voltage_now": 11_000_000}, 11_000_000, id="empty file"),
        pytest.param({"current_now": 1_500_000}, None, id="no voltage"),
        pytest.param({"current_now": 1_500_000, "voltage_now": 0}, None, id="no volts"),
        pytest.param({"energy_now": 5}, None, id="nothing of power"),
        pytest.param({"power_now": "unknown"}, None, id="text"),
    ],
)
def test_power_whatever_the_driver_offers(tmp_path: Path, files: Mapping[str, int | str], power_uw: int | None) -> None:
    write_supply(tmp_path, "BAT0", {"type": "Battery", "status": "Discharging", **files})

    assert read_supplies(FaultyFS(tmp_path)) == Supplies((Battery("BAT0", Charge.DISCHARGING, power_uw),), None)


@pytest.mark.parametrize(
    ("status", "charge"),
    [
        ("Charging", Charge.CHARGING),
        ("Discharging", Charge.DISCHARGING),
        ("Not charging", Charge.NOT_CHARGING),
        ("Full", Charge.FULL),
        ("Unknown", Charge.UNKNOWN),
        ("Entladen", Charge.UNKNOWN),
        ("", Charge.UNKNOWN),
    ],
)
def test_what_a_battery_does(tmp_path: Path, status: str, charge: Charge) -> None:
    write_supply(tmp_path, "BAT0", {"type": "Battery", "status": status})

    assert read_supplies(FaultyFS(tmp_path)).batteries[0].charge is charge


def test_an_empty_slot_and_the_battery_of_a_mouse_are_none_of_ours(tmp_path: Path) -> None:
    write_supply(tmp_path, "BAT1", {"type": "Battery", "present": 0})
    write_supply(tmp_path, "hidpp_battery_0", {"type": "Battery", "scope": "Device", "status": "Discharging"})
    write_supply(tmp_path, "BAT0", {"type": "Battery", "present": 1, "scope": "System"})

    assert [battery.name for battery in read_supplies(FaultyFS(tmp_path)).batteries] == ["BAT0"]


@pytest.mark.parametrize(
    ("files", "charger"),
    [
        ({"type": "Mains", "online": 1}, "AC"),
        ({"type": "Mains", "online": 0}, None),
        ({"type": "USB", "online": 1}, "AC"),
        ({"type": "USB_PD", "online": 2}, "AC"),
        ({"type": "Mains"}, None),
        ({"type": "UPS", "online": 1}, None),
        ({"type": "USB", "online": 1, "scope": "Device"}, None),
    ],
)
def test_a_charger_is_one_that_is_online(tmp_path: Path, files: Mapping[str, int | str], charger: str | None) -> None:
    write_supply(tmp_path, "AC", files)

    assert read_supplies(FaultyFS(tmp_path)).charger == charger


def test_a_machine_without_such_a_class(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        read_supplies(FaultyFS(tmp_path))

    assert caught.value.reason == "absent"


@given(st.lists(st.binary(max_size=40), min_size=6, max_size=6))
def test_any_bytes_are_supplies(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    root = tmp_path_factory.mktemp("supply")
    path = write_supply(root, "BAT0", {"type": "Battery"})
    names = ("status", "power_now", "current_now", "voltage_now", "present", "scope")
    for name, content in zip(names, contents, strict=True):
        (path / name).write_bytes(content)

    found = read_supplies(FaultyFS(root))

    assert all(battery.power_uw is None or battery.power_uw >= 0 for battery in found.batteries)
