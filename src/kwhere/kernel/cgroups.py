"""Control groups: which hierarchies there are, what lies in them, and CPU time with kept files.

A unit's path is the same in every hierarchy that has it; the CPU hierarchies are asked in order (v1 cpuacct, then v2).
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import USER_HZ_NANOSECONDS
from kwhere.kernel.hostfs import HostFS, KeptFile, failure
from kwhere.kernel.numbers import counter, excerpt

MAX_DEPTH = 24
_V1_CONTROLLERS = frozenset(
    {"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb"}
    | {"memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"}
)
_PROCS_LIMIT_BYTES = 1 << 22


class CgroupVersion(StrEnum):
    """Which hierarchies to use; `auto` takes all there are."""

    AUTO = "auto"
    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree, as a HostFS path prefix: `cgroup`, `cgroup/cpuacct`, `cgroup/unified`."""

    prefix: str
    is_v2: bool

    def file(self, path: str, name: str) -> str:
        """Return the HostFS path of a file of the cgroup `path` (`/` is the root)."""
        return f"{self.prefix}{path.rstrip('/')}/{name}"

    def directory(self, path: str) -> str:
        """Return the HostFS path of the cgroup's directory."""
        return f"{self.prefix}{path.rstrip('/')}"


@dataclass(frozen=True, slots=True)
class CgroupLayout:
    """What is mounted: `cpu` in order of preference, `controllers` by v1 name, `unified` if there is a v2 tree."""

    cpu: tuple[Hierarchy, ...]
    controllers: Mapping[str, Hierarchy]
    unified: Hierarchy | None

    @property
    def name(self) -> str:
        """Return v1, v2 or hybrid."""
        if not self.controllers:
            return "v2"
        return "hybrid" if self.unified else "v1"


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU time of a cgroup and all below it since it was made, nanoseconds; None where not told."""

    total_ns: int
    user_ns: int | None = None
    system_ns: int | None = None
    per_cpu_ns: tuple[int, ...] | None = None
    """By CPU number, where it was asked for and the kernel tells (v1 `cpuacct.usage_percpu`)."""


def detect_layout(fs: HostFS, version: CgroupVersion = CgroupVersion.AUTO) -> CgroupLayout:
    """Return the layout by looking at the directories: a recorded tree has no mount table of its own.

    Raises Unavailable where no hierarchy tells CPU time.
    """
    unified = _unified(fs)
    controllers = {} if unified is not None and unified.prefix == "cgroup" else _controllers(fs)
    if unified is None and not controllers and _has_directories(fs):
        unified = Hierarchy("cgroup", is_v2=True)  # a copied tree without the files of its root
    if version is CgroupVersion.V1:
        unified = None
    if version is CgroupVersion.V2:
        controllers = {}
    accounting = controllers.get("cpuacct", controllers.get("cpu"))
    cpu = tuple(h for h in (accounting, unified) if h is not None)
    if not cpu:
        raise Unavailable("absent", f"{fs.path('cgroup')}: expected a cgroup {version} tree with CPU time, found none")
    return CgroupLayout(cpu, controllers, unified)


def child_directories(fs: HostFS, hierarchy: Hierarchy, path: str) -> list[tuple[str, int]]:
    """Return name and inode of the cgroups right below `path`, by name. Raises Unavailable if it is gone."""
    directory = fs.path(hierarchy.directory(path))
    try:
        if not fs.is_recorded and os.stat(directory).st_nlink == 2:
            return []  # kernfs counts child directories in the links: none here, spare the listing
        with os.scandir(directory) as entries:
            return sorted((e.name, e.inode()) for e in entries if e.is_dir(follow_symlinks=False))
    except OSError as error:
        raise failure(error, directory) from error


def descend(fs: HostFS, hierarchy: Hierarchy, path: str, depth: int = MAX_DEPTH) -> Iterator[str]:
    """Yield `path` and every cgroup below it; what vanishes on the way is left out."""
    yield path
    if depth <= 0:
        return
    try:
        children = child_directories(fs, hierarchy, path)
    except (Unavailable, SourceError):
        return
    for name, _ in children:
        yield from descend(fs, hierarchy, f"{path.rstrip('/')}/{name}", depth - 1)


def process_ids(fs: HostFS, hierarchy: Hierarchy, path: str) -> list[int]:
    """Return the processes in the cgroup and below it. Those of a foreign pid namespace (0) are left out."""
    found: dict[int, None] = {}
    for below in descend(fs, hierarchy, path):
        try:
            data = fs.read(hierarchy.file(below, "cgroup.procs"), _PROCS_LIMIT_BYTES)
        except (Unavailable, SourceError):  # gone, or a threaded v2 cgroup: its processes show further up
            continue
        found.update((int(word), None) for word in data.split() if word.isdigit() and word != b"0")
    return list(found)


def is_populated(fs: HostFS, hierarchy: Hierarchy, path: str) -> bool | None:
    """Return whether a process lives in the cgroup or below it; None where nothing tells (a copied tree)."""
    if hierarchy.is_v2:
        try:
            words = fs.read(hierarchy.file(path, "cgroup.events")).split()
        except (Unavailable, SourceError):
            return None
        return words[words.index(b"populated") + 1 :][:1] == [b"1"] if b"populated" in words else None
    known = False
    for below in descend(fs, hierarchy, path):
        try:
            if fs.read_head(hierarchy.file(below, "cgroup.procs"), 16).strip():
                return True
            known = True
        except (Unavailable, SourceError):
            continue
    return False if known else None


class CpuFile:
    """CPU time of one cgroup through a kept file; user and system time come along only in v2, CPUs only in v1."""

    __slots__ = ("_file", "_parse", "_per_cpu", "hierarchy")

    def __init__(self, fs: HostFS, hierarchy: Hierarchy, path: str, *, per_cpu: bool = False) -> None:
        self.hierarchy = hierarchy
        self._parse = parse_cpu_stat if hierarchy.is_v2 else _parse_usage
        try:
            self._file: KeptFile = fs.keep(hierarchy.file(path, "cpu.stat" if hierarchy.is_v2 else "cpuacct.usage"))
        except Unavailable as error:
            if hierarchy.is_v2 or error.reason != "absent":
                raise
            self._parse = _parse_ticks
            self._file = fs.keep(hierarchy.file(path, "cpuacct.stat"))
        self._per_cpu: KeptFile | None = None
        if per_cpu and not hierarchy.is_v2:
            with contextlib.suppress(Unavailable, SourceError):
                self._per_cpu = fs.keep(hierarchy.file(path, "cpuacct.usage_percpu"))

    def read(self) -> CpuTime:
        """Return CPU time so far. Raises Unavailable if the cgroup is gone, SourceError for nonsense."""
        found = self._parse(self._file.read(), self._file.area_path)
        if self._per_cpu is None:
            return found
        return CpuTime(found.total_ns, per_cpu_ns=parse_per_cpu(self._per_cpu.read(), self._per_cpu.area_path))

    def close(self) -> None:
        """Give back the descriptors."""
        self._file.close()
        if self._per_cpu is not None:
            self._per_cpu.close()


def parse_number(data: bytes, place: str) -> int:
    """Return the one number that a file holds. Raises SourceError."""
    word = data.strip()
    if not word.isdigit() or len(word) > 20:
        raise SourceError(f"{place}: expected a number, found {excerpt(data.decode(errors='replace'))}")
    return int(word)


def _parse_usage(data: bytes, place: str) -> CpuTime:
    return CpuTime(parse_number(data, place))


def _parse_ticks(data: bytes, place: str) -> CpuTime:
    user_ns, system_ns = parse_cpuacct_stat(data, place)
    return CpuTime(user_ns + system_ns, user_ns, system_ns)


def parse_per_cpu(data: bytes, place: str) -> tuple[int, ...]:
    """Return nanoseconds by CPU number of a v1 `cpuacct.usage_percpu`. Raises SourceError."""
    return tuple(parse_number(word, place) for word in data.split())


def parse_cpu_stat(data: bytes, place: str) -> CpuTime:
    """Return CPU time of a v2 `cpu.stat`. Raises SourceError where a number or the total is missing."""
    words = data.split(None, 6)
    if len(words) >= 6 and words[0] == b"usage_usec" and words[2] == b"user_usec" and words[4] == b"system_usec":
        total, user, system = words[1], words[3], words[5]  # the order of every kernel so far
        if total.isdigit() and user.isdigit() and system.isdigit():
            return CpuTime(int(total) * 1000, int(user) * 1000, int(system) * 1000)
    fields = parse_fields(data, place)
    if "usage_usec" not in fields:
        raise SourceError(f"{place}: expected usage_usec, found {excerpt(data.decode(errors='replace'))}")
    user_us, system_us = fields.get("user_usec"), fields.get("system_usec")
    return CpuTime(
        fields["usage_usec"] * 1000,
        None if user_us is None else user_us * 1000,
        None if system_us is None else system_us * 1000,
    )


def parse_cpuacct_stat(data: bytes, place: str) -> tuple[int, int]:
    """Return user and system nanoseconds of a v1 `cpuacct.stat`, which counts in ticks. Raises SourceError."""
    fields = parse_fields(data, place)
    if "user" not in fields or "system" not in fields:
        raise SourceError(f"{place}: expected user and system, found {excerpt(data.decode(errors='replace'))}")
    return fields["user"] * USER_HZ_NANOSECONDS, fields["system"] * USER_HZ_NANOSECONDS


def parse_fields(data: bytes, place: str) -> dict[str, int]:
    """Return a file of lines `name number`. Raises SourceError for a line of another form."""
    fields: dict[str, int] = {}
    for line in data.decode(errors="replace").splitlines():
        name, space, value = line.partition(" ")
        if not space:
            raise SourceError(f"{place}: expected lines of a name and a number, found {excerpt(line)}")
        fields[name] = counter(value.strip(), place)
    return fields


def _unified(fs: HostFS) -> Hierarchy | None:
    for prefix in ("cgroup", "cgroup/unified"):
        if fs.exists(f"{prefix}/cgroup.controllers"):
            return Hierarchy(prefix, is_v2=True)
    return None


def _controllers(fs: HostFS) -> dict[str, Hierarchy]:
    """Return the v1 hierarchies by controller; `cpu,cpuacct` serves both, its links are the same tree."""
    try:
        names = fs.list_dir("cgroup")
    except (Unavailable, SourceError):
        return {}
    found: dict[str, Hierarchy] = {}
    for name in sorted(names, key=lambda name: -name.count(",")):  # joined mounts first, their links after
        if not _V1_CONTROLLERS.issuperset(name.split(",")) or not fs.path(f"cgroup/{name}").is_dir():
            continue
        for controller in name.split(","):
            found.setdefault(controller, Hierarchy(f"cgroup/{name}", is_v2=False))
    return found


def _has_directories(fs: HostFS) -> bool:
    try:
        return any(entry.is_directory for entry in fs.scan_dir("cgroup"))
    except (Unavailable, SourceError):
        return False
