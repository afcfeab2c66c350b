"""inotify(7) for directories that come and go, by ctypes: the standard library has none."""

import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kwhere.core.errors import Unavailable

_CREATE, _DELETE, _MOVED_FROM, _MOVED_TO, _DELETE_SELF = 0x100, 0x200, 0x40, 0x80, 0x400
_ONLYDIR, _DONT_FOLLOW, _EXCL_UNLINK = 0x01000000, 0x02000000, 0x04000000
_OVERFLOW, _IGNORED, _ISDIR = 0x4000, 0x8000, 0x40000000
_MASK = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _ONLYDIR | _DONT_FOLLOW | _EXCL_UNLINK
_HEADER = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 16
_MAX_TAKEN = 100_000
"""Events held for a reader that does not come."""
_MAX_READS = 256  # 16 MiB of events: more than the kernel queues by default


class Change(StrEnum):
    """What happened in a watched directory."""

    CREATED = "created"
    DELETED = "deleted"
    RENAMED = "renamed"
    """A directory got this name: it is not new, its counters go on."""
    UNWATCHED = "unwatched"
    """The watched directory itself is gone."""
    OVERFLOW = "overflow"
    """Events were lost: look at everything again."""


@dataclass(frozen=True, slots=True)
class DirectoryEvent:
    """One change, in the order in which the kernel saw them. `watch` is -1 for an overflow."""

    watch: int
    change: Change
    name: str
    time_ns: int | None = None
    """When it was taken from the kernel, where a clock was given: within moments of when it happened."""


class DirectoryWatch:
    """Watches directories for directories made and removed in them; files are not reported."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        """With a `clock` a thread of its own takes events as they come and stamps them: inotify itself does not."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise _unavailable(ctypes.get_errno(), "inotify")
        self._descriptor: int | None = descriptor
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: list[DirectoryEvent] = []
        self._over = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread: threading.Thread | None = None

    def add(self, directory: Path) -> int:
        """Return the number of a new watch. Raises Unavailable (absent, permission, limit)."""
        assert self._descriptor is not None
        if self._clock is not None and self._thread is None:
            self._thread = threading.Thread(target=self._stamp_events, name="cgroup events", daemon=True)
            self._thread.start()
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if watch < 0:
            raise _unavailable(ctypes.get_errno(), str(directory))
        return watch

    def remove(self, watch: int) -> None:
        """End a watch; one that has ended already is fine."""
        if self._descriptor is not None:
            self._libc.inotify_rm_watch(self._descriptor, watch)

    def read(self) -> list[DirectoryEvent]:
        """Return what happened since the last call, without waiting."""
        with self._lock:
            self._take()
            events, self._taken = self._taken, []
        return events

    def close(self) -> None:
        """Give back the descriptor and with it every watch."""
        if self._descriptor is None:
            return
        if self._thread is not None:
            os.eventfd_write(self._over, 1)
            self._thread.join()
        os.close(self._descriptor)
        os.close(self._over)
        self._descriptor = None

    def _take(self) -> None:
        """Move what the kernel holds to what was taken; called with the lock held."""
        for _ in range(_MAX_READS):
            data = self._read_once()
            if not data:
                break
            time_ns = self._clock() if self._clock is not None else None
            self._taken.extend(parse_events(data, time_ns))

    def _stamp_events(self) -> None:
        assert self._descriptor is not None
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._over in ready:
                return
            with self._lock:
                if len(self._taken) < _MAX_TAKEN:
                    self._take()
                    continue
            poll.unregister(self._descriptor)  # nobody asks: the kernel keeps the rest, and says so if it has to drop

    def _read_once(self) -> bytes:
        assert self._descriptor is not None
        try:
            return os.read(self._descriptor, _BUFFER_BYTES)
        except BlockingIOError:
            return b""


def parse_events(data: bytes, time_ns: int | None = None) -> list[DirectoryEvent]:
    """Return the events of one read that concern directories; a piece cut short ends the list."""
    events = []
    offset = 0
    while offset + _HEADER.size <= len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, offset)
        raw = data[offset + _HEADER.size : offset + _HEADER.size + length]
        offset += _HEADER.size + length
        change = _change(mask)
        if change is not None:
            events.append(DirectoryEvent(watch, change, os.fsdecode(raw.split(b"\0", 1)[0]), time_ns))
    return events


def _change(mask: int) -> Change | None:
    if mask & _OVERFLOW:
        return Change.OVERFLOW
    if mask & _IGNORED:
        return Change.UNWATCHED
    if not mask & _ISDIR:
        return None
    if mask & _CREATE:
        return Change.CREATED
    if mask & (_DELETE | _MOVED_FROM):
        return Change.DELETED
    return Change.RENAMED if mask & _MOVED_TO else None


def _unavailable(code: int, place: str) -> Unavailable:
    if code in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV):
        reason = "absent"
    elif code in (errno.EACCES, errno.EPERM):
        reason = "permission"
    else:  # ENOSPC: fs.inotify.max_user_watches; EMFILE: max_user_instances
        reason = "limit"
    return Unavailable(reason, f"{place}: cannot be watched: {os.strerror(code)}")
