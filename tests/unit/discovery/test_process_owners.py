"""Units by `/proc/PID/cgroup` alone, where no CPU time can be read from their own directories."""

from pathlib import Path

import pytest
from tests.unit.discovery.fake_cgroups import FakeCgroups
from tests.unit.discovery.fake_proc import BOOT_SECONDS, FakeProc

from kwhere.core.unit import UnitKey
from kwhere.discovery.choose import open_unit_sources
from kwhere.discovery.process_owners import ProcessOwners
from kwhere.discovery.process_units import ProcessUnits
from kwhere.discovery.settings import ProcessMode, UnitsSettings
from kwhere.discovery.unit_source import CpuReading, StepReading
from kwhere.kernel.recorded import clock_of

TICK_NS = 10_000_000
POD_A, POD_B = "8bb3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f", "9cc3a0a5-7ea8-4bc1-b1d4-1a2b3c4d5e6f"
C1, C2 = "0a" * 32, "1b" * 32
JOB = "/slurm/uid_1000/job_42"


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def _units(proc: FakeProc, **settings: object) -> ProcessUnits:
    owners = ProcessOwners(proc.host, UnitsSettings.model_validate(settings))
    return ProcessUnits(proc.host, clock_of(proc.host), owners=owners)


def _ticks(reading: StepReading) -> dict[tuple[str, str], int]:
    return {(key.manager, key.unit): found.total_ns // TICK_NS for key, found in reading.cpu.items()}


def test_case_energy_c24_a_pid_used_again_in_another_pod(proc: FakeProc) -> None:
    proc.process(100, "a", start=1000, user=500, cgroup=f"0::/kubepods/pod{POD_A}/{C1}\n")
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(100, "b", start=10150, user=3, cgroup=f"0::/kubepods/burstable/pod{POD_B}/{C2}\n")

    second = units.step(proc.tick(1))

    assert _ticks(second) == {("kubernetes", POD_A): 0, ("kubernetes", POD_B): 3}
    (tracked,) = second.started
    assert (tracked.key.run, dict(tracked.info.labels)["qos"]) == (POD_B, "burstable")


def test_case_energy_c4_the_deepest_over_all_lines(proc: FakeProc) -> None:
    pod = f"/docker/{C1}/kubelet/kubepods/besteffort/pod{POD_A}/{C2}"
    proc.process(100, "cuda", start=1000, cgroup=f"12:pids:/docker/{C1}\n4:memory:{pod}\n")

    assert _ticks(_units(proc).step(proc.tick(1))) == {("kubernetes", POD_A): 0}


def test_all_processes_of_a_job_are_one_unit(proc: FakeProc) -> None:
    proc.process(100, "slurmstepd", start=1000, uid=0, cgroup=f"4:freezer:{JOB}/step_0\n", arguments=("slurmstepd",))
    proc.process(101, "lmp", start=1200, parent=100, cgroup=f"4:freezer:{JOB}/step_0\n")
    units = _units(proc)
    (tracked,) = units.step(proc.tick(1)).started
    proc.process(101, "lmp", start=1200, parent=100, user=70, cgroup=f"4:freezer:{JOB}/step_0\n")
    proc.process(102, "gzip", start=10110, user=5, cgroup=f"4:freezer:{JOB}/step_1\n")

    assert _ticks(units.step(proc.tick(1))) == {("slurm", "42"): 75}
    assert (tracked.key.run, tracked.uid) == (f"42@{BOOT_SECONDS + 10}", 1000)


def test_several_slurmd_keep_their_names(proc: FakeProc) -> None:
    proc.process(100, "a", start=1000, cgroup="0::/system.slice/node1_slurmstepd.scope/job_42/step_0/user/task_0\n")

    (tracked,) = _units(proc).step(proc.tick(1)).started

    assert (tracked.key.run, tracked.info.node_name) == (f"42@{BOOT_SECONDS + 10}.node1", "node1")


def test_daemons_services_and_sessions_are_what_their_commands_say(proc: FakeProc) -> None:
    proc.process(100, "nginx", start=1000, cgroup="0::/system.slice/nginx.service\n")
    proc.process(101, "bash", start=1000, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    proc.process(102, "dockerd-x", start=1000, cgroup="0::/system.slice/docker.service\n")
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(102, "dockerd-x", start=1000, user=9, cgroup="0::/system.slice/docker.service\n")

    second = units.step(proc.tick(1))

    assert _ticks(second) == {("process", "1000:nginx"): 0, ("process", "1000:bash"): 0}
    assert second.system_ns == 9 * TICK_NS


def test_a_manager_that_is_not_shown_names_no_process(proc: FakeProc) -> None:
    proc.process(100, "a", start=1000, cgroup=f"0::/kubepods/pod{POD_A}/{C1}\n")

    reading = _units(proc, managers=["slurm", "process"]).step(proc.tick(1))

    assert _ticks(reading) == {("process", "1000:a"): 0}


def test_a_process_that_moves_into_a_job_is_the_jobs_from_then_on(proc: FakeProc) -> None:
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(100, "sh", start=10150, user=4)
    units.step(proc.tick(1))
    proc.process(100, "sh", start=10150, user=10, cgroup=f"4:freezer:{JOB}/step_0\n")

    assert _ticks(units.step(proc.tick(1))) == {("process", "1000:sh"): 4, ("slurm", "42"): 6}


def test_a_job_keeps_its_run_after_a_restart(proc: FakeProc) -> None:
    proc.process(100, "first", start=1000, cgroup=f"4:freezer:{JOB}/step_0\n")
    proc.process(101, "second", start=4000, cgroup=f"4:freezer:{JOB}/step_0\n")
    before = _units(proc)
    before.step(proc.tick(1))
    proc.exit(100)
    before.step(proc.tick(1))
    after = _units(proc)

    after.restore(before.saved(), {})
    (tracked,) = after.step(proc.tick(1)).started

    assert tracked.key.run == f"42@{BOOT_SECONDS + 10}"


def test_the_container_that_the_agent_lives_in_is_no_unit(proc: FakeProc) -> None:
    inside = f"0::/docker/{C1}"
    proc.process(1, "sh", start=1000, parent=0, cgroup=f"{inside}\n")
    proc.process(100, "stress", start=1100, cgroup=f"{inside}\n")
    proc.process(101, "web", start=1100, cgroup=f"{inside}/docker/{C2}\n")

    reading = _units(proc).step(proc.tick(1))

    assert _ticks(reading) == {("process", "1000:sh"): 0, ("process", "1000:stress"): 0, ("docker", C2): 0}


def test_without_a_cgroup_tree_paths_name_the_units(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)
    (tree.root / "cgroup.controllers").unlink()
    tree.proc.process(100, "a", start=1000, cgroup=f"0::/kubepods/pod{POD_A}/{C1}\n")

    (source,) = open_unit_sources(tree.proc.host, UnitsSettings(), tree.clock)

    assert _ticks(source.step(tree.clock.tick(1))) == {("kubernetes", POD_A): 0}


def test_jobs_that_only_the_freezer_knows_are_units_by_their_processes(tmp_path: Path) -> None:
    # SLURM with proctrack/cgroup and jobacct_gather/linux on cgroup v1: no directory of the job counts CPU time
    tree = FakeCgroups(tmp_path, v1=True)
    tree.put("/system.slice/slurmd.service", 10, procs="400\n")
    tree.put("/system.slice/cron.service", 1, procs="500\n")
    tree.put(f"{JOB}/step_0", hierarchy="freezer", procs="400\n")
    lines = f"9:freezer:{JOB}/step_0\n5:cpuset:{JOB}/step_0\n4:cpu,cpuacct:/system.slice/slurmd.service\n"
    tree.proc.process(400, "lmp", start=1000, cgroup=lines)
    tree.proc.process(500, "cron", start=1000, cgroup="4:cpu,cpuacct:/system.slice/cron.service\n")
    tree.proc.process(600, "stray", start=1000, cgroup="4:cpu,cpuacct:/\n")
    cgroups, processes = open_unit_sources(tree.proc.host, UnitsSettings(), tree.clock)
    for source in (cgroups, processes):
        source.step(tree.clock.tick(1))
    tree.proc.process(400, "lmp", start=1000, user=80, cgroup=lines)
    tree.proc.process(600, "stray", start=1000, user=3, cgroup="4:cpu,cpuacct:/\n")

    cgroups.step(tree.clock.tick(1))
    reading = processes.step(tree.clock.now_ns)

    assert _ticks(reading) == {("slurm", "42"): 80}
    assert [key.unit for key in cgroups.live()] == ["services"]


def test_a_job_of_the_freezer_has_its_cpuset_once_a_task_tells_its_size(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, v1=True)
    tree.put("/system.slice/slurmd.service", 10, procs="400\n")
    tree.put(f"{JOB}/step_0", hierarchy="freezer", procs="400\n")
    tree.put(JOB, hierarchy="cpuset", cpuset__cpus="0-1\n")
    tree.put(JOB, hierarchy="memory", memory__limit_in_bytes="1048576\n")
    lines = f"9:freezer:{JOB}/step_0\n5:cpuset:{JOB}/step_0\n4:cpu,cpuacct:/system.slice/slurmd.service\n"
    tree.proc.process(400, "slurmstepd", start=1000, uid=0, cgroup=lines)
    cgroups, processes = open_unit_sources(tree.proc.host, UnitsSettings(), tree.clock)
    cgroups.step(tree.clock.tick(1))
    (first,) = processes.step(tree.clock.now_ns).started
    assert (first.allocation.milli_cpus, first.allocation.memory_bytes, first.info.name) == (None, 1048576, None)
    tree.proc.process(401, "lmp", start=10050, parent=400, cgroup=lines)
    (tree.proc.root / "proc" / "401" / "environ").write_text(
        "SLURM_JOB_ID=42\0SLURM_CPUS_ON_NODE=2\0SLURM_JOB_NAME=melt\0"
    )
    cgroups.step(tree.clock.tick(1))
    processes.step(tree.clock.now_ns)

    (later,) = processes.live().values()

    assert (later.allocation.milli_cpus, later.info.name, later.uid) == (2000, "melt", 1000)


def test_jobs_that_the_accounting_tree_knows_are_not_walked_for(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, v1=True)
    for hierarchy in ("cpuacct", "freezer"):
        tree.put(f"{JOB}/step_0", 1, hierarchy=hierarchy, procs="400\n")
    tree.proc.process(400, "lmp", start=1000, cgroup=f"9:freezer:{JOB}/step_0\n4:cpu,cpuacct:{JOB}/step_0\n")

    sources = open_unit_sources(tree.proc.host, UnitsSettings(), tree.clock)

    assert len(sources) == 1


def test_a_unit_that_the_accounting_tree_will_show_is_not_named_twice(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path)
    tree.proc.process(100, "early", start=1000, cgroup=f"0::/kubepods/pod{POD_A}/{C1}\n")  # its directory comes later
    cgroups, processes = open_unit_sources(
        tree.proc.host, UnitsSettings.model_validate({"processes": "on"}), tree.clock
    )
    cgroups.step(tree.clock.tick(1))

    assert _ticks(processes.step(tree.clock.now_ns)) == {("process", "1000:early"): 0}


def test_a_step_daemon_beside_its_jobs_own_directory_is_not_the_job_once_more(tmp_path: Path) -> None:
    tree = FakeCgroups(tmp_path, v1=True)
    job = "/slurm_n1/uid_1000/job_42"
    tree.put(f"{job}/step_batch", 6, procs="401\n")
    tree.put(f"{job}/step_batch", hierarchy="freezer", procs="400\n")
    daemon = f"9:freezer:{job}/step_batch\n4:cpu,cpuacct:/\n"
    tree.proc.process(400, "slurmstepd", start=1000, user=2, uid=0, cgroup=daemon)
    tree.proc.process(401, "lmp", start=1001, cgroup=f"9:freezer:{job}/step_batch\n4:cpu,cpuacct:{job}/step_batch\n")
    tree.proc.process(402, "stray", start=1001, cgroup=daemon)
    cgroups, processes = open_unit_sources(tree.proc.host, UnitsSettings(processes=ProcessMode.ON), tree.clock)

    cgroups.step(tree.clock.tick(1))
    reading = processes.step(tree.clock.now_ns)

    assert [(key.manager, key.unit) for key in cgroups.live()] == [("slurm", "42")]
    # What a user left outside is the job's still; its daemon is nobody's.
    assert processes.owner_of(400) is None
    assert _ticks(reading) == {("slurm", "42"): 0}


def test_a_run_that_two_sources_know_is_counted_by_the_first(tmp_path: Path) -> None:
    one, other = UnitKey("slurm", "42", "42@1"), UnitKey("process", "root:sh", "root:sh@1")
    reading = StepReading(cpu={one: CpuReading(1, 1, 0), other: CpuReading(2, 2, 0)})

    assert reading.without(()) is reading
    assert reading.without({one}).cpu.keys() == {other}
