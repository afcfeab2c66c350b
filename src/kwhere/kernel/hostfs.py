"""The one door to kernel files: bounded reads below /proc, /sys and cgroupfs, live or recorded.

A path is written with its area in front: `proc/stat`, `sys/class/powercap`, `cgroup/system.slice/cpu.stat`.
A recorded host may hold two moments as `0/` and `1/` below an area; `select_snapshot` turns from one to the other.
"""

import errno
import os
import resource
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.numbers import decimal, excerpt

READ_LIMIT_BYTES = 1 << 20
READ_SIZE_BYTES = 16384
LONGEST_NAME = 128
RESERVED_DESCRIPTORS = 256
"""Left to sockets, the journal and reads that are not kept."""

# A multi-line kernel file comes in pieces of a page less one line, so only a read clearly shorter ends the file.
_SURELY_WHOLE_BYTES = 2048
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # never hang on a pipe in a copied tree
_SNAPSHOTS = ("0", "1")
_LONGEST_WAIT = 1 << 16
"""After so many questions at the latest, what was not found is looked for again."""

_REASONS = {
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.ENOENT: "absent",
    errno.ENOTDIR: "absent",
    errno.ENODEV: "absent",
    errno.ENXIO: "absent",
    errno.ESRCH: "absent",
    errno.EINVAL: "unsupported",
    errno.EIO: "unsupported",
    errno.ENODATA: "unsupported",
    errno.EOPNOTSUPP: "unsupported",
}


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One name in a directory; symbolic links are not followed."""

    name: str
    inode: int
    is_directory: bool


@dataclass(frozen=True, slots=True)
class CgroupRoots:
    """Where our own cgroup namespace begins in the trees."""

    paths: Mapping[str, str] = field(default_factory=dict)
    """By controllers of a line; none: at the root of the tree, or not found."""
    are_whole: bool = False
    """Whether every tree was looked through with success."""


def raise_descriptor_limit() -> int:
    """Return the number of files this process may hold open, after raising it as far as the kernel lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # the hard limit may lie above what the kernel grants: stay with what we have
            return soft
    return hard


def _is_mounted(procfs: Path) -> bool:
    """Return whether this is the kernel's procfs: its files have contents and the size 0, those of a copy do not."""
    try:
        return (procfs / "self" / "stat").stat().st_size == 0
    except OSError:
        return False


def path_number(area_path: str) -> int:
    """Return a number for a path that is the same on every machine."""
    return zlib.crc32("/".join(part for part in area_path.split("/") if part).encode(errors="surrogateescape"))


def failure(error: OSError, path: Path) -> Unavailable | SourceError:
    """Return what `error` on `path` means: Unavailable for a closed, absent or mute file, else SourceError."""
    reason = _REASONS.get(error.errno or 0)
    message = f"{path}: {os.strerror(error.errno) if error.errno else error}"
    return Unavailable(reason, message) if reason else SourceError(message)


