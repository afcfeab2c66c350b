"""Two counts of one run, joined: its cgroup (exact, and blind to what left it) and its process tree (sees leavers)."""

import os
from dataclasses import dataclass

from kwhere.kernel.hostfs import HostFS
from kwhere.local.cgroup import RunCgroup
from kwhere.local.launch import reaped
from kwhere.local.process_tree import live_use

BLOCK_BYTES = 512
"""ru_inblock and ru_oublock count 512-byte blocks (getrusage(2))."""


@dataclass(frozen=True, slots=True)
class RunUse:
    """What a run used so far. `cpu_ns` = `user_ns` + `system_ns`."""

    cpu_ns: int
    user_ns: int
    system_ns: int
    memory_peak_bytes: int
    io_read_bytes: int
    io_write_bytes: int


class RunMeter:
    """Reads one run; memory peaks are kept between readings where no cgroup keeps them."""

    def __init__(self, fs: HostFS, cgroup: RunCgroup) -> None:
        self._fs = fs
        self._cgroup = cgroup
        self._cpu_ns = 0
        self._rss_peak_bytes = 0

    def read(self) -> RunUse:
        """Return what the run used so far; CPU time never goes down."""
        ended, live = reaped(), live_use(self._fs, os.getpid())
        user, system = ended.user_ns + live.user_ns, ended.system_ns + live.system_ns
        # The tree sees processes that left the cgroup, the cgroup those that nobody waited for; neither sees less
        # than half of a tick per process, so the larger is right.
        self._cpu_ns = max(self._cpu_ns, user + system, self._cgroup.cpu_ns() or 0)
        self._rss_peak_bytes = max(self._rss_peak_bytes, live.rss_bytes, ended.largest_rss_bytes)
        share = system / (user + system) if user + system else 0.0
        system_ns = round(self._cpu_ns * share)
        io = self._cgroup.io_bytes()
        return RunUse(
            cpu_ns=self._cpu_ns,
            user_ns=self._cpu_ns - system_ns,
            system_ns=system_ns,
            memory_peak_bytes=self._cgroup.memory_peak_bytes() or self._rss_peak_bytes,
            io_read_bytes=io[0] if io else ended.read_blocks * BLOCK_BYTES + live.io_read_bytes,
            io_write_bytes=io[1] if io else ended.written_blocks * BLOCK_BYTES + live.io_write_bytes,
        )
