"""Everything a cgroup's files tell about memory, I/O, throttling, pressure and tasks, v1 or v2, with kept files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.cgroup_places import paths_elsewhere
from kwhere.kernel.cgroups import CgroupLayout, Hierarchy, parse_cpu_stat, parse_cpuacct_stat, parse_number
from kwhere.kernel.hostfs import HostFS, KeptFile
from kwhere.kernel.numbers import counter, excerpt
from kwhere.kernel.pressure import parse_pressure

_UNLIMITED_BYTES = 1 << 62
"""v1 writes "no limit" as the largest whole number of pages below 2^63."""
_LOOKS = 4
_PRESSURES = ("cpu", "memory", "io")


@dataclass(slots=True)
class CgroupDetail:
    """Readings of one cgroup and all below it; None where its kernel or its controllers do not say."""

    cpu_user_ns: int | None = None
    cpu_system_ns: int | None = None
    throttled_ns: int | None = None
    memory_current_bytes: int | None = None
    memory_peak_bytes: int | None = None
    memory_anon_bytes: int | None = None
    memory_file_bytes: int | None = None
    memory_shmem_bytes: int | None = None
    memory_swap_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_swap_limit_bytes: int | None = None
    """`NO_LIMIT_BYTES` where it may use all the swap there is."""
    oom_kills: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    io_read_operations: int | None = None
    io_write_operations: int | None = None
    threads: int | None = None
    pressure_us: dict[tuple[str, str], int] = field(default_factory=dict)


NO_LIMIT_BYTES = 1 << 62
Take = Callable[[bytes, str, CgroupDetail], None]


@dataclass(frozen=True, slots=True)
class _Source:
    controller: str
    name: str
    take: Take


class DetailFiles:
    """The files of one cgroup, opened at the first reading; files that are not there are not asked for again.

    A hierarchy without the cgroup's path is looked into a few times: its processes may be moved there a moment later.
    """

    def __init__(self, fs: HostFS, layout: CgroupLayout, path: str) -> None:
        self._fs = fs
        self._layout = layout
        self._path = path
        self._files: list[tuple[KeptFile, Take]] | None = None
        self._looks_left = _LOOKS
        self._elsewhere: set[str] = set()
        """Controllers whose files were found at another path."""

    def read(self) -> tuple[CgroupDetail, list[SourceError]]:
        """Return what every readable file says and what was nonsense; a file that went is left out.

        Raises Unavailable (absent) if nothing can be read any more: the cgroup is gone.
        """
        if self._files is None:
            self._files = self._open(lambda controller: self._path)
        if self._looks_left:
            elsewhere = self._paths_elsewhere()
            self._files += self._open(elsewhere.get)
        detail = CgroupDetail()
        errors = []
        gone = 0
        for kept, take in self._files:
            try:
                take(kept.read(), kept.area_path, detail)
            except Unavailable as error:
                gone += error.reason == "absent"
            except SourceError as error:
                errors.append(error)
        if gone and gone == len(self._files):
            self.close()
            raise Unavailable("absent", f"{self._path}: the cgroup is gone")
        return detail, errors

    def close(self) -> None:
        """Give back the descriptors; the next reading looks for files anew."""
        for kept, _ in self._files or ():
            kept.close()
        self._files, self._looks_left, self._elsewhere = None, _LOOKS, set()

    def _open(self, path_in: Callable[[str], str | None]) -> list[tuple[KeptFile, Take]]:
        """Return the files there are below the path in each controller's hierarchy; None: look nowhere."""
        found: dict[Take, KeptFile] = {}
        for source in _SOURCES:
            hierarchy, path = _hierarchy_of(self._layout, source), path_in(source.controller)
            if hierarchy is None or path is None:
                continue
            try:
                kept = self._fs.keep(hierarchy.file(path, source.name))
            except (Unavailable, SourceError):
                continue
            plain = found.pop(source.take, None)  # the recursive file says it better
            if plain is not None:
                plain.close()
            found[source.take] = kept
        return [(kept, take) for take, kept in found.items()]

    def _paths_elsewhere(self) -> Mapping[str, str]:
        """Return the paths in the hierarchies that do not have the cgroup at its own; by v1 controller."""
        lacking = {
            name
            for name, hierarchy in self._layout.controllers.items()
            if name in _V1_CONTROLLERS - self._elsewhere and not self._fs.exists(hierarchy.directory(self._path))
        }
        found = paths_elsewhere(self._fs, self._layout.cpu[0], self._path) if lacking else {}
        found = {name: path for name, path in found.items() if name in lacking}
        self._elsewhere |= found.keys()
        self._looks_left = self._looks_left - 1 if lacking - found.keys() else 0
        return found


