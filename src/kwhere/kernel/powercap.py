"""Zones of the powercap tree (Documentation/power/powercap/powercap.rst), whatever driver made them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS, KeptFile
from kwhere.kernel.numbers import counter

POWERCAP_DIRECTORY = "sys/class/powercap"
_DEVICES = "sys/devices/virtual/powercap"
"""Where the links of the class lead: all there is in a tree that was copied without links."""
# `<control type>:<id>[:<id>…]`, ids in hexadecimal; the control type is the driver's: intel-rapl, arm-scmi, …
_ZONE = re.compile(r"([^:]+)((?::[0-9a-fA-F]+)+)")
_LIMIT = re.compile(r"constraint_(\d{1,3})_power_limit_uw")
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class PowercapZone:
    """One zone with an energy counter. `name` says what it measures; directory numbers mean nothing."""

    path: str
    """Area path of the directory."""
    directory: str
    """Its last part, e.g. `intel-rapl:0:1`: unique within the host."""
    control_type: str
    name: str
    parent: str | None
    """Directory name of the enclosing zone."""
    range_uj: int | None
    """`max_energy_range_uj` as the kernel says it; None where it does not."""
    enabled: bool | None
    """Whether power limiting is on; counters mostly run either way."""
    limits_uw: tuple[int, ...]

    @property
    def order(self) -> tuple[str, tuple[int, ...]]:
        """Return the sort key of the directory: control type, then ids as numbers."""
        ids = self.directory.split(":")[1:]
        return self.control_type, tuple(int(number, 16) for number in ids)


def find_zones(fs: HostFS, file: str = "energy_uj") -> list[PowercapZone]:
    """Return every zone that has an energy counter, readable or not, in directory order; or that has another `file`.

    Raises Unavailable where the kernel has no powercap. A zone without a name is left out.
    """
    found: dict[str, PowercapZone] = {}
    root = _DEVICES if fs.exists(_DEVICES) and not fs.exists(POWERCAP_DIRECTORY) else POWERCAP_DIRECTORY
    for path in _zone_paths(fs, root, _DEEPEST, root):
        zone = _zone(fs, path, file)
        if zone is not None:
            found.setdefault(zone.directory, zone)
    return sorted(found.values(), key=lambda zone: zone.order)


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """One constraint of one zone. The kernel writes "no limit" as a very large one; 0 may mean the same."""

    zone: PowercapZone
    constraint: str
    """`long_term`, `short_term`, `peak_power`, …; its number where it has no name."""
    power_uw: int


def read_limits(fs: HostFS, zones: Iterable[PowercapZone]) -> list[PowerLimit]:
    """Return the limits in force, by zone and number; each of their files is optional (some zones have none)."""
    found: list[PowerLimit] = []
    for zone in zones:
        for number, path in _limit_files(fs, zone.path):
            power_uw = _number(fs, path)
            if power_uw is not None:
                found.append(PowerLimit(zone, _word(fs, f"{zone.path}/constraint_{number}_name") or number, power_uw))
    return found


class ZoneFile:
    """The energy counter of one zone, or another of its numbers, kept open."""

    __slots__ = ("_file", "_place")

    def __init__(self, fs: HostFS, zone: PowercapZone, file: str = "energy_uj") -> None:
        """Open the counter. Raises Unavailable (permission, absent, unsupported) or SourceError."""
        path = f"{zone.path}/{file}"
        self._place = str(fs.path(path))
        self._file: KeptFile = fs.keep(path)

    def read(self) -> int:
        """Return the number as it stands, in the unit of its file. Raises Unavailable or SourceError."""
        return counter(self._file.read().decode("ascii", "replace").strip(), self._place)

    def close(self) -> None:
        """Give back the file descriptor."""
        self._file.close()


def _zone_paths(fs: HostFS, directory: str, depth: int, root: str) -> Iterator[str]:
    """Yield zone directories: the kernel lists them flat, a copied tree may only have them nested."""
    try:
        names = fs.list_dir(directory)
    except (Unavailable, SourceError):
        if directory == root:
            raise
        return
    for name in names:
        path = f"{directory}/{name}"
        if _ZONE.fullmatch(name):
            yield path
            if depth:
                yield from _zone_paths(fs, path, depth - 1, root)
        elif directory == root:
            yield from _zone_paths(fs, path, depth - 1, root)


def _zone(fs: HostFS, path: str, file: str) -> PowercapZone | None:
    directory = path.rpartition("/")[2]
    name = _word(fs, f"{path}/name")
    if not name or not fs.exists(f"{path}/{file}"):
        return None
    control_type, _, ids = directory.partition(":")
    enabled = _word(fs, f"{path}/enabled")
    return PowercapZone(
        path=path,
        directory=directory,
        control_type=control_type,
        name=name,
        parent=directory.rpartition(":")[0] if ":" in ids else None,
        range_uj=_number(fs, f"{path}/max_energy_range_uj"),
        enabled=None if enabled is None else enabled != "0",
        limits_uw=_limits(fs, path),
    )


def _limits(fs: HostFS, path: str) -> tuple[int, ...]:
    """Return the power limits in microwatts; every one of these files is optional."""
    limits = (_number(fs, file) for _, file in _limit_files(fs, path))
    return tuple(limit for limit in limits if limit is not None)


def _limit_files(fs: HostFS, path: str) -> list[tuple[str, str]]:
    """Return number and area path of each constraint's limit."""
    try:
        names = fs.list_dir(path)
    except (Unavailable, SourceError):
        return []
    return [(match[1], f"{path}/{match[0]}") for name in names if (match := _LIMIT.fullmatch(name))]


def _word(fs: HostFS, path: str) -> str | None:
    try:
        return fs.read_word(path)
    except (Unavailable, SourceError):
        return None


def _number(fs: HostFS, path: str) -> int | None:
    try:
        value = fs.read_int(path)
    except (Unavailable, SourceError):
        return None
    return value if value >= 0 else None
