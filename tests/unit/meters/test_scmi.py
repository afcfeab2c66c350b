"""ARM's SCMI zones: watts by name, each once; what is not known is left alone."""

from pathlib import Path

import pytest
from tests.unit.meters.powercap_tree import EINVAL, FaultyFS, context

from kwhere.core.errors import Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.meters import powercap, scmi
from kwhere.meters.asked import AskedMeter
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
WATT = 1_000_000


def write_power_zone(root: Path, directory: str, name: str, watts: int | str, limit_uw: int | None = None) -> Path:
    """Write a zone that has `power_uw` and no `energy_uj`, as arm_scmi_powercap makes them."""
    path = root / "class" / "powercap" / directory
    path.mkdir(parents=True, exist_ok=True)
    (path / "name").write_text(f"{name}\n")
    (path / "power_uw").write_text(f"{watts * WATT if isinstance(watts, int) else watts}\n")
    if limit_uw is not None:
        (path / "constraint_0_power_limit_uw").write_text(f"{limit_uw}\n")
    return path


def found(root: Path, *sockets: str) -> dict[str, str]:
    """Return domain and watts by zone."""
    meter = scmi.build(context(root, vendor=None, sockets=sockets or ("0",)))
    return {r.zone.partition(":")[2]: f"{r.domain} {(r.power_uw or 0) // WATT}" for r in meter.read(0)}


def test_a_server_with_two_sockets(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "system", 400)
    write_power_zone(tmp_path, "arm-scmi:0:0", "soc0", 150)
    write_power_zone(tmp_path, "arm-scmi:0:1", "soc1", 140)
    write_power_zone(tmp_path, "arm-scmi:0:2", "ddr0", 20)
    write_power_zone(tmp_path, "arm-scmi:0:3", "ddr1", 21)
    write_power_zone(tmp_path, "arm-scmi:0:0:0", "cpu0", 99)

    assert found(tmp_path, "0", "1") == {
        "0": "platform 400",
        "0:0": "cpu[0] 150",
        "0:1": "cpu[1] 140",
        "0:2": "dram[0] 20",
        "0:3": "dram[1] 21",
    }


def test_it_is_integrated_and_has_the_whole_node_inside(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "SYS", 100)
    write_power_zone(tmp_path, "arm-scmi:0:0", "CPU", 60, limit_uw=400 * WATT)
    meter = scmi.build(context(tmp_path, vendor=None))
    bank = MeterBank([meter], {}, SECOND)
    for second in range(3):
        bank.read(second * SECOND, suspended=False)

    assert {str(domain): uj // WATT for (_, domain), uj in bank.totals_uj.items()} == {"cpu[0]": 120, "platform": 200}
    assert (meter.method, meter.covers) == (Method.INTEGRATED, frozenset(Component))
    assert meter.p_max_uw(Domain(DomainKind.CPU, "0")) == 800 * WATT
    assert meter.p_max_uw(PLATFORM) == 2000 * WATT


def test_memory_below_a_soc_lies_inside_it(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "soc", 100)
    write_power_zone(tmp_path, "arm-scmi:0:0", "ddr", 20)

    assert found(tmp_path) == {"0": "cpu[0] 100"}


def test_a_soc_without_a_number_is_all_sockets_where_there_are_several(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "soc", 300)

    assert found(tmp_path, "0", "1") == {"0": "cpu 300"}


def test_names_that_say_nothing_are_left_alone(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "domain-7", 40)
    write_power_zone(tmp_path, "arm-scmi:1", "gpu", 40)

    with pytest.raises(Unavailable, match="found domain-7, gpu") as caught:
        scmi.build(context(tmp_path))

    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize("text", ["0", "-4", "n/a", ""])
def test_a_zone_without_a_measurement_is_left_out(tmp_path: Path, text: str) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "soc", 90)
    write_power_zone(tmp_path, "arm-scmi:1", "ddr", text)

    assert found(tmp_path) == {"0": "cpu[0] 90"}


def test_a_firmware_that_does_not_monitor_is_unsupported(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "soc", 90)
    fs = FaultyFS(tmp_path)
    fs.mute["power_uw"] = EINVAL

    with pytest.raises(Unavailable) as caught:
        scmi.build(context(fs))

    assert caught.value.reason == "unsupported"


def test_other_drivers_with_watts_are_none_of_ours(tmp_path: Path) -> None:
    """dtpm's figures are the kernel's model; a driver still to come is not guessed at."""
    write_power_zone(tmp_path, "dtpm:0", "soc", 90)
    write_power_zone(tmp_path, "amd-hsmp:0", "package-0", 90)

    for module in (scmi, powercap):
        with pytest.raises(Unavailable) as caught:
            module.build(context(tmp_path))
        assert caught.value.reason == "absent"


def test_firmware_of_a_running_machine_is_asked_beside_the_step(tmp_path: Path) -> None:
    write_power_zone(tmp_path, "arm-scmi:0", "soc", 90)
    fs = FaultyFS(tmp_path)
    fs.is_recorded = False

    assert isinstance(scmi.build(context(fs)), AskedMeter)