class HostFS:
    """Kernel files of one host. Reads raise Unavailable (absent, permission, unsupported) or SourceError."""

    def __init__(
        self, procfs: Path = Path("/proc"), sysfs: Path = Path("/sys"), cgroupfs: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._given = {"proc": procfs, "sys": sysfs, "cgroup": cgroupfs}
        self._two_moments = {
            area: all((root / name).is_dir() for name in _SNAPSHOTS) for area, root in self._given.items()
        }
        self._roots = dict(self._given)
        self._kept = 0
        self._lock = threading.Lock()
        self.generation = 0
        """Rises with every change of snapshot: kept files then open anew."""
        self._cgroup_roots = CgroupRoots()
        self._wait = self._waited = 0
        self.is_recorded = not _is_mounted(procfs)
        """Whether the processes are a copy: their clock is then `proc/uptime`, not ours."""
        self.select_snapshot(0)

    @property
    def has_two_moments(self) -> bool:
        """Return whether any area holds a second snapshot."""
        return any(self._two_moments.values())

    def select_snapshot(self, index: int) -> None:
        """Read the areas that hold `0/` and `1/` from the one for sample `index`; later samples stay with the last."""
        name = _SNAPSHOTS[min(index, len(_SNAPSHOTS) - 1)]
        self._roots = {area: root / name if self._two_moments[area] else root for area, root in self._given.items()}
        self.generation += 1

    def cgroup_roots(self, look: Callable[["HostFS"], CgroupRoots]) -> Mapping[str, str]:
        """Return what `look` finds: once where it finds all, else again after 1, 2, 4, … further questions.

        A look may walk the trees, and every process is asked of.
        """
        if self._cgroup_roots.are_whole:
            return self._cgroup_roots.paths
        if self._waited < self._wait:
            self._waited += 1
            return self._cgroup_roots.paths
        self._wait, self._waited = min(2 * self._wait + 1, _LONGEST_WAIT), 0
        self._cgroup_roots = look(self)
        return self._cgroup_roots.paths

    def path(self, area_path: str) -> Path:
        """Return the real path, for watches and messages. A path that climbs out of its area is absent."""
        area, _, below = area_path.partition("/")
        root = self._roots.get(area)
        if root is None:
            raise ValueError(f"{area_path}: expected a path that starts with proc, sys or cgroup")
        if ".." in below.split("/") or "\0" in below:
            raise Unavailable("absent", f"{root}/{below}: lies outside {root}")
        return root / below.lstrip("/")

    def read(self, area_path: str, limit_bytes: int = READ_LIMIT_BYTES) -> bytes:
        """Return the whole file; one larger than `limit_bytes` is a SourceError."""
        data = self.read_head(area_path, limit_bytes + 1)
        if len(data) > limit_bytes:
            raise SourceError(f"{self.path(area_path)}: expected at most {limit_bytes} bytes, found more")
        return data

    def read_head(self, area_path: str, size_bytes: int) -> bytes:
        """Return the first `size_bytes` of the file, fewer where it is shorter."""
        path = self.path(area_path)
        try:
            descriptor = os.open(path, _OPEN_FLAGS)
            try:
                return read_on(descriptor, b"", size_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise failure(error, path) from error

    def read_text(self, area_path: str, limit_bytes: int = READ_LIMIT_BYTES) -> str:
        """Return the file as text; bytes that are not UTF-8 show as U+FFFD."""
        return self.read(area_path, limit_bytes).decode(errors="replace")

    def read_word(self, area_path: str) -> str:
        """Return the file's text without the white space around it."""
        return self.read_text(area_path).strip(" \t\r\n\0")

    def read_name(self, area_path: str) -> str:
        """Return a name that may stand in a label: one line, printable, not empty. Raises SourceError for others."""
        word = self.read_word(area_path)
        if not word or len(word) > LONGEST_NAME or not word.isprintable():
            raise SourceError(f"{self.path(area_path)}: expected a name, found {excerpt(word)}")
        return word

    def read_int(self, area_path: str) -> int:
        """Return the decimal number that the file holds. Raises SourceError for anything else."""
        return decimal(self.read_word(area_path), str(self.path(area_path)))

    def exists(self, area_path: str) -> bool:
        """Return whether the file or directory is there (links are followed)."""
        try:
            return self.path(area_path).exists()
        except (Unavailable, OSError):
            return False

    def list_dir(self, area_path: str) -> list[str]:
        """Return the names in a directory, sorted: the kernel's order means nothing."""
        path = self.path(area_path)
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise failure(error, path) from error

    def scan_dir(self, area_path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory with their inodes, by name."""
        path = self.path(area_path)
        numbered = self._numbered_by_path(area_path)
        try:
            with os.scandir(path) as entries:
                found = [
                    DirectoryEntry(
                        entry.name,
                        path_number(f"{area_path}/{entry.name}") if numbered else entry.inode(),
                        entry.is_dir(follow_symlinks=False),
                    )
                    for entry in entries
                ]
        except OSError as error:
            raise failure(error, path) from error
        return sorted(found, key=lambda entry: entry.name)

    def inode(self, area_path: str) -> int:
        """Return the inode of a file or directory; of one recorded at two moments, a number that both share."""
        path = self.path(area_path)
        try:
            found = path.stat().st_ino
        except OSError as error:
            raise failure(error, path) from error
        return path_number(area_path) if self._numbered_by_path(area_path) else found

    def _numbered_by_path(self, area_path: str) -> bool:
        """Return whether the files are copies of two moments: the copies of one file differ in their inodes."""
        return self._two_moments[area_path.partition("/")[0]]

    def read_link(self, area_path: str) -> str:
        """Return where a symbolic link points, as written (e.g. `proc/42/ns/net` → `net:[4026531840]`)."""
        path = self.path(area_path)
        try:
            return os.readlink(path)
        except OSError as error:
            raise failure(error, path) from error

    def keep(self, area_path: str) -> "KeptFile":
        """Return a file that stays open between reads; where descriptors run out it opens at each read instead."""
        return KeptFile(self, area_path)

    def take_descriptor(self) -> bool:
        """Return whether one more file may be kept open, and count it."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        with self._lock:
            if limit != resource.RLIM_INFINITY and self._kept >= limit - RESERVED_DESCRIPTORS:
                return False
            self._kept += 1
            return True

    def give_descriptor(self) -> None:
        """Count one kept file less."""
        with self._lock:
            self._kept -= 1

    @property
    def kept_files(self) -> int:
        """Return how many files are kept open."""
        return self._kept


class KeptFile:
    """One kernel file held open: `read` costs one system call. Belongs to one thread."""

    __slots__ = ("_descriptor", "_fs", "_generation", "area_path")

    def __init__(self, fs: HostFS, area_path: str) -> None:
        self.area_path = area_path
        self._fs = fs
        self._descriptor: int | None = None
        self._generation = fs.generation
        self._open()

    def read(self) -> bytes:
        """Return the file as it is now. Raises as HostFS.read does; a removed file is looked for anew next time."""
        if self._generation != self._fs.generation:
            self.close()
            self._generation = self._fs.generation
        if self._descriptor is None and not self._open():
            return self._fs.read(self.area_path)
        assert self._descriptor is not None
        try:
            data = os.pread(self._descriptor, READ_SIZE_BYTES, 0)
            if len(data) >= _SURELY_WHOLE_BYTES:
                data = read_on(self._descriptor, data, READ_LIMIT_BYTES + 1)
        except OSError as error:
            self.close()
            raise failure(error, self._fs.path(self.area_path)) from error
        if len(data) > READ_LIMIT_BYTES:
            raise SourceError(f"{self._fs.path(self.area_path)}: expected at most {READ_LIMIT_BYTES} bytes, found more")
        return data

    def close(self) -> None:
        """Give back the descriptor; a later read opens the file again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._fs.give_descriptor()

    def _open(self) -> bool:
        """Open the file and return True, or return False where no descriptor is left to keep."""
        path = self._fs.path(self.area_path)
        if not self._fs.take_descriptor():
            return False
        try:
            self._descriptor = os.open(path, _OPEN_FLAGS)
        except OSError as error:
            self._fs.give_descriptor()
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return False
            raise failure(error, path) from error
        return True


def read_on(descriptor: int, data: bytes, size_bytes: int) -> bytes:
    """Return `data` and what follows it in the file, up to `size_bytes` in all. Raises OSError."""
    pieces = [data]
    length = len(data)
    while length < size_bytes:
        piece = os.pread(descriptor, min(max(READ_SIZE_BYTES, length), size_bytes - length), length)
        if not piece:
            break
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)
