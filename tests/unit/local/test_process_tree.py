"""The process tree of a run, on the real kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import ProcessStat
from kwhere.local.process_tree import all_stats, descendants, live_use


def stat(pid: int, parent: int) -> ProcessStat:
    """Return a process of which only the parentage matters."""
    return ProcessStat(pid, "x", "S", parent, False, 0, 0, 0, 0, 1, 0)


def test_descendants_are_all_below_and_nobody_else() -> None:
    stats = [stat(1, 0), stat(2, 1), stat(3, 2), stat(4, 3), stat(5, 1), stat(6, 5)]

    assert sorted(s.pid for s in descendants(stats, 2)) == [3, 4]
    assert sorted(s.pid for s in descendants(stats, 1)) == [2, 3, 4, 5, 6]


def test_a_live_grandchild_is_seen_with_what_it_used() -> None:
    burn = (
        "import time\nend = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\nprint(flush=True)\ninput()"
    )
    script = f"'{sys.executable}' -c \"{burn}\"; true"
    parent = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdout.readline()

    use = live_use(HostFS(), os.getpid())
    names = {s.pid for s in descendants(all_stats(HostFS()), os.getpid())}
    parent.communicate("\n")

    assert parent.pid in names
    assert use.user_ns + use.system_ns >= 280_000_000
    assert use.rss_bytes > 1 << 20


def test_a_tree_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "stat").write_text("garbage")

    assert live_use(HostFS(procfs=tmp_path), 1) == type(live_use(HostFS(procfs=tmp_path), 1))()


@pytest.mark.parametrize("text", ["", "1 2 x", "a b c d"])
def test_garbage_beside_a_process_costs_only_that_figure(tmp_path: Path, text: str) -> None:
    for pid, parent in ((1, 0), (2, 1)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 9, "5", "2", "0", "0", "0", "0", "1", "0", "9", *["0"] * 10]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a b) {' '.join(fields)}")
    (tmp_path / "2" / "statm").write_text(text)
    (tmp_path / "2" / "io").write_text(text)

    use = live_use(HostFS(procfs=tmp_path), 1)

    assert (use.user_ns, use.system_ns, use.io_read_bytes) == (50_000_000, 20_000_000, 0)
