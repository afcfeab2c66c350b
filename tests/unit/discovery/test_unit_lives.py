"""What becomes known of a unit only after it began; units of several directories; readings that fail."""

from pathlib import Path

import pytest
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.core.errors import Unavailable
from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.detail import add_up
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import StepReading, UnitDetail
from kwhere.kernel.inotify import DirectoryWatch

VM = "11111111-2222-3333-4444-555555555501"
SCOPE = r"/machine.slice/machine-qemu\x2d1\x2dweb.scope"
HEX = "ab" * 32


@pytest.fixture
def tree(tmp_path: Path) -> FakeCgroups:
    return FakeCgroups(tmp_path)


def _step(tree: FakeCgroups, source: CgroupUnits, seconds: float = 1) -> StepReading:
    return source.step(tree.clock.tick(seconds))


def _settings(tmp_path: Path) -> UnitsSettings:
    return UnitsSettings(libvirt_xml_dirs=(tmp_path,), docker_dirs=(tmp_path,))


def _define(tmp_path: Path) -> None:
    (tmp_path / "web.xml").write_text(f"<domain id='1'><name>web</name><uuid>{VM}</uuid><vcpu>2</vcpu></domain>")


def test_a_vm_waits_for_its_uuid_and_loses_nothing(tree: FakeCgroups, tmp_path: Path) -> None:
    tree.put("/machine.slice", 0)
    source = tree.units(_settings(tmp_path))
    _step(tree, source)
    tree.put(SCOPE, 0.4, procs="1\n")
    assert _step(tree, source).started == []
    assert SCOPE in source.saved()
    _define(tmp_path)

    reading = _step(tree, source)

    (tracked,) = reading.started
    assert (tracked.key.unit, tracked.info.name, tracked.allocation.milli_cpus) == (VM, "web", 2000)
    assert tracked.from_creation
    assert reading.cpu[tracked.key].total_ns == 400_000_000
    source.close()


def test_a_vm_whose_uuid_nobody_tells_goes_by_its_name(tree: FakeCgroups, tmp_path: Path) -> None:
    tree.put(SCOPE, 0.4, procs="1\n")
    source = tree.units(_settings(tmp_path))
    assert _step(tree, source).started == []

    (tracked,) = _step(tree, source, 6).started

    assert tracked.key.unit == "web"
    _define(tmp_path)
    assert _step(tree, source, 70).started == []  # the run is taken once
    source.close()


def test_a_vm_that_ends_while_it_waits_is_told(tree: FakeCgroups, tmp_path: Path) -> None:
    tree.put("/machine.slice", 0)
    source = tree.units(_settings(tmp_path))
    _step(tree, source)
    tree.put(SCOPE, 0.4, procs="1\n")
    _step(tree, source)
    tree.remove(SCOPE)

    reading = _step(tree, source)

    assert [t.key.unit for t in reading.started] == ["web"]
    assert [t.key.unit for t in reading.ended] == ["web"]
    source.close()


def test_a_stand_in_stays_after_a_restart(tree: FakeCgroups, tmp_path: Path) -> None:
    tree.put(SCOPE, 0.4, procs="1\n")
    before = tree.units(_settings(tmp_path))
    _step(tree, before)
    (old,) = _step(tree, before, 6).started
    before.close()
    _define(tmp_path)
    after = tree.units(_settings(tmp_path))

    after.restore(before.saved(), {old.inode or 0: old.key.run})

    assert [t.key for t in _step(tree, after).started] == [old.key]
    after.close()


def test_names_that_come_later_are_taken_in(tree: FakeCgroups, tmp_path: Path) -> None:
    tree.put(f"/docker/{HEX}", 1, procs="1\n")
    source = tree.units(_settings(tmp_path))
    (tracked,) = _step(tree, source).started
    assert tracked.info.name is None
    config = tmp_path / "containers" / HEX / "config.v2.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"Name": "/web"}')

    assert _step(tree, source, 3).started == []

    assert source.live()[tracked.key].info.name == "web"
    config.unlink()
    _step(tree, source, 10)
    assert source.live()[tracked.key].info.name == "web"
    source.close()


