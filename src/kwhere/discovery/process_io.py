"""Bytes that processes moved to and from storage, by `/proc/PID/io`: the owner's and root's to read (proc_pid_io(5)).

As with CPU time a parent's counters take in those of each child it waited for: what the child had is taken off.
"""

from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.discovery.process_table import Process
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_io_bytes


@dataclass(slots=True)
class _Seen:
    start_ticks: int
    read_bytes: int
    write_bytes: int


class ProcessIo:
    """What each process moved since it was last asked for."""

    def __init__(self, fs: HostFS) -> None:
        self._fs = fs
        self._seen: dict[int, _Seen] = {}
        self._debits: dict[int, tuple[int, int]] = {}
        self._new: set[int] = set()

    def begin(self, process: Process) -> None:
        """Take note that a process began while we look: its counters count from zero."""
        self._new.add(process.pid)

    def end(self, process: Process) -> None:
        """Take note that a process is gone: its parent's counters repeat what was booked to it."""
        self._new.discard(process.pid)
        read, write = self._debits.pop(process.pid, (0, 0))
        seen = self._seen.pop(process.pid, None)
        if seen is not None and seen.start_ticks == process.stat.start_ticks:
            read, write = read + seen.read_bytes, write + seen.write_bytes
        if read or write:
            before = self._debits.get(process.stat.parent, (0, 0))
            self._debits[process.stat.parent] = before[0] + read, before[1] + write

    def gain(self, process: Process) -> tuple[int, int] | None:
        """Return bytes read and written since the last call; None where this may not be known."""
        try:
            read, write = read_io_bytes(self._fs, process.pid)
        except (Unavailable, SourceError):
            return None
        seen = self._seen.get(process.pid)
        start = process.stat.start_ticks
        if seen is None or seen.start_ticks != start:
            seen = _Seen(start, 0, 0) if process.pid in self._new else _Seen(start, read, write)
        debit_read, debit_write = self._debits.pop(process.pid, (0, 0))
        self._seen[process.pid] = _Seen(start, read, write)
        self._new.discard(process.pid)
        return max(0, read - seen.read_bytes - debit_read), max(0, write - seen.write_bytes - debit_write)
