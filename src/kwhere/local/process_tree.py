"""What one command and all its descendants used, by the process tree: nothing is lost to a child that ended."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import TICK_NS, ProcessStat, list_pids, read_stat


@dataclass(frozen=True, slots=True)
class LiveUse:
    """Descendants that live: their CPU time, with that of children they waited for, and what they hold now."""

    user_ns: int = 0
    system_ns: int = 0
    rss_bytes: int = 0
    io_read_bytes: int = 0
    io_write_bytes: int = 0


def live_use(fs: HostFS, ancestor: int) -> LiveUse:
    """Return what the live descendants of `ancestor` (itself excluded) used; a process that goes meanwhile is left."""
    user = system = rss = read = written = 0
    for stat in descendants(all_stats(fs), ancestor):
        user += (stat.user_ticks + stat.children_user_ticks) * TICK_NS
        system += (stat.system_ticks + stat.children_system_ticks) * TICK_NS
        rss += _rss_bytes(fs, stat.pid)
        process_read, process_written = _io_bytes(fs, stat.pid)
        read += process_read
        written += process_written
    return LiveUse(user, system, rss, read, written)


def all_stats(fs: HostFS) -> list[ProcessStat]:
    """Return the processes there are; those that go meanwhile are left out."""
    found = []
    for pid in list_pids(fs):
        with suppress(Unavailable, SourceError):
            found.append(read_stat(fs, pid))
    return found


def descendants(stats: list[ProcessStat], ancestor: int) -> Iterator[ProcessStat]:
    """Yield all below `ancestor`, parents before children."""
    children: dict[int, list[ProcessStat]] = {}
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat)
    pending = [ancestor]
    while pending:
        for stat in children.pop(pending.pop(), []):
            yield stat
            pending.append(stat.pid)


def _rss_bytes(fs: HostFS, pid: int) -> int:
    with suppress(Unavailable, SourceError, ValueError, IndexError):
        return int(fs.read(f"proc/{pid}/statm").split()[1]) * 4096
    return 0


def _io_bytes(fs: HostFS, pid: int) -> tuple[int, int]:
    with suppress(Unavailable, SourceError, ValueError):
        words = fs.read(f"proc/{pid}/io").split()
        fields = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        return fields.get(b"read_bytes:", 0), fields.get(b"write_bytes:", 0)
    return 0, 0
