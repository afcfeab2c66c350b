"""A cgroup of its own for one command, as a child of the cgroup we are in; and what the kernel counted there."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroups import CgroupLayout, CpuFile, Hierarchy, detect_layout, process_ids
from kwhere.kernel.hostfs import HostFS

PREFIX = "kwhere-run-"
V1_CONTROLLERS = ("cpuacct", "memory", "blkio")
"""v1 hierarchies in which a child accounts something; others are left alone."""


class RunCgroup:
    """The directories of one run, one per hierarchy. Empty where nothing may be made: then the process tree serves."""

    def __init__(self, fs: HostFS, made: Sequence[tuple[Hierarchy, str]]) -> None:
        self._fs = fs
        self._made = tuple(made)
        self._directories = [fs.path(hierarchy.directory(path)) for hierarchy, path in made]
        self._cpu = self._open_cpu()

    def join(self) -> None:
        """Move the calling process in; called between fork and exec. A hierarchy that refuses is left out."""
        for directory in self._directories:
            with suppress(OSError):
                (directory / "cgroup.procs").write_text("0")

    def pids(self) -> frozenset[int]:
        """Return the processes in it and below it now."""
        return frozenset(pid for hierarchy, path in self._made for pid in process_ids(self._fs, hierarchy, path))

    def cpu_ns(self) -> int | None:
        """Return the CPU time of all that ever ran in it; None where not counted."""
        with suppress(Unavailable, SourceError):
            return self._cpu.read().total_ns if self._cpu else None
        return None

    def memory_peak_bytes(self) -> int | None:
        """Return the largest memory charged to it; None where not counted."""
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            for hierarchy, path in self._made:
                with suppress(Unavailable, SourceError):
                    return self._fs.read_int(hierarchy.file(path, name))
        return None

    def io_bytes(self) -> tuple[int, int] | None:
        """Return bytes read and written on devices; None where not counted."""
        for hierarchy, path in self._made:
            with suppress(Unavailable, SourceError):
                return _sum_v2(self._fs.read_text(hierarchy.file(path, "io.stat")))
            with suppress(Unavailable, SourceError):
                name = "blkio.throttle.io_service_bytes_recursive"
                return _sum_v1(self._fs.read_text(hierarchy.file(path, name)))
        return None

    def remove(self) -> None:
        """Remove the directories; one that still holds a process stays, and the kernel keeps counting it."""
        if self._cpu:
            self._cpu.close()
        for directory in self._directories:
            with suppress(OSError):
                directory.rmdir()

    def _open_cpu(self) -> CpuFile | None:
        for hierarchy, path in self._made:
            with suppress(Unavailable, SourceError):
                file = CpuFile(self._fs, hierarchy, path)
                file.read()
                return file
        return None


def make_run_cgroup(fs: HostFS, unit: str) -> RunCgroup:
    """Return a new child of our own cgroup wherever one may be made. Never raises: no permission is no directory."""
    made = []
    with suppress(Unavailable, SourceError):
        layout = detect_layout(fs)
        own = parse_own_paths(fs.read_text("proc/self/cgroup"))
        for hierarchy, parent in places(layout, own):
            if hierarchy.is_v2 and not is_delegated(fs.path(hierarchy.directory(parent))):
                continue
            path = f"{parent.rstrip('/')}/{PREFIX}{unit}"
            with suppress(OSError):
                fs.path(hierarchy.directory(path)).mkdir()
                made.append((hierarchy, path))
    return RunCgroup(fs, made)


def places(layout: CgroupLayout, own: Mapping[str, str]) -> Iterator[tuple[Hierarchy, str]]:
    """Yield hierarchy and our own path in it, where a child would account something and may be made."""
    for name in V1_CONTROLLERS:
        hierarchy = layout.controllers.get(name)
        if hierarchy is not None and name in own:
            yield hierarchy, own[name]
    # Beside v1 accounting a second count in the v2 tree would only be a second unit.
    if layout.unified is not None and "cpuacct" not in layout.controllers and "" in own:
        yield layout.unified, own[""]


def parse_own_paths(text: str) -> dict[str, str]:
    """Return our cgroup by v1 controller, and by "" for v2, from the text of `/proc/self/cgroup`."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update((name, path) for name in controllers.split(","))
    return paths


def is_delegated(directory: Path) -> bool:
    """Return whether a v2 cgroup was handed to us: systemd marks delegation; without systemd, write access decides."""
    if not Path("/run/systemd/system").is_dir():
        return os.access(directory, os.W_OK)
    for attribute in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            return os.getxattr(directory, attribute) == b"1"
    return False


def _sum_v2(text: str) -> tuple[int, int]:
    pairs = [word.partition("=") for word in text.split()]
    read = sum(int(value) for key, _, value in pairs if key == "rbytes")
    return read, sum(int(value) for key, _, value in pairs if key == "wbytes")


def _sum_v1(text: str) -> tuple[int, int]:
    rows = [line.split() for line in text.splitlines()]
    read = sum(int(row[2]) for row in rows if len(row) == 3 and row[1] == "Read")
    return read, sum(int(row[2]) for row in rows if len(row) == 3 and row[1] == "Write")
