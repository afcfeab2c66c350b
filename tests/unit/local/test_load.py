"""The load is as asked for, and none of it stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwhere.local.load import LoadGenerator


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: object, seconds: float = 20.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_children_burn_when_told_and_end_when_told() -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    load = LoadGenerator(cpus)
    load.start()
    pids = list(load.pids)
    try:
        assert [
            os.sched_getaffinity(pid) for pid in pids if until(lambda pid=pid: len(os.sched_getaffinity(pid)) == 1)
        ] == [{cpu} for cpu in cpus]
        before = [cpu_ticks(pid) for pid in pids]
        load.set_level(100)
        assert until(lambda: all(cpu_ticks(pid) > then + 5 for pid, then in zip(pids, before, strict=True)))
        load.set_level(0)
        time.sleep(0.3)
        idle = [cpu_ticks(pid) for pid in pids]
        time.sleep(0.3)
        assert all(cpu_ticks(pid) <= then + 1 for pid, then in zip(pids, idle, strict=True))
    finally:
        load.stop()

    assert not any(map(is_alive, pids))
    assert load.pids == []
    load.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("percent", [0, 100])
def test_no_child_outlives_its_parent(number: int, percent: int) -> None:
    code = (
        "from kwhere.local.load import LoadGenerator; import time; load = LoadGenerator([0, 0]); load.start();"
        f"load.set_level({percent}); print(*load.pids, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(number)

    assert len(pids) == 2
    assert until(lambda: not any(map(is_alive, pids)))


def test_ctrl_c_within_a_fork_is_heard() -> None:
    """Python passes over what is raised in a hook of a fork: it must come once the fork is over, the child known."""
    script = """
import os, signal
from kwhere.local.load import LoadGenerator
load = LoadGenerator((0,))
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    load.start()
except KeyboardInterrupt:
    print("heard", len(load.pids))
load.stop()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert (done.stdout, done.stderr) == ("heard 1\n", "")
