"""Energy and power sensors of hwmon (Documentation/hwmon/sysfs-interface.rst): microjoules, microwatts, labels."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS, KeptFile
from kwhere.kernel.numbers import decimal

HWMON_DIRECTORY = "sys/class/hwmon"
_ENERGY = re.compile(r"energy(\d+)_input")
_POWER = re.compile(r"power(\d+)_(?:average|input)")


@dataclass(frozen=True, slots=True)
class HwmonSensor:
    """One energy or power channel of one chip."""

    chip: str
    """The driver's name, e.g. `power_meter`, `amd_energy`."""
    device: str
    """What the chip sits on; the hwmon directory where the kernel does not tell."""
    number: int
    paths: tuple[str, ...]
    """Area paths of the value, the better one first (an average before a momentary one)."""
    label: str
    """`energyN_label`, `powerN_label` or, for ACPI meters, `powerN_oem_info`; empty where there is none."""
    interval_ms: int | None = None
    """Over how long the sensor averages."""


def find_energy_sensors(fs: HostFS) -> list[HwmonSensor]:
    """Return every energy counter, by device and number. Raises Unavailable where the kernel has no hwmon."""
    return list(_sensors(fs, "energy"))


def find_power_sensors(fs: HostFS) -> list[HwmonSensor]:
    """Return every power sensor, by device and number. Raises Unavailable where the kernel has no hwmon."""
    return list(_sensors(fs, "power"))


class SensorFile:
    """The value of one sensor, kept open."""

    __slots__ = ("_file", "_place")

    def __init__(self, fs: HostFS, sensor: HwmonSensor) -> None:
        """Open the first of its files that can be read. Raises Unavailable or SourceError."""
        for path in sensor.paths[:-1]:
            try:
                self._open(fs, path)
            except (Unavailable, SourceError):
                continue
            return
        self._open(fs, sensor.paths[-1])

    def read(self) -> int:
        """Return the value in the kernel's unit. Raises Unavailable or SourceError."""
        return decimal(self._file.read().decode("ascii", "replace").strip(), self._place)

    def close(self) -> None:
        """Give back the file descriptor."""
        self._file.close()

    def _open(self, fs: HostFS, path: str) -> None:
        self._place = str(fs.path(path))
        self._file: KeptFile = fs.keep(path)
        try:
            self.read()
        except (Unavailable, SourceError):
            self._file.close()
            raise


def _sensors(fs: HostFS, kind: str) -> Iterator[HwmonSensor]:
    seen: set[tuple[str, str, int]] = set()
    found: list[HwmonSensor] = []
    for directory in fs.list_dir(HWMON_DIRECTORY):
        found += _chip(fs, f"{HWMON_DIRECTORY}/{directory}", kind)
    for sensor in sorted(found, key=lambda one: (one.device, one.chip, one.number)):
        key = (sensor.device, sensor.chip, sensor.number)
        if key not in seen:  # one device may be listed by two hwmon directories
            seen.add(key)
            yield sensor


def _chip(fs: HostFS, path: str, kind: str) -> Iterator[HwmonSensor]:
    try:
        names = fs.list_dir(path)
    except (Unavailable, SourceError):
        return
    if "name" not in names and "device" in names:
        path, names = f"{path}/device", _names(fs, f"{path}/device")  # drivers from before 2013 put files there
    chip = _word(fs, f"{path}/name")
    if not chip:
        return
    device = _device(fs, path)
    pattern = _ENERGY if kind == "energy" else _POWER
    channels: dict[int, list[str]] = {}
    for name in sorted(names):  # `…_average` sorts before `…_input`
        match = pattern.fullmatch(name)
        if match:
            channels.setdefault(int(match[1]), []).append(f"{path}/{name}")
    for number, paths in sorted(channels.items()):
        yield HwmonSensor(
            chip=chip,
            device=device,
            number=number,
            paths=tuple(paths),
            label=_label(fs, path, f"{kind}{number}"),
            interval_ms=_positive(fs, f"{path}/{kind}{number}_average_interval"),
        )


def _label(fs: HostFS, path: str, channel: str) -> str:
    return _word(fs, f"{path}/{channel}_label") or _word(fs, f"{path}/{channel}_oem_info") or ""


def _device(fs: HostFS, path: str) -> str:
    try:
        return fs.read_link(f"{path}/device").rstrip("/").rpartition("/")[2]
    except (Unavailable, SourceError):
        return path.removesuffix("/device").rpartition("/")[2]


def _names(fs: HostFS, path: str) -> list[str]:
    try:
        return fs.list_dir(path)
    except (Unavailable, SourceError):
        return []


def _word(fs: HostFS, path: str) -> str | None:
    try:
        return fs.read_word(path)
    except (Unavailable, SourceError):
        return None


def _positive(fs: HostFS, path: str) -> int | None:
    try:
        value = fs.read_int(path)
    except (Unavailable, SourceError):
        return None
    return value if value > 0 else None
