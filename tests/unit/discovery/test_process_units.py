"""Process groups: each tick is booked once, to the group of whoever used it."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.unit.discovery.fake_proc import BOOT_SECONDS, FakeProc

from kwhere.core.clock import SystemClock
from kwhere.core.errors import NoData
from kwhere.discovery.process_units import ProcessUnits
from kwhere.discovery.unit_source import StepReading
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.recorded import clock_of

TICK_NS = 10_000_000


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def _units(proc: FakeProc) -> ProcessUnits:
    host = proc.host
    return ProcessUnits(host, clock_of(host))


def _ticks(reading: StepReading) -> dict[str, int]:
    return {key.unit: found.total_ns // TICK_NS for key, found in reading.cpu.items()}


def test_the_first_step_only_takes_readings_down(proc: FakeProc) -> None:
    proc.process(10, "bash", start=1000, user=500)
    units = _units(proc)

    first = units.step(proc.tick(1))

    assert _ticks(first) == {"1000:bash": 0}
    (tracked,) = first.started
    assert (tracked.key.manager, tracked.key.run) == ("process", f"1000:bash@{BOOT_SECONDS}")
    assert (tracked.info.user, tracked.info.name, tracked.uid, tracked.from_creation) == ("1000", "bash", 1000, True)
    assert tracked.cgroup is None


def test_processes_of_one_user_and_command_are_one_group(proc: FakeProc) -> None:
    proc.process(10, "python", start=1000, user=500)
    proc.process(11, "python", start=1001, user=7)
    proc.process(12, "python", start=1002, uid=0)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(10, "python", start=1000, user=520, system=10)
    proc.process(11, "python", start=1001, user=17)

    second = units.step(proc.tick(1))

    assert _ticks(second) == {"1000:python": 40, "root:python": 0}
    (key,) = [key for key in second.cpu if key.unit == "1000:python"]
    assert (second.cpu[key].user_ns, second.cpu[key].system_ns) == (30 * TICK_NS, 10 * TICK_NS)


def test_a_child_too_short_to_be_seen_is_its_parents(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(10, "make", start=1000, user=1, children=80)

    assert _ticks(units.step(proc.tick(1))) == {"1000:make": 81}


def test_a_reaped_child_is_not_booked_twice(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(11, "cc1", start=10150, parent=10, user=50)
    assert _ticks(units.step(proc.tick(1))) == {"1000:make": 0, "1000:cc1": 50}
    proc.exit(11)
    proc.process(10, "make", start=1000, children=70)  # the child used 20 more before it ended

    assert _ticks(units.step(proc.tick(1))) == {"1000:make": 20, "1000:cc1": 50}


def test_a_child_reaped_after_its_parent_was_read_is_not_booked_twice(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    proc.process(11, "cc1", start=1001, parent=10)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(11, "cc1", start=1001, parent=10, user=50)
    units.step(proc.tick(1))
    proc.exit(11)  # seen to be gone while the parent's counters are still the old ones
    units.step(proc.tick(1))
    proc.process(10, "make", start=1000, children=60)

    assert _ticks(units.step(proc.tick(1))) == {"1000:make": 10, "1000:cc1": 50}


def test_grandchildren_pass_through(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    proc.process(11, "sh", start=1001, parent=10)
    proc.process(12, "cc1", start=1002, parent=11)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(12, "cc1", start=1002, parent=11, user=40)
    units.step(proc.tick(1))
    proc.exit(12)  # both end at once: the shell waited for the compiler, make for the shell
    proc.exit(11)
    proc.process(10, "make", start=1000, children=45)

    assert _ticks(units.step(proc.tick(1))) == {"1000:make": 5, "1000:sh": 0, "1000:cc1": 40}


def test_an_orphan_is_init_s_to_reap(proc: FakeProc) -> None:
    proc.process(1, "init", start=1, uid=0, parent=0)
    proc.process(10, "sh", start=1000)
    proc.process(11, "job", start=1001, parent=10)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(11, "job", start=1001, parent=10, user=40)
    units.step(proc.tick(1))
    proc.exit(10)
    proc.process(11, "job", start=1001, parent=1, user=60)
    units.step(proc.tick(1))
    proc.exit(11)
    proc.process(1, "init", start=1, uid=0, parent=0, children=65)

    last = units.step(proc.tick(1))

    assert _ticks(last) == {"1000:sh": 0, "1000:job": 60}
    assert last.system_ns == 5 * TICK_NS  # what is left of it is init's own account


def test_a_child_that_nobody_waits_for_costs_its_parent_nothing(proc: FakeProc) -> None:
    proc.process(10, "server", start=1000)
    proc.process(11, "worker", start=1001, parent=10, user=0)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(11, "worker", start=1001, parent=10, user=500)
    units.step(proc.tick(1))
    proc.exit(11)  # SIGCHLD ignored: the parent's counters never hold it
    for _ in range(3):
        units.step(proc.tick(1))
    proc.process(10, "server", start=1000, children=30)  # a later child it does wait for

    assert _ticks(units.step(proc.tick(1))) == {"1000:server": 30, "1000:worker": 500}


def test_case_energy_c24_a_pid_used_again_is_another_process(proc: FakeProc) -> None:
    proc.process(100, "a", start=1000, user=0)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(100, "a", start=1000, user=500)
    units.step(proc.tick(1))
    proc.process(100, "b", start=10290, user=3)

    assert _ticks(units.step(proc.tick(1))) == {"1000:a": 500, "1000:b": 3}


def test_case_energy_c24_same_command_and_a_smaller_counter(proc: FakeProc) -> None:
    proc.process(100, "a", start=1000, user=500)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(100, "a", start=10190, user=3)

    assert _ticks(units.step(proc.tick(1))) == {"1000:a": 3}


def test_case_energy_c25_a_late_first_sight_is_a_baseline(proc: FakeProc) -> None:
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(100, "old", start=1000, user=360_000)  # hidden until now
    assert _ticks(units.step(proc.tick(1))) == {"1000:old": 0}
    proc.process(100, "old", start=1000, user=360_010)

    assert _ticks(units.step(proc.tick(1))) == {"1000:old": 10}


def test_a_process_begun_since_the_last_step_counts_from_its_start(proc: FakeProc) -> None:
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(100, "new", start=round(proc.uptime_seconds * 100) + 20, user=50, children=10)

    second = units.step(proc.tick(1))

    assert _ticks(second) == {"1000:new": 60}
    assert second.started[0].counts_from_ns == 101_000_000_000


def test_case_energy_c26_a_command_with_anything_in_it_is_a_group(proc: FakeProc) -> None:
    proc.process(10, "a) b/(c\n", start=1000)

    (tracked,) = _units(proc).step(proc.tick(1)).started

    assert tracked.key.unit == "1000:a%29%20b%2F%28c%0A"
    assert tracked.info.name == "a) b/(c\ufffd"


def test_case_energy_c28_kernel_threads_daemons_and_the_idle_task_are_system(proc: FakeProc) -> None:
    proc.process(1, "systemd", start=1, uid=0, parent=0)
    proc.process(3, "kworker/0:1", start=2, uid=0, flags=0x4208040 | 0x200000)
    proc.process(20, "containerd", start=900, uid=0)
    units = _units(proc)
    assert units.step(proc.tick(1)).cpu == {}
    proc.process(3, "kworker/0:1", start=2, uid=0, flags=0x4208040 | 0x200000, system=9)
    proc.process(20, "containerd", start=900, uid=0, user=5)

    second = units.step(proc.tick(1))

    assert second.cpu == {}
    assert second.system_ns == 14 * TICK_NS


def test_the_first_process_of_a_container_is_work(proc: FakeProc) -> None:
    proc.process(1, "stress-ng", start=1, parent=0)

    assert _ticks(_units(proc).step(proc.tick(1))) == {"1000:stress-ng": 0}


def test_a_new_command_after_exec_takes_over(proc: FakeProc) -> None:
    proc.process(10, "bash", start=1000)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(10, "solver", start=1000, user=80)

    assert _ticks(units.step(proc.tick(1))) == {"1000:bash": 0, "1000:solver": 80}


def test_case_energy_c14_a_virtual_machine_is_a_unit_of_its_own(proc: FakeProc) -> None:
    uuid = "b674a0a2-c300-4dc6-8c9c-65df16da6d69"
    arguments = ("/usr/bin/qemu-system-x86_64", "-name", "guest=web,debug-threads=on", "-uuid", uuid)
    proc.process(10, "qemu-system-x86", start=5000, arguments=arguments)

    (tracked,) = _units(proc).step(proc.tick(1)).started

    assert (tracked.key.manager, tracked.key.unit, tracked.info.name) == ("libvirt", uuid, "web")
    assert tracked.key.run == f"{uuid}@{BOOT_SECONDS + 50}"


def test_a_group_lingers_and_then_ends_with_a_last_reading(proc: FakeProc) -> None:
    proc.process(10, "job", start=1000)
    units = _units(proc)
    units.step(proc.tick(1))
    proc.process(10, "job", start=1000, user=30)
    units.step(proc.tick(1))
    proc.exit(10)

    assert units.step(proc.tick(1)).ended == []
    last = units.step(proc.tick(31))

    assert [tracked.key.unit for tracked in last.ended] == ["1000:job"]
    assert _ticks(last) == {"1000:job": 30}
    assert units.live() == {}
    with pytest.raises(NoData):
        units.detail(last.ended[0].key)


def test_totals_go_on_after_a_restart(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    proc.process(11, "cc1", start=1001, parent=10)
    proc.process(12, "top", start=1002)
    before = _units(proc)
    before.step(proc.tick(1))
    proc.process(11, "cc1", start=1001, parent=10, user=40)
    proc.process(12, "top", start=1002, user=5)
    before.step(proc.tick(1))
    saved = before.saved()
    proc.exit(11)
    proc.process(10, "make", start=1000, children=46)
    proc.process(12, "top", start=1002, user=9)
    proc.process(13, "new", start=10250, user=8)
    after = _units(proc)

    after.restore(saved, {})
    first = after.step(proc.tick(1))

    assert _ticks(first) == {"1000:make": 6, "1000:top": 9, "1000:new": 8}
    assert {t.key.unit: t.from_creation for t in first.started} == {
        "1000:make": False,
        "1000:top": False,
        "1000:new": True,
    }


def test_processes_that_a_cgroup_unit_owns_are_left_to_it(proc: FakeProc) -> None:
    host = proc.host
    units = ProcessUnits(host, clock_of(host), lambda text: "/kwhere-run-" in text)
    proc.process(10, "bash", start=1000)
    units.step(proc.tick(1))
    proc.process(11, "stress", start=10150, parent=10, user=50, cgroup="1:cpuacct:/kwhere-run-1-2\n0::/\n")
    assert _ticks(units.step(proc.tick(1))) == {"1000:bash": 0}
    proc.process(11, "stress", start=10150, parent=10, user=150, cgroup="1:cpuacct:/kwhere-run-1-2\n0::/\n")
    units.step(proc.tick(1))
    proc.exit(11)
    proc.process(10, "bash", start=1000, user=2, children=230)  # 80 more: all that is the cgroup's

    assert _ticks(units.step(proc.tick(1))) == {"1000:bash": 2}


def test_a_process_that_moves_into_a_unit_is_left_from_then_on(proc: FakeProc) -> None:
    host = proc.host
    units = ProcessUnits(host, clock_of(host), lambda text: "/kwhere-run-" in text)
    units.step(proc.tick(1))
    proc.process(11, "stress", start=10150, user=10)
    assert _ticks(units.step(proc.tick(1))) == {"1000:stress": 10}
    proc.process(11, "stress", start=10150, user=90, cgroup="1:cpuacct:/kwhere-run-1-2\n")

    assert _ticks(units.step(proc.tick(1))) == {"1000:stress": 10}


def test_memory_and_numbers_of_a_group(proc: FakeProc) -> None:
    proc.process(10, "a", start=1000)
    proc.process(11, "a", start=1000)
    units = _units(proc)
    (tracked,) = units.step(proc.tick(1)).started

    detail = units.detail(tracked.key)

    assert (detail.processes, detail.threads) == (2, 4)
    assert (detail.memory_current_bytes, detail.memory_anon_bytes) == (60 * 4096, 40 * 4096)


def _io(proc: FakeProc, pid: int, read: int, write: int) -> None:
    (proc.root / "proc" / str(pid) / "io").write_text(
        f"rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: {read}\nwrite_bytes: {write}\ncancelled_write_bytes: 0\n"
    )


def test_storage_io_of_a_group_counts_each_byte_once(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    _io(proc, 10, 5000, 700)
    units = _units(proc)
    (make,) = units.step(proc.tick(1)).started
    first = units.detail(make.key)
    assert (first.io_read_bytes, first.io_write_bytes, first.io_read_operations) == (0, 0, None)
    proc.process(11, "cc1", start=10150, parent=10)
    _io(proc, 11, 300, 20)
    (child,) = units.step(proc.tick(1)).started
    assert units.detail(child.key).io_read_bytes == 300
    proc.exit(11)  # it read 50 more before it ended; make waited for it
    _io(proc, 10, 5000 + 350, 700 + 20)
    units.step(proc.tick(1))

    last = units.detail(make.key)

    assert (last.io_read_bytes, last.io_write_bytes) == (50, 0)


def test_storage_io_that_may_not_be_read_is_unknown(proc: FakeProc) -> None:
    proc.process(10, "make", start=1000)
    units = _units(proc)
    (make,) = units.step(proc.tick(1)).started

    assert units.detail(make.key).io_read_bytes is None
    (proc.root / "proc" / "10" / "io").write_text("garbage")
    assert units.detail(make.key).io_read_bytes is None


def test_one_damaged_process_costs_only_itself(proc: FakeProc) -> None:
    proc.process(10, "a", start=1000)
    proc.process(11, "b", start=1001)
    units = _units(proc)
    units.step(proc.tick(1))
    (proc.root / "proc" / "10" / "stat").write_text("garbage")
    (proc.root / "proc" / "99999").mkdir()
    proc.process(11, "b", start=1001, user=4)

    assert _ticks(units.step(proc.tick(1))) == {"1000:a": 0, "1000:b": 4}
    proc.process(10, "a", start=1000, user=6)
    assert _ticks(units.step(proc.tick(1))) == {"1000:a": 6, "1000:b": 4}


def test_a_program_that_renames_itself_fills_no_store(proc: FakeProc) -> None:
    for number in range(600):
        proc.process(1000 + number, f"name-{number}", start=1000 + number)

    reading = _units(proc).step(proc.tick(1))

    assert len(reading.cpu) == 501
    assert "1000:%2A" in _ticks(reading)


def test_this_kernel_s_short_processes_are_not_lost() -> None:
    clock = SystemClock()
    units = ProcessUnits(HostFS(), clock)
    units.step(clock.boottime_ns())
    before = os.times()

    for number in range(30):
        subprocess.run(["bash", "-c", "for ((i = 0; i < 15000; i++)); do :; done"], check=True)
        if number % 5 == 0:
            units.step(clock.boottime_ns())
    used = os.times()
    own = units.step(clock.boottime_ns())

    mine = [
        key for key, tracked in units.live().items() if tracked.info.name == Path("/proc/self/comm").read_text().strip()
    ]
    booked = sum(own.cpu[key].total_ns for key in mine) / 1e9
    spent = used.children_user + used.children_system - before.children_user - before.children_system
    assert spent > 0.2
    assert booked >= spent - 0.05
    units.close()


def test_a_killed_process_leaves_no_descriptor_behind() -> None:
    clock = SystemClock()
    host = HostFS()
    units = ProcessUnits(host, clock)
    with subprocess.Popen(["sleep", "60"]) as child:
        units.step(clock.boottime_ns())
        child.kill()

    units.step(clock.boottime_ns())
    assert all(process.pid != child.pid for process in units._table)
    units.close()

    assert host.kept_files == 0
