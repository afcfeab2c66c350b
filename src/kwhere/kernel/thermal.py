"""Temperatures: chips (`/sys/class/hwmon`, Documentation/hwmon/sysfs-interface.rst) and thermal zones.

Thermal zones are `/sys/class/thermal` (Documentation/driver-api/thermal/sysfs-api.rst).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

THERMAL_DIRECTORY = "sys/class/thermal"
HWMON_DIRECTORY = "sys/class/hwmon"
ABSOLUTE_ZERO_MILLICELSIUS = -273_150
HOTTEST_MILLICELSIUS = 250_000
"""Beyond this a sensor is broken or unplugged, not hot."""

_INPUT = re.compile(r"temp([0-9]{1,4})_input")


@dataclass(frozen=True, slots=True)
class Temperature:
    """One sensor, in thousandths of a degree Celsius as the kernel has it."""

    chip: str
    """The driver of the chip or the type of the zone, e.g. `coretemp`."""
    sensor: str
    """A name that no other sensor of the host has, e.g. `coretemp/Package id 0`."""
    millicelsius: int


def is_plausible(millicelsius: int) -> bool:
    """Return whether matter can be this warm and a sensor still tell. Unwired sensors say -273.2, -128 or 255 °C."""
    return ABSOLUTE_ZERO_MILLICELSIUS < millicelsius < HOTTEST_MILLICELSIUS and millicelsius not in (-128_000, 0)


def read_temperatures(fs: HostFS) -> Sequence[Temperature]:
    """Return what chips and zones say; a zone that shows a chip once more is left out. Empty where nothing tells."""
    chips = _or_nothing(fs, read_chips)
    repeated = {temperature.chip for temperature in chips}
    if "coretemp" in repeated:
        repeated.add("x86_pkg_temp")
    return [*chips, *(zone for zone in _or_nothing(fs, read_zones) if zone.chip.replace("-", "_") not in repeated)]


def _or_nothing(fs: HostFS, read: Callable[[HostFS], Sequence[Temperature]]) -> Sequence[Temperature]:
    try:
        return read(fs)
    except Unavailable:
        return ()


def read_chips(fs: HostFS) -> Sequence[Temperature]:
    """Return the hwmon sensors that answer, by chip and number. Raises Unavailable where there is no such directory.

    Two chips of one driver whose sensors have the same labels carry a number in the order of their devices.
    """
    chips = sorted((_device(fs, name), len(name), name) for name in fs.list_dir(HWMON_DIRECTORY))
    found: list[tuple[str, int, str, int]] = []
    seen: Counter[str] = Counter()
    for _, _, name in chips:
        chip = _name(fs, f"{HWMON_DIRECTORY}/{name}/name")
        if chip is not None:
            found += [(chip, seen[chip], label, value) for label, value in _sensors(fs, f"{HWMON_DIRECTORY}/{name}")]
            seen[chip] += 1
    labels = Counter((chip, label) for chip, _, label, _ in found)
    return [
        Temperature(chip, f"{chip}-{number}/{label}" if labels[chip, label] > 1 else f"{chip}/{label}", value)
        for chip, number, label, value in found
    ]


def _device(fs: HostFS, name: str) -> str:
    """Return what stays the same across boots where `hwmon7` does not: the device the chip belongs to."""
    try:
        return fs.read_link(f"{HWMON_DIRECTORY}/{name}/device").rpartition("/")[2]
    except (Unavailable, SourceError):
        return ""


def _sensors(fs: HostFS, directory: str) -> Iterator[tuple[str, int]]:
    """Yield label and millidegrees of each sensor of a chip that is not marked faulty, labels unique within it."""
    names = set(_names(fs, directory))
    used: set[str] = set()
    for number in sorted(int(match[1]) for name in names if (match := _INPUT.fullmatch(name))):
        if f"temp{number}_fault" in names and _name(fs, f"{directory}/temp{number}_fault") == "1":
            continue
        millicelsius = _millicelsius(fs, f"{directory}/temp{number}_input")
        if millicelsius is not None:
            label = _name(fs, f"{directory}/temp{number}_label") or f"temp{number}"
            yield (f"{label} temp{number}" if label in used else label), millicelsius
            used.add(label)


def _names(fs: HostFS, directory: str) -> Sequence[str]:
    try:
        return fs.list_dir(directory)
    except (Unavailable, SourceError):
        return ()


def read_zones(fs: HostFS) -> Sequence[Temperature]:
    """Return the thermal zones that answer, by type. Raises Unavailable where there is no such directory.

    The sensor is the zone's type; zones of the same type carry their number as well: `acpitz-0`, `acpitz-1`.
    """
    names = [name for name in fs.list_dir(THERMAL_DIRECTORY) if name.startswith("thermal_zone")]
    types = {name: kind for name in names if (kind := _name(fs, f"{THERMAL_DIRECTORY}/{name}/type"))}
    repeated = Counter(types.values())
    found = []
    for name, kind in sorted(types.items(), key=lambda item: (item[1], len(item[0]), item[0])):
        millicelsius = _millicelsius(fs, f"{THERMAL_DIRECTORY}/{name}/temp")
        if millicelsius is not None:
            number = name.removeprefix("thermal_zone")
            found.append(Temperature(kind, f"{kind}-{number}" if repeated[kind] > 1 else kind, millicelsius))
    return found


def _millicelsius(fs: HostFS, area_path: str) -> int | None:
    """Return a plausible temperature; None for a disabled zone, a modem that sleeps, an unwired input."""
    try:
        value = fs.read_int(area_path)
    except (Unavailable, SourceError):
        return None
    return value if is_plausible(value) else None


def _name(fs: HostFS, area_path: str) -> str | None:
    try:
        return fs.read_name(area_path)
    except (Unavailable, SourceError):
        return None
