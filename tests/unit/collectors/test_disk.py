from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.recorded_hosts import Values, open_host, said, said_at_both_moments

from kwhere.collectors.disk import plugin
from kwhere.kernel.hostfs import HostFS


def devices(found: Values) -> set[str]:
    return {labels[0] for _, labels in found if labels}


def test_whole_disks_in_bytes() -> None:
    before, after = said_at_both_moments(plugin, open_host("laptop-psys-mmio"))

    assert devices(before) == {"nvme0n1"}
    assert before["kwhere_node_disk_read_bytes_total", ("nvme0n1",)] == 512_000_000
    assert after["kwhere_node_disk_read_bytes_total", ("nvme0n1",)] == 512_000_000 + 1_048_576
    assert after["kwhere_node_disk_write_bytes_total", ("nvme0n1",)] == 2_048_000_000 + 10_485_760
    assert after["kwhere_node_disk_busy_seconds_total", ("nvme0n1",)] == 40.5


def host(root: Path, *names: str) -> HostFS:
    (root / "diskstats").write_text("".join(f" 8 {i} {name} 1 2 3 4 5 6 7 8 9 10 11\n" for i, name in enumerate(names)))
    return HostFS(root, root / "sys", root)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sda", True), ("sda1", False), ("sdaa", True), ("sdaa12", False), ("vdb", True), ("vdb2", False),
        ("nvme0n1", True), ("nvme0n1p1", False), ("nvme10n2p15", False), ("mmcblk0", True), ("mmcblk0p2", False),
        ("loop0", False), ("loop12", False), ("ram0", False), ("zram0", False), ("dm-3", False), ("md127", False),
        ("sr0", False), ("xvda", True), ("xvda1", False),
    ],
)  # fmt: skip
def test_partitions_and_devices_without_data_of_their_own_are_left_out(tmp_path: Path, name: str, shown: bool) -> None:
    assert devices(said(plugin, host(tmp_path, name))) == ({name} if shown else set())


def test_sysfs_says_what_is_a_whole_disk(tmp_path: Path) -> None:
    (tmp_path / "sys" / "block" / "cciss!c0d0").mkdir(parents=True)

    assert devices(said(plugin, host(tmp_path, "cciss/c0d0", "cciss/c0d0p1"))) == {"cciss/c0d0"}


def test_many_disks_are_cut_and_their_number_is_told(tmp_path: Path) -> None:
    fs = host(tmp_path, *(f"sd{letter}" for letter in "ihgfedcba"))

    assert devices(said(plugin, fs)) == {"sda", "sdb"}
    assert said(plugin, fs)["kwhere_node_disks", ()] == 9
    assert len(devices(said(plugin, fs, limit=0))) == 9


def test_a_pattern_that_does_not_compile_is_refused_at_start() -> None:
    with pytest.raises(ValidationError, match="expected a regular expression"):
        plugin.settings_class(exclude="(")
