"""A machine whose RAPL counter follows the CPU time of one process' children: run as a program beside `kwhere`.

    python -m tests.fake_energy DIRECTORY --idle W --slope W [--busy CPUS]

Below DIRECTORY stand `proc`, which is the kernel's but for `stat`, and `sys` with one package and its memory. It ends
with its standard input; the process to follow is told there, one number on a line.
"""

import argparse
import os
import select
import sys
import time
from pathlib import Path

TICK_NS = 10_000_000
CPUS = 2
_BASE_UJ = 100_000_000_000
_BASE_TICKS = 10_000_000
_LINKS = ("self", "uptime", "cpuinfo", "meminfo", "sys")


class FakeEnergy:
    """The tree and what it shows."""

    def __init__(self, root: Path, idle_watts: float, slope_watts: float, busy_cpus: float) -> None:
        self._watts = (idle_watts, slope_watts)
        self._base_cpus = busy_cpus
        self._busy_ns = 0.0
        self._energy_uj = float(_BASE_UJ)
        self._last_ns = time.monotonic_ns()
        self._children: dict[int, int] = {}
        self.pid = 0
        proc = root / "proc"
        proc.mkdir(parents=True)
        for name in _LINKS:
            (proc / name).symlink_to(f"/proc/{name}")
        zone = root / "sys" / "class" / "powercap" / "intel-rapl:0"
        zone.mkdir(parents=True)
        (zone / "name").write_text("package-0\n")
        (zone / "max_energy_range_uj").write_text("262143328850\n")
        cpus = root / "sys" / "devices" / "system" / "cpu"
        cpus.mkdir(parents=True)
        (cpus / "online").write_text(f"0-{CPUS - 1}\n")
        self._stat = os.open(proc / "stat", os.O_WRONLY | os.O_CREAT, 0o644)
        self._counter = os.open(zone / "energy_uj", os.O_WRONLY | os.O_CREAT, 0o644)

    def step(self) -> None:
        """Add what the children did since the last step; every text keeps its length, so no reader sees half of one."""
        now_ns = time.monotonic_ns()
        span_ns = now_ns - self._last_ns
        busy_ns = self._base_cpus * span_ns + self._children_ns()
        self._last_ns = now_ns
        self._busy_ns += busy_ns
        self._energy_uj += (self._watts[0] * span_ns + self._watts[1] * busy_ns) / 1000
        os.pwrite(self._counter, f"{int(self._energy_uj)}\n".encode(), 0)
        share = _BASE_TICKS + int(self._busy_ns) // TICK_NS // CPUS
        rows = [f"cpu  {share * CPUS} 0 0 0"] + [f"cpu{cpu} {share} 0 0 0" for cpu in range(CPUS)]
        os.pwrite(self._stat, ("\n".join(rows) + "\nbtime 1700000000\n").encode(), 0)

    def _children_ns(self) -> int:
        added = 0
        for pid in children_of(self.pid) if self.pid else ():
            ticks = cpu_ticks(pid)
            added += max(0, ticks - self._children.get(pid, ticks)) * TICK_NS
            self._children[pid] = ticks
        return added


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_ticks(pid: int) -> int:
    """Return user and system time of a process; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])


def main() -> None:
    """Show the machine until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--slope", type=float, default=7.0)
    parser.add_argument("--busy", type=float, default=0.0)
    given = parser.parse_args()
    machine = FakeEnergy(given.root, given.idle, given.slope, given.busy)
    machine.step()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        if select.select([sys.stdin], [], [], 0.02)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            machine.pid = int(line)
        machine.step()


if __name__ == "__main__":
    main()
