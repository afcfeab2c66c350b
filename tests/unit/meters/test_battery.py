"""Laptops on their batteries: what is measured, when nothing is, and plugs that come and go."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.sampling_world import HandMeter, make_world
from tests.unit.meters.powercap_tree import FaultyFS, context
from tests.unit.meters.supply_tree import write_supply

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.meters import battery
from kwhere.meters.asked import AskedMeter
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.meter_bank import MeterBank
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts

SECOND = 1_000_000_000
WATT = 1_000_000
CPU0 = Domain(DomainKind.CPU, "0")
ON: Mapping[str, int | str] = {"type": "Battery", "status": "Discharging", "power_now": 15 * WATT}
MAINS: Mapping[str, int | str] = {"type": "Mains", "online": 0}


def test_what_the_batteries_give_is_what_the_machine_draws(tmp_path: Path) -> None:
    write_supply(tmp_path, "AC", MAINS)
    write_supply(tmp_path, "BAT0", ON)
    write_supply(tmp_path, "BAT1", {**ON, "power_now": -3 * WATT})

    meter = battery.build(context(tmp_path))

    (reading,) = meter.read(7)
    assert (reading.domain, reading.power_uw, reading.time_ns) == (PLATFORM, 18 * WATT, 7)
    assert (meter.source, meter.method, meter.covers) == ("battery", Method.INTEGRATED, frozenset(Component))


def test_a_second_battery_at_rest_adds_nothing(tmp_path: Path) -> None:
    """Two batteries are often emptied one after the other."""
    write_supply(tmp_path, "BAT0", ON)
    write_supply(tmp_path, "BAT1", {**ON, "status": "Not charging", "power_now": 0})

    assert battery.build(context(tmp_path)).read(0)[0].power_uw == 15 * WATT


@pytest.mark.parametrize(
    ("supplies", "reason"),
    [
        pytest.param({"AC": {"type": "Mains", "online": 1}, "BAT0": ON}, "on_ac", id="plugged in, status lags"),
        pytest.param({"ucsi": {"type": "USB", "online": 1}, "BAT0": ON}, "on_ac", id="charged by USB"),
        pytest.param({"BAT0": {**ON, "status": "Charging"}}, "on_ac", id="charging, no mains in sight"),
        pytest.param({"BAT0": {**ON, "status": "Full", "power_now": 0}}, "on_ac", id="full"),
        pytest.param({"BAT0": ON, "BAT1": {**ON, "status": "Charging"}}, "on_ac", id="one charges"),
        pytest.param({"BAT0": ON, "BAT1": {**ON, "status": "Unknown"}}, "on_ac", id="one does nobody knows what"),
        pytest.param({"BAT0": {"type": "Battery", "status": "Discharging"}}, "unsupported", id="no power"),
        pytest.param({"BAT0": {**ON, "power_now": 0}}, "unsupported", id="a machine that runs draws more than 0"),
        pytest.param({"BAT0": {**ON, "power_now": 0xFFFFFFFF}}, "unsupported", id="32 bits of unknown"),
        pytest.param({"BAT0": {**ON, "power_now": 4_294_967_295_000}}, "unsupported", id="the same in milliwatts"),
        pytest.param({"BAT0": ON, "BAT1": {**ON, "power_now": "?"}}, "unsupported", id="half the power is no power"),
    ],
)
def test_there_is_no_reading_and_a_reason(
    tmp_path: Path, supplies: Mapping[str, Mapping[str, int | str]], reason: str
) -> None:
    for name, files in supplies.items():
        write_supply(tmp_path, name, files)
    meter = battery.build(context(tmp_path))

    with pytest.raises(Unavailable) as caught:
        meter.read(0)

    assert caught.value.reason == reason
    assert caught.value.retry_after_seconds == 5.0


@pytest.mark.parametrize("supplies", [{}, {"AC": MAINS}, {"BAT0": {"type": "Battery", "present": 0}}])
def test_a_machine_without_a_battery(tmp_path: Path, supplies: Mapping[str, Mapping[str, int | str]]) -> None:
    for name, files in supplies.items():
        write_supply(tmp_path, name, files)

    with pytest.raises(Unavailable) as caught:
        battery.build(context(tmp_path))

    assert caught.value.reason == "absent"


def test_plugging_in_is_a_gap_never_0_watts(tmp_path: Path) -> None:
    path = write_supply(tmp_path, "BAT0", ON)
    write_supply(tmp_path, "AC", MAINS)
    bank = MeterBank([battery.build(context(tmp_path))], {}, 5 * SECOND)
    seen: list[int] = []
    health: list[str] = []
    for moment in range(0, 120, 5):
        plugged = 20 <= moment < 80
        write_supply(tmp_path, "AC", {"online": int(plugged)})
        (path / "status").write_text("Charging\n" if plugged else "Discharging\n")
        bank.read(moment * SECOND, suspended=False)
        seen.append(bank.totals_uj.get(("battery", PLATFORM), 0) // WATT)
        health.append(bank.health["battery"].reason)

    assert seen[3] == 15 * 15  # baseline at 0 s, last reading at 15 s
    assert seen[4:17] == [225] * 13  # nothing on the mains, and none of it is made up afterwards
    assert seen[-1] == 225 + 15 * 35
    assert set(health[4:16]) == {"on_ac"}
    assert bank.gaps["battery"].by_cause == {"stale": 1}


def test_another_platform_meter_keeps_its_place_whatever_is_plugged() -> None:
    inside = frozenset(Component)
    on_battery = HandMeter("battery", Method.INTEGRATED, powers={PLATFORM: 15 * WATT}, covers=inside)
    cpu = HandMeter(counters={CPU0: 0})
    psys = HandMeter("psys", counters={PLATFORM: 0}, covers=frozenset({Component.CPU}))
    world = make_world(idle_watts={CPU0: 0, PLATFORM: 1}, meters=[cpu, psys, on_battery])
    for _ in range(4):
        world.step()
        cpu.add(CPU0, 5 * WATT)
        psys.add(PLATFORM, 9 * WATT)

    totals = build_totals(world.sampler, StepCounts())
    assert totals.node_uj[Component.OTHER] == 3 * 4 * WATT
    assert totals.methods[Component.OTHER][1] == "psys"
    assert totals.meters_uj["battery", PLATFORM] == 3 * 15 * WATT


def test_the_controller_of_a_running_machine_is_asked_beside_the_step(tmp_path: Path) -> None:
    write_supply(tmp_path, "BAT0", ON)
    fs = FaultyFS(tmp_path)
    fs.is_recorded = False

    assert isinstance(battery.build(context(fs)), AskedMeter)
