"""The run of a unit: `<unit>@<UTC seconds>`, taken once, the same again after a restart of the agent."""

from collections.abc import Mapping, Sequence

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.discovery.match import Match, unit_id
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import TICK_NS, read_stat

_PROCESSES_ASKED = 256
_TOLD_AFTER_SECONDS = 2
_TOLD_BEFORE_SECONDS = 600
"""A start that is told is believed where what we see is at most so much earlier or, at creation, later."""


class RunNames:
    """Names runs by the creation event's time, else the start of the oldest process, else first sight."""

    def __init__(self, fs: HostFS, clock: Clock) -> None:
        self._fs = fs
        self._clock = clock
        self._saved: dict[int, str] = {}

    def restore(self, runs: Mapping[int, str]) -> None:
        """Take the runs by inode that the last agent of this boot had given."""
        self._saved.update(runs)

    def saved(self, inode: int | None) -> str | None:
        """Return the run that the directory of this inode has already."""
        return None if inode is None else self._saved.get(inode)

    def keep(self, inode: int | None, run: str) -> None:
        """Remember the run of a directory that may be empty for a while."""
        if inode is not None:
            self._saved[inode] = run

    def forget(self, inode: int | None) -> None:
        """Drop the run of a directory that is gone: its inode number may come again."""
        if inode is not None:
            self._saved.pop(inode, None)

    def name(self, match: Match, unit: str, pids: Sequence[int] | None, told_seconds: int | None = None) -> str:
        """Return the run of a unit first seen now; `pids` None: it was seen being made.

        `told_seconds` is its start in UTC as its manager's own script noted it.
        """
        if match.permanent:
            return unit
        started_ns = self._clock.utc_ns() if pids is None else self._oldest(pids)
        seconds = started_ns // NANOSECONDS_PER_SECOND
        if told_seconds is not None:
            # A note that was left by a run before this one is old.
            oldest = seconds - _TOLD_BEFORE_SECONDS if pids is None else 1
            seconds = told_seconds if oldest <= told_seconds <= seconds + _TOLD_AFTER_SECONDS else seconds
        run = f"{unit}@{seconds}"
        return f"{run}.{unit_id(match.node_name)}" if match.node_name else run

    def boot_seconds(self) -> int:
        """Return the UTC second of the boot."""
        return (self._clock.utc_ns() - self._clock.boottime_ns()) // NANOSECONDS_PER_SECOND

    def _oldest(self, pids: Sequence[int]) -> int:
        """Return the UTC start of the oldest process, now if there is none."""
        starts = []
        for pid in pids[:_PROCESSES_ASKED]:
            try:
                starts.append(read_stat(self._fs, pid).start_ticks)
            except (Unavailable, SourceError):
                continue
        now_ns = self._clock.utc_ns()
        if not starts:
            return now_ns
        return now_ns - max(0, self._clock.boottime_ns() - min(starts) * TICK_NS)
