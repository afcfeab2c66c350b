"""What a node knows of a unit at no server's cost: names, owner, native id, size."""

import os
import pwd
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import SourceError, Unavailable
from kwhere.discovery.match import Match
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_cgroup_text, read_command, read_environment, read_owner, read_stat

_NAME_LENGTH = 256
_PROCESSES_ASKED = 16
"""A unit's first processes know as much as its last; a job may have thousands."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What could be found out; None is unknown."""

    native_id: str | None = None
    """The manager's id where the path holds only a stand-in."""
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    project: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    cpus: int | None = None
    """CPUs the manager itself says it gave."""
    starting_cpus: int | None = None
    """CPUs it began with; others may have come or gone since."""
    memory_bytes: int | None = None
    started_seconds: int | None = None
    """UTC second of the run's start, by somebody who saw it begin."""


class UserNames:
    """User names by uid, asked once each: a directory service may be slow. A copied tree has no users but root."""

    def __init__(self, fs: HostFS) -> None:
        self._live = not fs.is_recorded
        self._names: dict[int, str] = {0: "root"}

    def __call__(self, uid: int) -> str:
        """Return the name, or the number where there is none."""
        name = self._names.get(uid)
        if name is None:
            name = self._names[uid] = self._look_up(uid)
        return name

    def _look_up(self, uid: int) -> str:
        if self._live:
            try:
                return pwd.getpwuid(uid).pw_name
            except (KeyError, OverflowError):
                pass
        return str(uid)

    def home(self, uid: int) -> Path | None:
        """Return the home directory of a user of this machine."""
        if not self._live:
            return None
        try:
            return Path(pwd.getpwuid(uid).pw_dir)
        except (KeyError, OverflowError):
            return None


class Witness:
    """The processes of one unit, asked on demand: what they were started with, as what, and by whom."""

    def __init__(
        self, fs: HostFS, settings: UnitsSettings, users: UserNames, pids: Callable[[], Sequence[int]]
    ) -> None:
        self.settings = settings
        self.users = users
        self._fs = fs
        self._pids = pids
        self._asked: Sequence[int] | None = None

    def commands(self) -> Iterator[list[str]]:
        """Yield the command lines that can be read."""
        for pid in self._first():
            try:
                yield read_command(self._fs, pid)
            except (Unavailable, SourceError):
                continue

    def cgroup_texts(self) -> Iterator[str]:
        """Yield the texts of `/proc/PID/cgroup` that can be read."""
        for pid in self._first():
            try:
                yield read_cgroup_text(self._fs, pid)
            except (Unavailable, SourceError):
                continue

    def environments(self, names: Collection[str]) -> Iterator[dict[str, str]]:
        """Yield `names` out of the environments that may be read."""
        for pid in self._first():
            try:
                found = read_environment(self._fs, pid, names)
            except (Unavailable, SourceError):
                continue
            if found:
                yield found

    def owner(self) -> int | None:
        """Return the uid of the first process that is not root's, else root if there is any process."""
        seen: int | None = None
        for pid in self._first():
            try:
                seen = read_owner(self._fs, pid)
            except (Unavailable, SourceError):
                continue
            if seen != 0:
                return seen
        return seen

    def leader(self) -> int | None:
        """Return the uid of the process that began first; what it starts may be others', as cron's jobs are."""
        began: list[tuple[int, int]] = []
        for pid in self._first():
            try:
                began.append((read_stat(self._fs, pid).start_ticks, pid))
            except (Unavailable, SourceError):
                continue
        for _, pid in sorted(began):
            try:
                return read_owner(self._fs, pid)
            except (Unavailable, SourceError):
                continue
        return None

    def _first(self) -> Sequence[int]:
        if self._asked is None:
            self._asked = self._pids()[:_PROCESSES_ASKED]
        return self._asked


FactSource = Callable[[Match, Witness], Facts]


def printable(text: str) -> str:
    """Return `text` fit for labels and terminals: what is no printable character shows as U+FFFD, and not too long.

    Names come from processes and jobs, so from anybody: none may move a cursor or fill a page.
    """
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text[:_NAME_LENGTH])


def read_small(path: Path, limit_bytes: int = 1 << 20) -> str | None:
    """Return a small file of the host, None where it is absent, closed or larger than any of its kind."""
    try:
        with path.open("rb", buffering=0) as file:
            data = file.read(limit_bytes + 1)
    except OSError:
        return None
    return None if data is None or len(data) > limit_bytes else data.decode(errors="replace")


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory of the host, sorted; none where it is absent or closed."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def is_there(path: Path) -> bool:
    """Return whether a directory of the host is there; one that is closed to us is, and reading it will say so."""
    try:
        return path.is_dir()
    except OSError:
        return True