def _hierarchy_of(layout: CgroupLayout, source: _Source) -> Hierarchy | None:
    return layout.unified if source.controller == "unified" else layout.controllers.get(source.controller)


def parse_io_stat(data: bytes, place: str) -> tuple[int, int, int, int]:
    """Return bytes read, bytes written, reads, writes of a v2 `io.stat`, summed over devices. Raises SourceError."""
    sums = {b"rbytes": 0, b"wbytes": 0, b"rios": 0, b"wios": 0}
    for word in data.split():
        name, equals, value = word.partition(b"=")
        if equals and name in sums:
            sums[name] += counter(value.decode(errors="replace"), place)
    return sums[b"rbytes"], sums[b"wbytes"], sums[b"rios"], sums[b"wios"]


def parse_throttle(data: bytes, place: str) -> tuple[int, int]:
    """Return the Read and Write sums over devices of a v1 `blkio.throttle.*` file. Raises SourceError."""
    reads = writes = 0
    for line in data.decode(errors="replace").splitlines():
        words = line.split()
        if len(words) == 3 and words[1] == "Read":
            reads += counter(words[2], place)
        elif len(words) == 3 and words[1] == "Write":
            writes += counter(words[2], place)
        elif len(words) not in (2, 3):
            raise SourceError(f"{place}: expected DEVICE OPERATION NUMBER, found {excerpt(line)}")
    return reads, writes


def parse_limit(data: bytes, place: str) -> int | None:
    """Return a memory limit in bytes; None for `max` and for v1's largest number. Raises SourceError."""
    if data.strip() == b"max":
        return None
    value = parse_number(data, place)
    return value if value < _UNLIMITED_BYTES else None


def parse_selected(data: bytes, names: tuple[bytes, ...], place: str) -> dict[bytes, int]:
    """Return the numbers of some lines `name number` of a long file; unknown lines are not looked at."""
    found = {}
    for name in names:
        start = 0 if data.startswith(name + b" ") else data.find(b"\n" + name + b" ") + 1
        if start == 0 and not data.startswith(name + b" "):
            continue
        end = data.find(b"\n", start)
        value = data[start + len(name) + 1 : end if end >= 0 else len(data)]
        found[name] = parse_number(value, place)
    return found


def _take_number(attribute: str) -> Take:
    def take(data: bytes, place: str, detail: CgroupDetail) -> None:
        setattr(detail, attribute, parse_number(data, place))

    return take


def _take_lines(columns: Mapping[bytes, str], factor: int = 1) -> Take:
    names = tuple(columns)

    def take(data: bytes, place: str, detail: CgroupDetail) -> None:
        for name, value in parse_selected(data, names, place).items():
            setattr(detail, columns[name], value * factor)

    return take


def _take_pressure(resource: str) -> Take:
    def take(data: bytes, place: str, detail: CgroupDetail) -> None:
        reading = parse_pressure(data.decode(errors="replace"), place)
        for kind, value in (("some", reading.some_us), ("full", reading.full_us)):
            if value is not None:
                detail.pressure_us[resource, kind] = value

    return take


def _take_limit(data: bytes, place: str, detail: CgroupDetail) -> None:
    detail.memory_limit_bytes = parse_limit(data, place)


