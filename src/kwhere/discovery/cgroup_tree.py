"""Which cgroup directories there are: by events on the directories that may hold units, with scans as a net."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroups import MAX_DEPTH, Hierarchy, child_directories
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.inotify import Change, DirectoryEvent, DirectoryWatch


@dataclass(frozen=True, slots=True)
class Appeared:
    """A directory that was not known. `created`: seen being made; `new`: it was not there at the last full scan."""

    hierarchy: Hierarchy
    path: str
    inode: int | None
    created: bool
    new: bool
    time_ns: int | None = None
    """Boot time at which it was made; None where only a scan found it."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """A known directory that is gone."""

    hierarchy: Hierarchy
    path: str
    time_ns: int | None = None
    """Boot time at which it was removed; None where only a scan missed it."""


TreeChange = Appeared | Vanished


@dataclass(slots=True)
class _Directory:
    inode: int | None
    watch: int | None = None
    children: dict[str, "_Directory"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Found:
    inode: int | None
    created: bool
    new: bool


class CgroupTree:
    """The directories of some hierarchies, looked into as far as `looks_into` says.

    Events are taken in order; a directory made and removed between two calls appears and vanishes.
    """

    def __init__(
        self,
        fs: HostFS,
        hierarchies: tuple[Hierarchy, ...],
        looks_into: Callable[[str], bool],
        max_watches: int,
        boottime_ns: Callable[[], int] | None = None,
    ) -> None:
        """`boottime_ns` gives changes that events tell a time."""
        self._fs = fs
        self._looks_into = looks_into
        self._max_watches = max_watches
        self._roots = {hierarchy: _Directory(None) for hierarchy in hierarchies}
        self._watched: dict[int, tuple[Hierarchy, str]] = {}
        self._scanned = False
        self._watch = _open_watch(fs, boottime_ns)
        self.overflows = 0
        """How often events were lost, or could not be asked for, and a scan made up for it."""

    @property
    def watches(self) -> int:
        """Return how many directories are watched."""
        return len(self._watched)

    def scan(self) -> list[TreeChange]:
        """Return what a full look at every hierarchy finds changed. Events so far are taken in first."""
        changes = self.changes() if self._scanned else []
        for hierarchy, root in self._roots.items():
            changes.extend(self._rescan(hierarchy, "/", root, created=False, new=self._scanned))
        self._scanned = True
        return changes

    def changes(self) -> list[TreeChange]:
        """Return what events tell since the last call; lost events bring a full scan."""
        if self._watch is None:
            return []
        changes: list[TreeChange] = []
        lost = False
        for event in self._watch.read():
            if event.change is Change.OVERFLOW:
                lost = True
            else:
                changes.extend(replace(change, time_ns=event.time_ns) for change in self._take(event))
        if lost:
            self.overflows += 1
            for hierarchy, root in self._roots.items():
                changes.extend(self._rescan(hierarchy, "/", root, created=False, new=self._scanned))
        return changes

    def close(self) -> None:
        """Give back the watches."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _take(self, event: DirectoryEvent) -> Iterator[TreeChange]:
        place = self._watched.get(event.watch)
        if place is None:
            return
        hierarchy, path = place
        parent = self._find(hierarchy, path)
        if event.change is Change.UNWATCHED:
            del self._watched[event.watch]
            if parent is not None and parent.watch == event.watch:
                parent.watch = None
            return
        if parent is None or parent.watch != event.watch:  # of a directory that had this path before
            return
        below = f"{path.rstrip('/')}/{event.name}"
        if event.change is Change.DELETED:
            yield from self._forget(hierarchy, below, parent, event.name)
            return
        inode = self._inode(hierarchy, below)
        known = parent.children.get(event.name)
        if known is not None:
            if inode is None or known.inode == inode:
                return  # a listing was faster than the event
            yield from self._forget(hierarchy, below, parent, event.name)
        is_new = event.change is Change.CREATED
        yield from self._learn(hierarchy, below, parent, event.name, _Found(inode, created=is_new, new=is_new))

    def _rescan(
        self, hierarchy: Hierarchy, path: str, directory: _Directory, *, created: bool, new: bool
    ) -> Iterator[TreeChange]:
        """Yield how the children of a directory differ from what is known, all the way down."""
        if path != "/" and not self._looks_into(path):
            return
        if directory.watch is None:
            self._add_watch(hierarchy, path, directory)
        try:
            found = dict(child_directories(self._fs, hierarchy, path))
        except (Unavailable, SourceError):
            found = {}
        for name in [name for name in directory.children if name not in found]:
            yield from self._forget(hierarchy, f"{path.rstrip('/')}/{name}", directory, name)
        if path.count("/") >= MAX_DEPTH:
            return
        for name, inode in found.items():
            below = f"{path.rstrip('/')}/{name}"
            known = directory.children.get(name)
            if known is not None and known.inode not in (inode, None) and not self._fs.is_recorded:
                yield from self._forget(hierarchy, below, directory, name)
                known = None
            if known is None:
                yield from self._learn(hierarchy, below, directory, name, _Found(inode, created=created, new=new))
            else:
                known.inode = inode
                yield from self._rescan(hierarchy, below, known, created=created, new=new)

    def _learn(
        self, hierarchy: Hierarchy, path: str, parent: _Directory, name: str, found: _Found
    ) -> Iterator[TreeChange]:
        directory = _Directory(found.inode)
        parent.children[name] = directory
        yield Appeared(hierarchy, path, found.inode, created=found.created, new=found.new)
        yield from self._rescan(hierarchy, path, directory, created=found.created, new=found.new)

    def _forget(self, hierarchy: Hierarchy, path: str, parent: _Directory, name: str) -> Iterator[TreeChange]:
        directory = parent.children.pop(name, None)
        if directory is None:
            return
        yield from self._forget_below(hierarchy, path, directory)

    def _forget_below(self, hierarchy: Hierarchy, path: str, directory: _Directory) -> Iterator[TreeChange]:
        for name, child in directory.children.items():
            yield from self._forget_below(hierarchy, f"{path}/{name}", child)
        if directory.watch is not None and self._watch is not None:
            self._watch.remove(directory.watch)
        yield Vanished(hierarchy, path)

    def _find(self, hierarchy: Hierarchy, path: str) -> _Directory | None:
        directory: _Directory | None = self._roots[hierarchy]
        for name in path.split("/"):
            if name and directory is not None:
                directory = directory.children.get(name)
        return directory

    def _add_watch(self, hierarchy: Hierarchy, path: str, directory: _Directory) -> None:
        if self._watch is None or len(self._watched) >= self._max_watches:
            return
        try:
            directory.watch = self._watch.add(self._fs.path(hierarchy.directory(path)))
        except Unavailable as error:
            if error.reason == "limit":  # the kernel gives no more: the scan has to do
                self._max_watches = len(self._watched)
                self.overflows += 1
            return
        self._watched[directory.watch] = hierarchy, path

    def _inode(self, hierarchy: Hierarchy, path: str) -> int | None:
        try:
            return self._fs.inode(hierarchy.directory(path))
        except (Unavailable, SourceError):
            return None


def _open_watch(fs: HostFS, boottime_ns: Callable[[], int] | None) -> DirectoryWatch | None:
    if fs.is_recorded:
        return None
    try:
        return DirectoryWatch(boottime_ns)
    except Unavailable:
        return None
