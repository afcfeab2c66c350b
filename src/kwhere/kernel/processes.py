"""`/proc/PID`: CPU time, parentage, owner, command; every reading may find the process gone (proc_pid_stat(5))."""

import os
from collections.abc import Collection
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroup_namespace import absolute_paths, find_roots
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import counter, excerpt

TICK_NS = 10_000_000
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD
_ENVIRONMENT_LIMIT_BYTES = 1 << 18
_STATUS_LIMIT_BYTES = 1 << 16
_FIELDS_NEEDED = 20  # up to start time


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One process as `/proc/PID/stat` tells it; times in ticks of 10 ms. (pid, start_ticks) never comes twice."""

    pid: int
    command: str
    """At most 15 bytes; bytes that are not UTF-8 are surrogates."""
    state: str
    parent: int
    is_kernel_thread: bool
    user_ticks: int
    system_ticks: int
    children_user_ticks: int
    """Of children it has waited for, and of theirs."""
    children_system_ticks: int
    threads: int
    start_ticks: int
    """Since boot."""

    @property
    def own_ticks(self) -> int:
        """Return user and system time of its own threads, those that ended included."""
        return self.user_ticks + self.system_ticks

    @property
    def children_ticks(self) -> int:
        """Return user and system time of children it has waited for, and of theirs."""
        return self.children_user_ticks + self.children_system_ticks


def parse_process_stat(data: bytes, place: str) -> ProcessStat:
    """Return the reading; the command may hold spaces, parentheses and newlines. Raises SourceError."""
    opened, closed = data.find(b"("), data.rfind(b")")
    fields = data[closed + 1 :].split() if 0 < opened < closed else []
    if len(fields) < _FIELDS_NEEDED:
        raise SourceError(
            f"{place}: expected PID (COMMAND) and 20 fields, found {excerpt(data.decode(errors='replace'))}"
        )
    try:
        return ProcessStat(
            pid=int(data[:opened]),
            command=data[opened + 1 : closed].decode(errors="surrogateescape"),
            state=fields[0].decode("ascii"),
            parent=int(fields[1]),
            is_kernel_thread=bool(int(fields[6]) & _KERNEL_THREAD),
            user_ticks=_ticks(fields[11]),
            system_ticks=_ticks(fields[12]),
            children_user_ticks=_ticks(fields[13]),
            children_system_ticks=_ticks(fields[14]),
            threads=int(fields[17]),
            start_ticks=_ticks(fields[19]),
        )
    except ValueError as error:  # UnicodeDecodeError is one
        raise SourceError(f"{place}: expected numbers, found {excerpt(data.decode(errors='replace'))}") from error


def list_pids(fs: HostFS) -> list[int]:
    """Return the process ids, ascending; the idle task (0) is no process."""
    path = fs.path("proc")
    try:
        names = os.listdir(path)
    except OSError as error:
        raise Unavailable("permission", f"{path}: cannot be listed: {error}") from error
    return sorted(pid for pid in (int(name) for name in names if name.isascii() and name.isdigit()) if pid > 0)


def read_stat(fs: HostFS, pid: int) -> ProcessStat:
    """Return the process's reading. Raises Unavailable if it is gone, SourceError for nonsense."""
    place = f"proc/{pid}/stat"
    return parse_process_stat(fs.read(place), place)


def read_cgroup_text(fs: HostFS, pid: int) -> str:
    """Return `/proc/PID/cgroup`, one line per hierarchy, with the paths of the mounted trees.

    Raises Unavailable if the process is gone.
    """
    text = fs.read(f"proc/{pid}/cgroup").decode(errors="surrogateescape")
    return absolute_paths(text, fs.cgroup_roots(find_roots))


def read_command(fs: HostFS, pid: int) -> list[str]:
    """Return the arguments, empty for kernel threads and zombies. Raises Unavailable if the process is gone."""
    data = fs.read_head(f"proc/{pid}/cmdline", _STATUS_LIMIT_BYTES)
    return [part.decode(errors="replace") for part in data.rstrip(b"\0").split(b"\0")] if data else []


def read_environment(fs: HostFS, pid: int, names: Collection[str]) -> dict[str, str]:
    """Return the values of `names` as the process was started with. Raises Unavailable (permission: another's)."""
    found = {}
    for part in fs.read_head(f"proc/{pid}/environ", _ENVIRONMENT_LIMIT_BYTES).split(b"\0"):
        name, equals, value = part.partition(b"=")
        key = name.decode(errors="replace")
        if equals and key in names:
            found[key] = value.decode(errors="replace")
    return found


def read_io_bytes(fs: HostFS, pid: int) -> tuple[int, int]:
    """Return bytes it and its waited-for children fetched from and sent to storage. Raises Unavailable (permission)."""
    place = f"proc/{pid}/io"
    found = {}
    for line in fs.read(place).split(b"\n"):
        name, _, value = line.partition(b": ")
        if name in (b"read_bytes", b"write_bytes"):
            found[name] = counter(value.decode(errors="replace"), place)
    if len(found) != 2:
        raise SourceError(f"{place}: expected lines read_bytes and write_bytes")
    return found[b"read_bytes"], found[b"write_bytes"]


def read_owner(fs: HostFS, pid: int) -> int:
    """Return the real uid. A process that may not be dumped shows root as owner of its directory, so ask `status`."""
    place = f"proc/{pid}/status"
    for line in fs.read_head(place, _STATUS_LIMIT_BYTES).split(b"\n"):
        if line.startswith(b"Uid:"):
            words = line.split()
            if len(words) > 1:
                return counter(words[1].decode(errors="replace"), place)
    raise SourceError(f"{place}: expected a line Uid:")


def _ticks(field: bytes) -> int:
    value = int(field)
    if value < 0:
        raise ValueError(field)
    return value
