"""The directories above units and those of daemons: what units that ended left behind, and what is `system`."""

from collections.abc import Callable
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.discovery.unit_source import CpuReading, ParentReading
from kwhere.kernel.cgroups import CgroupLayout, CpuFile, Hierarchy
from kwhere.kernel.hostfs import HostFS


@dataclass(slots=True)
class _Parent:
    hierarchy: Hierarchy
    is_daemon: bool
    mixed: bool
    file: CpuFile | None = None
    last: CpuReading | None = None


class Parents:
    """Reads every parent that stands; read after the units, the root last."""

    def __init__(self, fs: HostFS, layout: CgroupLayout) -> None:
        self._fs = fs
        self._parents: dict[str, _Parent] = {"/": _Parent(layout.cpu[0], is_daemon=False, mixed=True)}

    def add(self, path: str, hierarchy: Hierarchy) -> None:
        """Follow a directory above units; one that is followed already stays as it is."""
        self._parents.setdefault(path, _Parent(hierarchy, is_daemon=False, mixed=False))

    def add_daemon(self, path: str, hierarchy: Hierarchy) -> None:
        """Follow a daemon's directory. Units may lie in it beside the daemon's own processes."""
        known = self._parents.get(path)
        if known is None or not known.is_daemon:
            keeps_to_itself = not path.endswith("slurmstepd.scope")  # holds jobs and one sleeping process
            self._parents[path] = _Parent(hierarchy, is_daemon=True, mixed=keeps_to_itself)

    def follows(self, path: str) -> bool:
        """Return whether the directory is followed."""
        return path in self._parents

    def is_daemon(self, path: str) -> bool:
        """Return whether a daemon's directory is followed under this path."""
        parent = self._parents.get(path)
        return parent is not None and parent.is_daemon

    def daemons_below(self, path: str) -> list[tuple[str, int]]:
        """Return path and last CPU time of the daemons below `path`."""
        return [
            (below, parent.last.total_ns)
            for below, parent in self._parents.items()
            if parent.is_daemon and parent.last is not None and below.startswith(f"{path}/")
        ]

    def drop(self, path: str) -> None:
        """Stop following a directory that is gone; the root stays."""
        if path != "/":
            parent = self._parents.pop(path, None)
            if parent is not None and parent.file is not None:
                parent.file.close()

    def read(self, is_inside_unit: Callable[[str], bool]) -> list[ParentReading]:
        """Return a reading of each, deepest first; those inside a unit are that unit's own, but for daemons."""
        found = []
        for path in sorted(self._parents, key=lambda path: (-path.count("/") if path != "/" else 1, path)):
            parent = self._parents[path]
            if not parent.is_daemon and is_inside_unit(path):
                continue
            reading = self._read(path, parent)
            if reading is not None:
                found.append(ParentReading(path, reading, unit=None, mixed=parent.mixed))
        return found

    def close(self) -> None:
        """Give back the descriptors."""
        for parent in self._parents.values():
            if parent.file is not None:
                parent.file.close()

    def _read(self, path: str, parent: _Parent) -> CpuReading | None:
        try:
            if parent.file is None:
                parent.file = CpuFile(self._fs, parent.hierarchy, path)
            parent.last = parent.file.read()
        except Unavailable as error:
            if error.reason == "absent":
                self.drop(path)
            return None
        except SourceError:
            return parent.last
        return parent.last