@pytest.mark.parametrize(
    ("weights", "limits", "expected"),
    [
        (("39", "79"), (f"{1 << 30}", f"{2 << 30}"), (975 + 1999, 3 << 30)),
        (("39", "1"), (f"{1 << 30}", "max"), (975, None)),
        (("1", "1"), ("max", "max"), (None, None)),
    ],
)
def test_containers_of_one_pod_hold_together_what_each_was_given(
    tree: FakeCgroups, weights: tuple[str, str], limits: tuple[str, str], expected: tuple[int | None, int | None]
) -> None:
    for number, (weight, limit) in enumerate(zip(weights, limits, strict=True)):
        path = f"/system.slice/containerd.service/kubepods-pod8bb3a0a5_7ea8.slice:cri-containerd:{str(number) * 64}"
        tree.put(path, 1, procs="1\n", cpu__weight=weight, memory__max=limit)
    source = tree.units()
    source.step(tree.clock.tick(1))

    (tracked,) = [unit for unit in source.live().values() if unit.key.manager == "kubernetes"]

    assert (tracked.allocation.milli_cpus, tracked.allocation.memory_bytes) == expected
    source.close()


def test_the_full_reading_of_several_directories_is_their_sum(tree: FakeCgroups) -> None:
    tree.put("/system.slice", 3, procs="1\n", memory__current="100\n")
    tree.put("/user.slice", 4, procs="1\n2\n", memory__current="10\n")
    tree.put("/system.slice/kubelet.service", 1, procs="1\n")
    source = tree.units()
    (tracked,) = _step(tree, source).started

    detail = source.detail(tracked.key)

    assert (detail.memory_current_bytes, detail.memory_peak_bytes) == (110, None)
    assert detail.cpu_user_ns == 7_000_000_000
    source.close()


def test_sums_leave_unknown_alone() -> None:
    first = UnitDetail(memory_current_bytes=5, pressure_us={("cpu", "some"): 7})
    second = UnitDetail(memory_current_bytes=6, oom_kills=1, pressure_us={("cpu", "some"): 9})

    assert add_up([first, second]) == UnitDetail(memory_current_bytes=11, oom_kills=1, pressure_us={("cpu", "some"): 9})


def test_a_damaged_parent_keeps_its_last_reading_and_a_lost_one_goes(tree: FakeCgroups) -> None:
    tree.put("/docker", 5)
    tree.put("/kubepods", 6)
    source = tree.units()
    _step(tree, source)
    (tree.root / "docker" / "cpu.stat").write_text("garbage")
    tree.remove("/kubepods")

    reading = _step(tree, source)

    assert {p.cgroup: p.reading.total_ns for p in reading.parents} == {"/docker": 5_000_000_000, "/": 0}
    source.close()


def test_a_unit_that_may_not_be_read_stays_and_keeps_its_reading(tree: FakeCgroups) -> None:
    tree.put(f"/docker/{HEX}", 1, procs="1\n")
    source = tree.units()
    (tracked,) = _step(tree, source).started
    stat = tree.root / "docker" / HEX / "cpu.stat"
    stat.unlink()
    stat.mkdir()  # cannot be read as a file, and yet the cgroup is there

    source._book.units[tracked.key].members[0].close()
    reading = _step(tree, source)

    assert reading.ended == []
    assert reading.cpu[tracked.key].total_ns == 1_000_000_000
    source.close()


def test_without_inotify_the_scan_serves(tree: FakeCgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: DirectoryWatch, clock: object = None) -> None:
        raise Unavailable("limit", "inotify: cannot be watched")

    monkeypatch.setattr(DirectoryWatch, "__init__", refuse)
    source = tree.units()
    _step(tree, source)
    tree.put(f"/docker/{HEX}", 1, procs="1\n")

    assert _step(tree, source).started == []
    assert [t.key.unit for t in _step(tree, source, 60).started] == [HEX]
    source.close()


