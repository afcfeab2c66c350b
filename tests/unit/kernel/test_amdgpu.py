"""Text files of amdgpu, and of its compute driver."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_trees import GIB, Tree

from kwhere.core.errors import SourceError
from kwhere.kernel.amdgpu import DpmClock, RasCounts, parse_dpm, parse_ras, parse_unique_id, partition_count
from kwhere.kernel.drm import find_cards
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.kfd import parse_properties, pci_of, read_nodes, read_processes
from kwhere.kernel.pci import AMD


@pytest.mark.parametrize(
    ("text", "current", "highest"),
    [
        ("0: 500Mhz \n1: 1725Mhz *\n2: 2100Mhz \n", 1_725_000_000, 2_100_000_000),
        ("S: 19Mhz *\n0: 615Mhz \n1: 2575Mhz \n", 19_000_000, 2_575_000_000),
        ("0: 96Mhz\n1: 1000Mhz\n", None, 1_000_000_000),
        ("", None, None),
        ("\n", None, None),
    ],
)
def test_the_star_marks_the_current_clock(text: str, current: int | None, highest: int | None) -> None:
    assert parse_dpm(text, "pp_dpm_sclk") == DpmClock(current, highest)


@pytest.mark.parametrize("text", ["1725", "0: fast *", "<html>", "0: 1725Mhz * x", "-1: 5Mhz"])
def test_other_text_is_no_clock(text: str) -> None:
    with pytest.raises(SourceError, match="pp_dpm_sclk: expected a line like"):
        parse_dpm(text, "pp_dpm_sclk")


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode(errors="replace")))
def test_any_text_is_clocks_and_counts_or_a_clear_error(text: str) -> None:
    for parse in (parse_dpm, parse_ras):
        try:
            parse(text, "file")
        except SourceError:
            continue
    assert parse_unique_id(text) is None or len(parse_unique_id(text) or "") == 16
    assert all(value >= 0 for value in parse_properties(text).values())


def test_errors_are_counted_by_kind() -> None:
    assert parse_ras("ue: 2\nce: 17\n", "umc_err_count") == RasCounts(17, 2)
    assert parse_ras("ue: 2\nce: 17\nde: 3\n", "umc_err_count") == RasCounts(17, 2)
    assert parse_ras("", "umc_err_count") == RasCounts(None, None)
    with pytest.raises(SourceError):
        parse_ras("ue: many", "umc_err_count")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9246a1bc3d5e7f80\n", "9246a1bc3d5e7f80"),
        ("0x46A1BC3D5E7F80", "0046a1bc3d5e7f80"),
        ("0", None),
        ("0000000000000000", None),
        ("", None),
        ("N/A", None),
        ("9246a1bc3d5e7f80aa", None),
    ],
)
def test_a_unique_id_is_sixteen_digits(text: str, found: str | None) -> None:
    assert parse_unique_id(text) == found


def test_modes_of_partition() -> None:
    assert [partition_count(word) for word in ("SPX", "dpx", "CPX\n", "", "XYZ")] == [1, 2, 8, None, None]


def test_a_node_says_where_it_is() -> None:
    assert pci_of({"location_id": 0xC100, "domain": 1}) == ("0001:c1:00.0", 0)
    assert pci_of({"location_id": 0x3000_6503, "domain": 0}) == ("0000:65:00.3", 3)


def test_cards_of_other_drivers_are_a_guests(tmp_path: Path) -> None:
    tree = Tree()
    tree.amd("0000:c1:00.0", 1, 0x740F)
    tree.device("0000:c4:00.0", 0x1002, 0x740F, "vfio-pci", 2)
    tree.device("0000:c7:00.0", 0x10DE, 0x20B0, "nvidia", 3)
    tree.write(tmp_path)

    (card,) = find_cards(HostFS(tmp_path / "proc", tmp_path / "sys"), AMD, ("amdgpu",))

    assert (card.pci, card.card, card.render) == ("0000:c1:00.0", "card1", 129)


def test_who_computes_where(tmp_path: Path) -> None:
    tree = Tree()
    tree.kfd(1, 4711, "0000:c1:00.0", units=110)
    tree.runs(900, 4711, vram=3 * GIB, units=55)
    tree.put("sys/class/kfd/kfd/proc/901", pasid=7)
    tree.put("sys/class/kfd/kfd/topology/nodes/0", gpu_id=0, properties="cpu_cores_count 64")
    tree.write(tmp_path)
    fs = HostFS(tmp_path / "proc", tmp_path / "sys")

    (node,) = read_nodes(fs)
    found = read_processes(fs)
    assert found is not None
    busy, idle = found

    assert (node.gpu_id, node.pci, node.compute_units, node.memory_bytes) == (4711, "0000:c1:00.0", 110, 64 * GIB)
    assert busy.runs_on(4711)
    assert (busy.memory_bytes, busy.busy_compute_units) == ({4711: 3 * GIB}, {4711: 55})
    assert not idle.runs_on(4711)


def test_without_a_compute_driver_nobody_knows_who_computes(tmp_path: Path) -> None:
    fs = HostFS(tmp_path / "proc", tmp_path / "sys")

    assert read_nodes(fs) == []
    assert read_processes(fs) is None
