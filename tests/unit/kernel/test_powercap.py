from pathlib import Path

import pytest
from tests.unit.meters.powercap_tree import RANGE, FaultyFS, write_zone

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.powercap import PowercapZone, ZoneFile, find_zones


def test_a_zone_as_the_kernel_shows_it(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 5)
    write_zone(
        tmp_path, "intel-rapl:0:a", "dram", 7, range_uj=None, files={"enabled": 0, "constraint_0_power_limit_uw": 9}
    )

    zones = find_zones(FaultyFS(tmp_path))

    assert zones[0] == PowercapZone(
        path="sys/class/powercap/intel-rapl:0",
        directory="intel-rapl:0",
        control_type="intel-rapl",
        name="package-0",
        parent=None,
        range_uj=RANGE,
        enabled=True,
        limits_uw=(),
    )
    dram = zones[1]
    assert (dram.parent, dram.range_uj, dram.enabled, dram.limits_uw) == ("intel-rapl:0", None, False, (9,))
    assert dram.order == ("intel-rapl", (0, 10))


@pytest.mark.parametrize("range_text", ["", "garbage", "-1"])
def test_a_range_that_is_no_number_is_not_known(tmp_path: Path, range_text: str) -> None:
    write_zone(tmp_path, "x:0", "package-0", 5, range_uj=None, files={"max_energy_range_uj": range_text})

    (zone,) = find_zones(FaultyFS(tmp_path))

    assert zone.range_uj is None


def test_no_powercap_is_unavailable_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        find_zones(FaultyFS(tmp_path))
    (tmp_path / "class" / "powercap" / "intel-rapl").mkdir(parents=True)
    (tmp_path / "class" / "powercap" / "stray").write_text("x")

    assert caught.value.reason == "absent"
    assert find_zones(FaultyFS(tmp_path)) == []


def test_zones_of_a_tree_copied_without_links(tmp_path: Path) -> None:
    for directory, name in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "dram")):
        write_zone(tmp_path, directory, name, 5, nested=True)
    (tmp_path / "devices" / "virtual").mkdir(parents=True)
    (tmp_path / "class" / "powercap").rename(tmp_path / "devices" / "virtual" / "powercap")
    (tmp_path / "class").rmdir()

    assert [zone.directory for zone in find_zones(FaultyFS(tmp_path))] == ["intel-rapl:0", "intel-rapl:0:0"]


def test_a_counter_is_read_as_it_stands(tmp_path: Path) -> None:
    path = write_zone(tmp_path, "intel-rapl:0", "package-0", 5)
    fs = FaultyFS(tmp_path)
    (zone,) = find_zones(fs)
    file = ZoneFile(fs, zone)

    first = file.read()
    (path / "energy_uj").write_text("12\n")
    second = file.read()
    (path / "energy_uj").write_text("-12\n")

    assert (first, second) == (5, 12)
    with pytest.raises(SourceError, match="energy_uj"):
        file.read()
    file.close()
