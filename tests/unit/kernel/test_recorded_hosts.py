import os
from pathlib import Path

import pytest
from tests.fixtures.hosts.build import HOSTS, RECIPES, build
from tests.recorded_hosts import open_host

from kwhere.core.errors import SourceError
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import boot_id, product_uuid, read_cpu_model
from kwhere.kernel.recorded import RecordedClock, clock_of
from kwhere.kernel.stat import StatFile
from kwhere.kernel.topology import read_topology

NAMES = sorted(make().machine.name for make in RECIPES)


def contents(root: Path) -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def test_the_checked_in_trees_are_what_the_script_builds(tmp_path: Path) -> None:
    build(tmp_path)

    for name in NAMES:
        assert contents(HOSTS / name) == contents(tmp_path / name)


@pytest.mark.parametrize("name", NAMES)
def test_ten_seconds_lie_between_the_moments(name: str) -> None:
    fs = open_host(name)
    clock = clock_of(fs)
    readings = []
    for moment in (0, 1):
        fs.select_snapshot(moment)
        readings.append((clock.monotonic_ns(), clock.boottime_ns(), clock.utc_ns()))

    assert [after - before for before, after in zip(*readings, strict=True)] == [10_000_000_000] * 3
    assert readings[0] == (86_400 * 10**9, 86_400 * 10**9, (1_795_000_000 + 86_400) * 10**9)


@pytest.mark.parametrize("name", NAMES)
def test_every_cpu_spent_ten_seconds_in_some_mode(name: str) -> None:
    fs = open_host(name)
    stat = StatFile(fs)
    before = stat.read()
    fs.select_snapshot(1)
    after = stat.read()
    stat.close()

    spent = {cpu: after.cpus[cpu].total - before.cpus[cpu].total for cpu in after.cpus}

    assert set(spent.values()) == {1000}
    assert tuple(spent) == read_topology(fs).online


@pytest.mark.parametrize("name", NAMES)
def test_no_group_used_more_than_the_host(name: str) -> None:
    recipe = next(make() for make in RECIPES if make().machine.name == name)

    used_ms = sum(g.user_ms[1] - g.user_ms[0] + g.system_ms[1] - g.system_ms[0] for g in recipe.groups)

    assert 0 < used_ms <= sum(cpu.busy for cpu in recipe.machine.cpus) * 10


@pytest.mark.parametrize("name", NAMES)
def test_every_host_is_another_one(name: str) -> None:
    others = [open_host(other) for other in NAMES if other != name]

    assert boot_id(open_host(name)) not in {boot_id(other) for other in others}
    assert product_uuid(open_host(name)) not in {product_uuid(other) for other in others}


@pytest.mark.parametrize(
    ("name", "sockets", "cpus_of_last"),
    [
        ("xeon-2s-dram", ("0", "1"), (1, 3, 5, 7, 9, 11, 13, 15)),
        ("cascade-lake-ap", ("0", "1"), (4, 5, 6, 7)),
        ("laptop-psys-mmio", ("0",), (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_topology(name: str, sockets: tuple[str, ...], cpus_of_last: tuple[int, ...]) -> None:
    topology = read_topology(open_host(name))

    assert topology.sockets == sockets
    assert topology.cpus_of(sockets[-1]) == cpus_of_last
    assert topology.socket_of(cpus_of_last[0]) == sockets[-1]
    assert topology.socket_of(99) is None


def test_the_processor_is_known_by_family() -> None:
    found = read_cpu_model(open_host("epyc-zen2-mirror"))

    assert (found.vendor, found.family, found.model) == ("AuthenticAMD", 23, 49)
    assert found.name == "AMD EPYC 7402P 24-Core Processor"


def test_a_cgroup_keeps_its_inode_across_the_moments() -> None:
    fs = open_host("xeon-2s-dram")
    before = {entry.name: entry.inode for entry in fs.scan_dir("cgroup/system.slice")}

    fs.select_snapshot(1)

    assert {entry.name: entry.inode for entry in fs.scan_dir("cgroup/system.slice")} == before
    assert fs.inode("cgroup/system.slice/sshd.service") == before["sshd.service"]
    assert len(set(before.values())) == len(before)


def test_the_clock_of_a_plain_tree_stands_still(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "uptime").write_text("12.34 1.00\n")
    fs = HostFS(tmp_path / "proc", tmp_path, tmp_path)
    clock = RecordedClock(fs)

    fs.select_snapshot(1)

    assert clock.monotonic_ns() == 12_340_000_000
    assert clock.utc_ns() == 12_340_000_000
    (tmp_path / "proc" / "stat").write_text("cpu 1 2 3 4\nbtime 1000\n")
    assert clock.utc_ns() == 1_012_340_000_000


def test_a_tree_without_uptime_stands_at_its_boot_and_nonsense_is_refused(tmp_path: Path) -> None:
    clock = RecordedClock(HostFS(tmp_path, tmp_path, tmp_path))

    assert (clock.monotonic_ns(), clock.utc_ns()) == (0, 0)
    (tmp_path / "uptime").write_text("soon\n")
    with pytest.raises(SourceError, match="uptime: expected"):
        clock.monotonic_ns()