def _take_swap_limit(data: bytes, place: str, detail: CgroupDetail) -> None:
    limit = parse_limit(data, place)
    detail.memory_swap_limit_bytes = NO_LIMIT_BYTES if limit is None else limit


def _take_cpu_stat(data: bytes, place: str, detail: CgroupDetail) -> None:
    reading = parse_cpu_stat(data, place)
    detail.cpu_user_ns, detail.cpu_system_ns = reading.user_ns, reading.system_ns
    throttled = parse_selected(data, (b"throttled_usec",), place)
    if throttled:
        detail.throttled_ns = throttled[b"throttled_usec"] * 1000


def _take_cpuacct_stat(data: bytes, place: str, detail: CgroupDetail) -> None:
    detail.cpu_user_ns, detail.cpu_system_ns = parse_cpuacct_stat(data, place)


def _take_io_stat(data: bytes, place: str, detail: CgroupDetail) -> None:
    (
        detail.io_read_bytes,
        detail.io_write_bytes,
        detail.io_read_operations,
        detail.io_write_operations,
    ) = parse_io_stat(data, place)


def _take_service_bytes(data: bytes, place: str, detail: CgroupDetail) -> None:
    detail.io_read_bytes, detail.io_write_bytes = parse_throttle(data, place)


def _take_serviced(data: bytes, place: str, detail: CgroupDetail) -> None:
    detail.io_read_operations, detail.io_write_operations = parse_throttle(data, place)


# Later lines win where a host has both: v1 controllers over the v2 tree of a hybrid host, recursive over plain.
# cpuacct.stat is in ticks but scaled to the exact total; cpuacct.usage_user and _sys are finer and only sampled.
_SOURCES = (
    _Source("unified", "cpu.stat", _take_cpu_stat),
    _Source("unified", "memory.current", _take_number("memory_current_bytes")),
    _Source("unified", "memory.peak", _take_number("memory_peak_bytes")),
    _Source("unified", "memory.swap.current", _take_number("memory_swap_bytes")),
    _Source("unified", "memory.max", _take_limit),
    _Source("unified", "memory.swap.max", _take_swap_limit),
    _Source(
        "unified",
        "memory.stat",
        _take_lines({b"anon": "memory_anon_bytes", b"file": "memory_file_bytes", b"shmem": "memory_shmem_bytes"}),
    ),
    _Source("unified", "memory.events", _take_lines({b"oom_kill": "oom_kills"})),
    _Source("unified", "io.stat", _take_io_stat),
    _Source("unified", "pids.current", _take_number("threads")),
    *(_Source("unified", f"{resource}.pressure", _take_pressure(resource)) for resource in _PRESSURES),
    _Source("cpuacct", "cpuacct.stat", _take_cpuacct_stat),
    _Source("cpu", "cpu.stat", _take_lines({b"throttled_time": "throttled_ns"})),
    _Source("memory", "memory.usage_in_bytes", _take_number("memory_current_bytes")),
    _Source("memory", "memory.max_usage_in_bytes", _take_number("memory_peak_bytes")),
    _Source("memory", "memory.limit_in_bytes", _take_limit),
    _Source(
        "memory",
        "memory.stat",
        _take_lines(
            {
                b"total_rss": "memory_anon_bytes",
                b"total_cache": "memory_file_bytes",
                b"total_shmem": "memory_shmem_bytes",
                b"total_swap": "memory_swap_bytes",
            }
        ),
    ),
    _Source("memory", "memory.oom_control", _take_lines({b"oom_kill": "oom_kills"})),
    _Source("blkio", "blkio.throttle.io_service_bytes", _take_service_bytes),
    _Source("blkio", "blkio.throttle.io_service_bytes_recursive", _take_service_bytes),
    _Source("blkio", "blkio.throttle.io_serviced", _take_serviced),
    _Source("blkio", "blkio.throttle.io_serviced_recursive", _take_serviced),
    _Source("pids", "pids.current", _take_number("threads")),
)
_V1_CONTROLLERS = frozenset(source.controller for source in _SOURCES) - {"unified"}