def test_directories_of_any_name_do_no_harm(tree: FakeCgroups) -> None:
    odd = tree.root / "docker" / "a b\n;"
    odd.mkdir(parents=True)
    bad = tree.root.joinpath("system.slice", b"x\xff.service".decode(errors="surrogateescape"))
    bad.mkdir(parents=True)
    (bad / "cpu.stat").write_text("usage_usec 1\n")
    source = tree.units()

    (tracked,) = _step(tree, source).started

    assert tracked.key.unit == "x%FF.service"
    assert tracked.info.name == "x\ufffd.service"
    assert all(name.encode() for name in source.saved())
    source.close()


def test_services_fold_when_a_resource_manager_comes_later(tree: FakeCgroups) -> None:
    tree.put("/system.slice", 4, procs="1\n")
    tree.put("/system.slice/nginx.service", 3, procs="1\n")
    tree.put("/user.slice/user-1.slice/session-1.scope", 1, procs="1\n")
    tree.put("/user.slice", 1, procs="1\n")
    source = tree.units()
    assert {t.key.unit for t in _step(tree, source).started} == {"nginx.service", "1"}
    tree.put("/system.slice/kubelet.service", 0, procs="1\n")

    reading = _step(tree, source)

    assert {t.key.unit for t in reading.ended} == {"nginx.service", "1"}
    assert [(t.key.unit, t.from_creation) for t in reading.started] == [("services", False)]
    assert {key.unit: found.total_ns / 1e9 for key, found in reading.cpu.items()} == {"services": 5}
    tree.put("/system.slice/new.service", 1, procs="1\n")
    assert _step(tree, source).started == []
    source.close()


def test_a_unit_lives_on_in_the_other_hierarchy(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, hybrid=True)
    for hierarchy, seconds in (("cpuacct", 3), ("unified", 5)):
        tree.put("/oar/alice_1", seconds, hierarchy=hierarchy, procs="1\n")
    source = tree.units()
    (first,) = _step(tree, source).started
    tree.remove("/oar/alice_1", hierarchy="cpuacct")

    reading = _step(tree, source)

    assert [t.key.unit for t in reading.ended] == ["1"]
    (again,) = reading.started
    assert not again.from_creation
    assert reading.cpu[again.key].total_ns == 5_000_000_000
    assert first.key.unit == again.key.unit
    tree.remove("/oar/alice_1", hierarchy="unified")
    assert [t.key for t in _step(tree, source).ended] == [again.key]
    source.close()


def test_both_hierarchies_going_at_once_is_one_end(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, hybrid=True)
    for hierarchy in ("cpuacct", "unified"):
        tree.put("/oar/alice_1", 3, hierarchy=hierarchy, procs="1\n")
    source = tree.units()
    _step(tree, source)
    for hierarchy in ("cpuacct", "unified"):
        tree.remove("/oar/alice_1", hierarchy=hierarchy)

    reading = _step(tree, source)

    assert len(reading.ended) == 1
    assert reading.started == []
    assert source.live() == {}
    source.close()


def test_mounts_and_sockets_are_no_parents(tree: FakeCgroups) -> None:
    tree.put("/dev-hugepages.mount", 1)
    tree.put("/docker", 1)
    source = tree.units()

    assert [parent.cgroup for parent in _step(tree, source).parents] == ["/docker", "/"]
    source.close()


def test_lives_of_one_name_within_a_second_are_numbered(tree: FakeCgroups) -> None:
    source = tree.units()
    _step(tree, source)
    for _ in range(3):
        tree.put("/kwhere-run-x", 0.1)
        tree.remove("/kwhere-run-x")

    ended = [tracked.key for tracked in _step(tree, source).ended]

    (first, *others) = sorted(key.run for key in ended)
    assert {key.unit for key in ended} == {"x"}
    assert others == [f"{first}.2", f"{first}.3"]
    source.close()
