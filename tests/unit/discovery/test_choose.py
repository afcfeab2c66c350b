"""Which sources a host gets."""

from pathlib import Path

import pytest
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.process_units import ProcessUnits
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.cgroups import CgroupVersion
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import clock_of

SERVICE = "0::/system.slice/nginx.service\n"
HOSTS = Path(__file__).parents[2] / "fixtures" / "hosts"


def _sources(tree: FakeCgroups, **settings: object) -> list[str]:
    sources = open_unit_sources(tree.proc.host, UnitsSettings.model_validate(settings), tree.clock)
    for source in sources:
        source.close()
    return [type(source).__name__ for source in sources]


@pytest.mark.parametrize(("cgroups", "settings", "expected"), [
    ([SERVICE, SERVICE, "0::/\n"], {}, ["CgroupUnits"]),
    (["0::/\n", "0::/\n", SERVICE], {}, ["CgroupUnits", "ProcessUnits"]),
    ([SERVICE], {"processes": "on"}, ["CgroupUnits", "ProcessUnits"]),
    (["0::/\n"], {"processes": "off"}, ["CgroupUnits"]),
    (["0::/\n"], {"managers": ["slurm"]}, ["CgroupUnits"]),
    (["0::/\n"], {"managers": ["slurm", "process"]}, ["CgroupUnits", "ProcessUnits"]),
    ([], {}, ["CgroupUnits", "ProcessUnits"]),
    (["3:name=systemd:/system.slice/nginx.service\n1:cpuacct:/\n0::/\n"], {}, ["CgroupUnits", "ProcessUnits"]),
    (["4:memory:/process_api/x\n1:cpuacct:/\n0::/\n"], {}, ["CgroupUnits", "ProcessUnits"]),
])  # fmt: skip
def test_process_groups_come_in_where_cgroups_are_of_no_use(
    tmp_path: Path, cgroups: list[str], settings: dict[str, object], expected: list[str]
) -> None:
    tree = FakeCgroups(tmp_path)
    for number, cgroup in enumerate(cgroups):
        tree.proc.process(100 + number, "x", start=1, cgroup=cgroup)
    tree.proc.process(2, "kthreadd", start=1, flags=0x200000)

    assert _sources(tree, **settings) == expected


def test_without_cgroups_there_are_processes(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)
    (tree.root / "cgroup.controllers").unlink()

    assert _sources(tree) == ["ProcessUnits"]
    assert _sources(tree, processes="off") == []


def test_a_version_that_is_not_there_leaves_processes(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)

    (source,) = open_unit_sources(tree.proc.host, UnitsSettings(), tree.clock, cgroups_version=CgroupVersion.V1)

    assert isinstance(source, ProcessUnits)


def test_a_process_is_accounted_by_one_source_only(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)
    tree.put("/kwhere-run-1-2", 1, procs="101\n")
    tree.proc.process(100, "bash", start=1)
    tree.proc.process(101, "stress", start=2, cgroup="0::/kwhere-run-1-2\n")
    tree.proc.process(102, "bash", start=3)
    cgroups, processes = open_unit_sources(tree.proc.host, UnitsSettings(), tree.clock)
    assert isinstance(cgroups, CgroupUnits)
    assert isinstance(processes, ProcessUnits)

    units = [key.unit for source in (cgroups, processes) for key in source.step(tree.clock.tick(1)).cpu]

    assert units == ["1-2", "1000:bash"]


@pytest.mark.parametrize(("host", "used"), [
    # seconds of CPU between the two moments, by hand in each host's README
    ("libvirt-v2", {"57f2d45e-8ddf-4338-91df-62d0044ff1b5": 16.0, "b674a0a2-c300-4dc6-8c9c-65df16da6d69": 2.0}),
    ("oar-v1", {"1234": 18.0, "1235": 6.0}),
])  # fmt: skip
def test_recorded_hosts_turn_to_their_second_moment(host: str, used: dict[str, float]) -> None:

    base = HOSTS / host
    fs = HostFS(base / "proc", base / "sys", base / "cgroup")
    clock = clock_of(fs)
    source = open_unit_sources(fs, UnitsSettings(libvirt_xml_dirs=(base / "libvirt",)), clock)[0]
    first = source.step(clock.boottime_ns())

    fs.select_snapshot(1)
    second = source.step(clock.boottime_ns())

    gained = {key.unit: (second.cpu[key].total_ns - found.total_ns) / 1e9 for key, found in first.cpu.items()}
    assert {unit: gained[unit] for unit in used} == used
    assert (second.started, second.ended) == ([], [])
