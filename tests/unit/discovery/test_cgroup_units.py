"""Cgroup units on trees written by hand: found, followed, ended, restored."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.discovery.fake_cgroups import FakeCgroups

from kwhere.core.errors import NoData
from kwhere.core.unit import Allocation
from kwhere.discovery.cgroup_units import CgroupUnits
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import StepReading

HEX = "ab" * 32
UID = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
UID_ = UID.replace("-", "_")
SCOPE = "/slurmstepd.scope"
JOB = f"{SCOPE}/job_42"
SECOND_NS = 1_000_000_000


@pytest.fixture
def tree(tmp_path: Path) -> FakeCgroups:
    return FakeCgroups(tmp_path)


@pytest.fixture
def opened() -> Iterator[list[CgroupUnits]]:
    sources: list[CgroupUnits] = []
    yield sources
    for source in sources:
        source.close()


def _seconds(reading: StepReading) -> dict[str, float]:
    return {key.unit: found.total_ns / SECOND_NS for key, found in reading.cpu.items()}


def _parents(reading: StepReading) -> dict[str, float]:
    return {parent.cgroup: parent.reading.total_ns / SECOND_NS for parent in reading.parents}


def _step(tree: FakeCgroups, source: CgroupUnits, seconds: float = 1) -> StepReading:
    return source.step(tree.clock.tick(seconds))


def test_what_stands_at_start_is_found_with_its_present_reading(tree: FakeCgroups) -> None:
    tree.put(SCOPE, 10)
    tree.put(JOB, 7, procs="1\n")
    source = tree.units()

    reading = _step(tree, source)

    assert _seconds(reading) == {"42": 7}
    assert _parents(reading) == {SCOPE: 10, "/": 0}
    assert [(p.mixed, p.unit) for p in reading.parents] == [(False, None), (True, None)]
    (tracked,) = reading.started
    assert (tracked.from_creation, tracked.counts_from_ns) == (False, None)
    assert (tracked.cgroup, tracked.parent_cgroup) == (JOB, SCOPE)
    assert tracked.inode == (tree.root / JOB[1:]).stat().st_ino
    source.close()


def test_a_unit_made_while_we_look_counts_from_zero(tree: FakeCgroups) -> None:
    tree.put(SCOPE, 0)
    source = tree.units()
    _step(tree, source)
    last_ns = tree.clock.now_ns
    tree.put(JOB, 0.5, procs="1\n")

    (tracked,) = _step(tree, source).started

    assert (tracked.from_creation, tracked.counts_from_ns) == (True, last_ns)
    assert tracked.key.run == "42@1000102"  # the second at which the event was taken in
    source.close()


def test_create_and_delete_alone_make_a_unit(tree: FakeCgroups) -> None:
    tree.put("/kubepods.slice", 0)
    source = tree.units()
    _step(tree, source)
    pod = f"/kubepods.slice/kubepods-pod{UID_}.slice"
    tree.put(pod, 0.2, procs="1\n")
    tree.put("/kubepods.slice", 0.2)
    tree.remove(pod)

    reading = _step(tree, source)

    assert [t.key.unit for t in reading.started] == [UID]
    assert [t.key.unit for t in reading.ended] == [UID]
    assert reading.cpu == {}
    assert _parents(reading)["/kubepods.slice"] == 0.2
    assert source.live() == {}
    source.close()


def test_a_unit_that_ended_leaves_its_rest_in_the_parent(tree: FakeCgroups) -> None:
    tree.put("/docker", 5)
    tree.put(f"/docker/{HEX}", 4, procs="1\n")
    source = tree.units()
    _step(tree, source)
    tree.put("/docker", 6)
    tree.remove(f"/docker/{HEX}")

    reading = _step(tree, source)

    assert [t.key.unit for t in reading.ended] == [HEX]
    assert _parents(reading) == {"/docker": 6, "/": 0}
    source.close()


def test_case_ceems_380_a_left_over_cgroup_is_no_unit(tree: FakeCgroups) -> None:
    tree.put(f"{JOB}/step_0", 7)
    tree.put(JOB, 7)
    source = tree.units()

    assert _step(tree, source).started == []
    assert source.live() == {}
    source.close()


def test_case_ceems_382_a_job_that_leaves_its_cgroup_behind_ends(tree: FakeCgroups) -> None:
    tree.put(SCOPE, 0)
    source = tree.units()
    _step(tree, source)
    tree.put(JOB, 1, procs="1\n")
    _step(tree, source)
    tree.put(JOB, 2)
    assert _step(tree, source).ended == []
    assert _step(tree, source, 5).ended == []

    gone = _step(tree, source, 6)

    assert [t.key.unit for t in gone.ended] == ["42"]
    assert _seconds(gone) == {"42": 2}  # with its last reading
    assert source.live() == {}
    source.close()


def test_case_ceems_382_work_that_comes_back_is_the_same_run(tree: FakeCgroups) -> None:
    tree.put(JOB, 1, procs="1\n")
    source = tree.units()
    (first,) = _step(tree, source).started
    tree.put(JOB, 1)
    _step(tree, source, 11)
    assert source.live() == {}
    tree.put(JOB, 1.5, procs="1\n")

    (again,) = _step(tree, source).started

    assert again.key == first.key
    assert not again.from_creation
    source.close()


def test_a_copied_tree_without_process_lists_is_taken_as_living(tree: FakeCgroups) -> None:
    tree.put(JOB, 7, procs=None)
    source = tree.units(live=False)

    assert [t.key.unit for t in _step(tree, source).started] == ["42"]


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_case_ceems_284_several_slurmd_on_one_host(tree: FakeCgroups, name: str) -> None:
    for node in ("n1", "n2"):
        tree.put(f"/{node}_slurmstepd.scope/job_42", 1, procs="1\n")
    source = tree.units(live=False)

    units = {t.info.node_name: t for t in _step(tree, source).started}

    assert units[name].key.unit == "42"
    assert units[name].key.run.endswith(f".{name}")
    assert len({t.key for t in units.values()}) == 2


def test_case_ceems_289_several_slurmd_on_v1(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, v1=True)
    for node in ("host0", "host1"):
        tree.put(f"/slurm_{node}/uid_1000/job_7", 3, procs="1\n")
    source = tree.units(live=False)

    reading = _step(tree, source)

    assert sorted((t.info.node_name or "", t.uid or 0) for t in reading.started) == [("host0", 1000), ("host1", 1000)]
    assert sorted(_parents(reading)) == ["/", "/slurm_host0", "/slurm_host1"]


def test_case_energy_c16_a_vm_is_read_once_through_its_scope(tree: FakeCgroups) -> None:
    scope = r"/machine.slice/machine-qemu\x2d3\x2dinstance\x2d00000008.scope"
    tree.put(scope, 9, procs="1\n")
    for below in ("libvirt", "libvirt/emulator", "libvirt/vcpu0"):
        tree.put(f"{scope}/{below}", 3, procs="1\n")
    source = tree.units(live=False)

    assert _seconds(_step(tree, source)) == {"instance-00000008": 9}
    (tracked,) = source.live().values()
    assert tracked.allocation == Allocation(milli_cpus=1000)


def test_case_energy_c9_containers_of_one_pod_are_one_unit(tree: FakeCgroups) -> None:
    service = "/system.slice/containerd.service"
    tree.put(service, 20, procs="1\n")
    for number, seconds in (("1", 4), ("2", 3)):
        tree.put(f"{service}/kubepods-burstable-pod{UID_}.slice:cri-containerd:{number * 64}", seconds, procs="1\n")
    source = tree.units()
    reading = _step(tree, source)
    assert _seconds(reading)[UID] == 7
    assert {p.cgroup: p.mixed for p in reading.parents}[service] is True
    tree.remove(f"{service}/kubepods-burstable-pod{UID_}.slice:cri-containerd:{'1' * 64}")

    after = _step(tree, source)

    assert _seconds(after)[UID] == 7  # what the first container used stays with the pod
    assert after.ended == []
    source.close()


def test_case_energy_c4_a_pod_of_kind_lies_in_its_node(tree: FakeCgroups) -> None:
    node = f"/system.slice/docker-{HEX}.scope"
    pod = f"{node}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice"
    tree.put(node, 10, procs="1\n")
    tree.put(pod, 6, procs="1\n")
    source = tree.units(live=False)

    reading = _step(tree, source)

    by_unit = {t.key.unit: t for t in reading.started}
    assert by_unit[UID].outer == by_unit[HEX].key
    assert by_unit[HEX].outer == by_unit["services"].key
    assert _seconds(reading)[HEX] == 10
    assert f"{node}/kubelet.slice/kubelet-kubepods.slice" not in _parents(reading)


def test_a_slurm_node_in_a_pod_shows_its_jobs(tree: FakeCgroups) -> None:
    pod = f"/kubepods/burstable/pod{UID}"
    job = f"{pod}/{HEX}/system.slice/slurmstepd.scope/job_42"
    tree.put(pod, 9, procs="1\n")
    tree.put(job, 6, procs="1\n")
    source = tree.units(live=False)

    reading = _step(tree, source)

    by_unit = {t.key.unit: t for t in reading.started}
    assert _seconds(reading) == {UID: 9, "42": 6}
    assert by_unit["42"].outer == by_unit[UID].key


def test_services_and_sessions_are_units_on_a_desktop(tree: FakeCgroups) -> None:
    app = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-1.scope"
    for path in ("/system.slice/nginx.service", "/user.slice/user-1000.slice/session-3.scope", app):
        tree.put(path, 1, procs="1\n")
    tree.put("/user.slice/user-1000.slice/user@1000.service", 2, procs="1\n")
    source = tree.units(live=False)

    reading = _step(tree, source)

    units = {(t.key.manager, t.key.unit): t for t in reading.started}
    assert ("systemd", "nginx.service") in units
    assert ("session", "3") in units
    assert units["systemd", "app-firefox-1.scope"].outer == units["systemd", "user@1000.service"].key
    assert units["session", "3"].info.user == "1000"


def test_services_and_sessions_fold_where_a_resource_manager_rules(tree: FakeCgroups) -> None:
    tree.put("/system.slice", 50, procs="1\n")
    tree.put("/system.slice/nginx.service", 3, procs="1\n")
    tree.put("/system.slice/slurmd.service", 2, procs="1\n")
    tree.put(JOB, 7, procs="1\n")
    tree.put(SCOPE, 7.5, procs="1\n")
    tree.put("/user.slice", 9, procs="1\n")
    tree.put("/user.slice/user-1000.slice/session-3.scope", 4, procs="1\n")
    source = tree.units(live=False)

    reading = _step(tree, source)

    assert _seconds(reading) == {"services": 59, "42": 7}
    assert {t.key.unit: t.cgroup for t in reading.started} == {"services": "/system.slice", "42": JOB}
    assert set(_parents(reading)) == {"/system.slice/slurmd.service", SCOPE, "/"}
    assert "services@1000000" in {key.run for key in source.live()}


def test_units_in_the_second_slice_of_services_are_taken_out_of_it(tree: FakeCgroups) -> None:
    container = f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{HEX}.scope"
    tree.put("/system.slice", 10, procs="1\n")
    tree.put("/system.slice/kubelet.service", 1, procs="1\n")
    tree.put("/user.slice", 5, procs="1\n")
    tree.put(container, 2, procs="1\n")
    source = tree.units()
    _step(tree, source)
    tree.put("/user.slice", 8)
    tree.put(container, 4.5, procs="1\n")

    second = _step(tree, source)

    assert _seconds(second) == {"services": 15.5, HEX: 4.5}  # 3 s in the slice, 2.5 of them the container's
    source.close()


def test_managers_asked_for_by_name_do_not_fold(tree: FakeCgroups) -> None:
    tree.put("/system.slice/nginx.service", 3, procs="1\n")
    tree.put("/system.slice/slurmd.service", 2, procs="1\n")
    tree.put(JOB, 7, procs="1\n")
    tree.put(f"/docker/{HEX}", 1, procs="1\n")
    source = tree.units(UnitsSettings(managers=("slurm", "systemd")), live=False)

    assert set(_seconds(_step(tree, source))) == {"42", "nginx.service"}


def test_hybrid_hosts_find_units_in_either_hierarchy(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, hybrid=True)
    tree.put("/slurm/uid_1/job_5", 3, procs="1\n")
    tree.put("/slurm/uid_1/job_5", 2.9, hierarchy="unified", procs="1\n")
    tree.put("/machine/qemu-1-web.libvirt-qemu", 4, hierarchy="unified", procs="1\n")
    source = tree.units(live=False)

    reading = _step(tree, source)

    assert _seconds(reading) == {"5": 3, "web": 4}
    assert set(_parents(reading)) == {"/slurm", "/machine", "/"}


def test_what_was_absent_from_the_last_scan_counts_from_zero(tree: FakeCgroups) -> None:
    source = tree.units(UnitsSettings(max_watches=0, rescan_seconds=60))
    _step(tree, source)
    scanned_ns = tree.clock.now_ns
    tree.put(JOB, 0.5, procs="1\n")
    assert _step(tree, source).started == []

    (tracked,) = _step(tree, source, 60).started

    assert (tracked.from_creation, tracked.counts_from_ns) == (True, scanned_ns)
    source.close()


def test_a_restart_knows_the_runs_and_what_is_new(tree: FakeCgroups) -> None:
    tree.put(JOB, 7, procs="1\n")
    before = tree.units()
    (old,) = _step(tree, before).started
    saved = before.saved()
    before.close()
    tree.put(f"{SCOPE}/job_43", 2, procs="1\n")
    tree.clock.tick(100)
    after = tree.units()

    after.restore(saved, {old.inode or 0: old.key.run})
    units = {t.key.unit: t for t in _step(tree, after).started}

    assert units["42"].key == old.key
    assert not units["42"].from_creation
    assert units["43"].from_creation
    assert units["43"].counts_from_ns is None
    after.close()


def test_a_directory_made_again_is_another_run(tree: FakeCgroups) -> None:
    tree.put(JOB, 7, procs="1\n")
    source = tree.units()
    (first,) = _step(tree, source).started
    tree.remove(JOB)
    tree.put(JOB, 0.1, procs="1\n")

    reading = _step(tree, source, 5)

    assert [t.key for t in reading.ended] == [first.key]
    assert reading.started[0].key.unit == "42"
    assert reading.started[0].key.run != first.key.run
    assert reading.started[0].from_creation
    source.close()


def test_two_runs_within_one_second_are_two(tree: FakeCgroups) -> None:
    tree.put(SCOPE, 0)
    source = tree.units()
    _step(tree, source)
    tree.put(JOB, 0, procs="1\n")
    tree.remove(JOB)
    tree.put(JOB, 0, procs="1\n")

    reading = _step(tree, source)

    assert len({t.key for t in reading.started}) == 2
    assert len(reading.ended) == 1
    source.close()


@pytest.mark.parametrize("text", ["", "garbage", "usage_usec\n", "usage_usec -5\n", "x" * 3_000_000], ids=len)
def test_a_damaged_reading_costs_only_its_own_unit(tree: FakeCgroups, text: str) -> None:
    tree.put(f"/docker/{HEX}", 1, procs="1\n")
    tree.put(JOB, 7, procs="1\n")
    source = tree.units()
    _step(tree, source)
    (tree.root / JOB[1:] / "cpu.stat").write_text(text)
    tree.put(f"/docker/{HEX}", 2, procs="1\n")

    assert _seconds(_step(tree, source)) == {"42": 7, HEX: 2}
    tree.put(JOB, 9, procs="1\n")
    assert _seconds(_step(tree, source)) == {"42": 9, HEX: 2}
    source.close()


def test_a_reading_never_goes_back(tree: FakeCgroups) -> None:
    tree.put(JOB, 7, procs="1\n")
    source = tree.units()
    _step(tree, source)
    tree.put(JOB, 6, procs="1\n")

    assert _seconds(_step(tree, source)) == {"42": 7}
    source.close()


def test_full_reading_of_a_unit_and_of_one_that_is_gone(tree: FakeCgroups) -> None:
    tree.put(JOB, 7, procs="1\n", memory__current="4096\n", memory__max="max\n")
    tree.put(f"{JOB}/step_0", 7, procs="2\n3\n")
    source = tree.units()
    (tracked,) = _step(tree, source).started

    detail = source.detail(tracked.key)

    assert (detail.memory_current_bytes, detail.memory_limit_bytes, detail.processes) == (4096, None, 3)
    assert (detail.cpu_user_ns, detail.cpu_system_ns) == (7 * SECOND_NS, 0)
    tree.remove(JOB)
    _step(tree, source)
    with pytest.raises(NoData):
        source.detail(tracked.key)
    source.close()


def test_a_site_rule_makes_units_of_its_manager(tree: FakeCgroups) -> None:
    settings = UnitsSettings.model_validate(
        {"site_rules": [{"manager": "lsf", "pattern": r"^/lsf/(?P<host>[^/]+)/job\.(?P<unit>\d+)"}]}
    )
    tree.put("/lsf/c1/job.77/sub", 1, procs="1\n")
    tree.put("/lsf/c1/job.77", 1, procs="1\n")
    source = tree.units(settings, live=False)

    (tracked,) = _step(tree, source).started

    assert (tracked.key.manager, tracked.key.unit, tracked.info.node_name) == ("lsf", "77", "c1")


def test_owned_paths_are_told(tree: FakeCgroups) -> None:
    tree.put(JOB, 1, procs="1\n")
    tree.put("/system.slice/containerd.service", 1, procs="1\n")
    source = tree.units(live=False)
    _step(tree, source)

    assert source.owns(f"{JOB}/step_0/user/task_0")
    assert source.owns("/system.slice/containerd.service")
    assert not source.owns("/")
    assert source.owns("/system.slice/nginx.service")  # SLURM rules: folded into `services`
    assert not source.owns("/kubepods")
