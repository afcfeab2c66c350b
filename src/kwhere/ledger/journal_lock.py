"""One agent per journal: a lock that the kernel gives back whatever ends the process."""

import fcntl
import os
from pathlib import Path

from kwhere.core.errors import JournalError


class JournalLock:
    """An exclusive lock on a file beside the journal, held from `take` to `release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> None:
        """Hold the lock. Raises JournalError `locked` if another process does, OSError if there can be no lock."""
        if self._descriptor is not None:
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise JournalError("locked", f"{self._path}: held by another agent, process {holder}") from error
        self._descriptor = descriptor
        self._sign(descriptor)

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _sign(self, descriptor: int) -> None:
        """Write the process id for a person to find; a full disk has room for no name and keeps the lock."""
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            return
