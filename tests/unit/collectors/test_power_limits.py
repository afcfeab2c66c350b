from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.recorded_hosts import open_host, said
from tests.unit.meters.pm_tree import write_counters
from tests.unit.meters.powercap_tree import FaultyFS, write_zone

from kwhere.collectors.power_limits import plugin
from kwhere.core.errors import Unavailable

WATT = 1_000_000
NAME = "kwhere_node_power_limit_watts"


def limits(root: Path | FaultyFS, **settings: int) -> dict[tuple[str, ...], float]:
    fs = root if isinstance(root, FaultyFS) else FaultyFS(root)
    return {labels: value for (_, labels), value in said(plugin, fs, **settings).items()}


def test_a_recorded_server_with_one_limit_each() -> None:
    assert said(plugin, open_host("xeon-2s-dram")) == {
        (NAME, ("package-0", "long_term")): 205.0,
        (NAME, ("package-0", "short_term")): 246.0,
        (NAME, ("package-1", "long_term")): 205.0,
        (NAME, ("package-1", "short_term")): 246.0,
    }


def test_zones_of_one_name_are_told_apart(tmp_path: Path) -> None:
    limit: dict[str, int | str] = {"constraint_0_power_limit_uw": 15 * WATT, "constraint_0_name": "long_term"}
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files=limit)
    write_zone(tmp_path, "intel-rapl:0:0", "dram", 0, files={"constraint_0_power_limit_uw": 0})
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 0, files=limit)
    write_zone(tmp_path, "intel-rapl:2", "dram", 0, files=limit)
    write_zone(tmp_path, "intel-rapl:3", "dram", 0, files=limit)
    write_zone(tmp_path, "intel-rapl:4", "dram", 0, files=limit)

    assert limits(tmp_path, limit=0) == {
        ("package-0", "long_term"): 15.0,
        ("package-0/dram", "0"): 0.0,
        ("intel-rapl-mmio/package-0", "long_term"): 15.0,
        ("dram", "long_term"): 15.0,
        ("intel-rapl/dram", "long_term"): 15.0,
        ("intel-rapl:4", "long_term"): 15.0,
    }


def test_a_missing_file_is_no_error_case_energy_r29(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files={"constraint_0_name": "long_term"})
    write_zone(tmp_path, "intel-rapl:1", "package-1", 0, files={"constraint_1_power_limit_uw": 90 * WATT})

    assert limits(tmp_path) == {("package-1", "1"): 90.0}


@pytest.mark.parametrize("text", ["", "none", "-1"])
def test_a_limit_that_is_no_number_is_left_out(tmp_path: Path, text: str) -> None:
    files: dict[str, int | str] = {"constraint_0_power_limit_uw": text, "constraint_1_power_limit_uw": WATT}
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files=files)

    assert limits(tmp_path) == {("package-0", "1"): 1.0}


def test_zones_whose_energy_is_closed_still_show_their_limits(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files={"constraint_0_power_limit_uw": 90 * WATT})
    fs = FaultyFS(tmp_path)
    fs.closed["energy_uj"] = 13

    assert limits(fs) == {("package-0", "0"): 90.0}


def test_the_cap_of_a_cray_node(tmp_path: Path) -> None:
    (write_counters(tmp_path, {}) / "power_cap").write_text("2500 W 1690000000 us\n")

    assert limits(tmp_path) == {("node", "power_cap"): 2500.0}


def test_a_large_machine_keeps_the_budget(tmp_path: Path) -> None:
    for socket in range(8):
        files = {f"constraint_{n}_power_limit_uw": WATT for n in range(3)}
        write_zone(tmp_path, f"intel-rapl:{socket}", f"package-{socket}", 0, files=files)

    assert (len(limits(tmp_path)), len(limits(tmp_path, limit=0))) == (4, 24)


def test_packages_come_before_what_is_in_them(tmp_path: Path) -> None:
    limit = {"constraint_0_power_limit_uw": WATT, "constraint_1_power_limit_uw": WATT}
    for directory, name in (("0", "package-0"), ("0:0", "dram"), ("1", "package-1"), ("1:0", "dram")):
        write_zone(tmp_path, f"intel-rapl:{directory}", name, 0, files=limit)

    assert {zone for zone, _ in limits(tmp_path)} == {"package-0", "package-1"}


def test_a_host_without_limits(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        limits(tmp_path)


def test_a_limit_that_is_closed_to_us_is_left_out_and_logged_nowhere__case_ceems_512(tmp_path: Path) -> None:
    for number, name in enumerate(("long_term", "short_term")):
        files: dict[str, int | str] = {
            f"constraint_{number}_name": name,
            f"constraint_{number}_power_limit_uw": (90 + number) * WATT,
        }
        write_zone(tmp_path, f"intel-rapl:{number}", f"package-{number}", 0, files=files)
    fs = FaultyFS(tmp_path)
    fs.closed["constraint_0_power_limit_uw"] = 13

    with capture_logs() as logs:
        shown = [limits(fs) for _ in range(100)]

    assert shown == [{("package-1", "short_term"): 91.0}] * 100
    assert logs == []


def test_limits_that_are_all_closed_are_no_limits__case_ceems_512(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 0, files={"constraint_0_power_limit_uw": 90 * WATT})
    fs = FaultyFS(tmp_path)
    fs.closed["constraint_0_power_limit_uw"] = 13

    with pytest.raises(Unavailable) as caught:
        limits(fs)

    assert caught.value.reason == "absent"
