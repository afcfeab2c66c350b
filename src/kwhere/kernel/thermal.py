"""Thermal zones (`/sys/class/thermal`, Documentation/driver-api/thermal/sysfs-api.rst)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

THERMAL_DIRECTORY = "sys/class/thermal"
ABSOLUTE_ZERO_MILLICELSIUS = -273_150
HOTTEST_MILLICELSIUS = 250_000
"""Beyond this a sensor is broken or unplugged, not hot."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """One sensor, in thousandths of a degree Celsius as the kernel has it."""

    sensor: str
    millicelsius: int


def is_plausible(millicelsius: int) -> bool:
    """Return whether matter can be this warm and a sensor still tell. Unwired sensors say -273.2, -128 or 255 °C."""
    return ABSOLUTE_ZERO_MILLICELSIUS < millicelsius < HOTTEST_MILLICELSIUS and millicelsius not in (-128_000, 0)


def read_zones(fs: HostFS) -> Sequence[Temperature]:
    """Return the zones that answer, by name. Raises Unavailable where there is no such directory.

    The sensor is the zone's type; zones of the same type carry their number as well: `acpitz-0`, `acpitz-1`.
    """
    names = [name for name in fs.list_dir(THERMAL_DIRECTORY) if name.startswith("thermal_zone")]
    types = {name: kind for name in names if (kind := _type(fs, name))}
    repeated = Counter(types.values())
    zones = sorted(types.items(), key=lambda item: (item[1], len(item[0]), item[0]))
    return list(_readings(fs, zones, repeated))


def _readings(fs: HostFS, zones: Sequence[tuple[str, str]], repeated: Counter[str]) -> Iterator[Temperature]:
    for name, kind in zones:
        try:
            millicelsius = fs.read_int(f"{THERMAL_DIRECTORY}/{name}/temp")
        except (Unavailable, SourceError):  # a disabled zone, or a modem that sleeps
            continue
        if is_plausible(millicelsius):
            number = name.removeprefix("thermal_zone")
            yield Temperature(f"{kind}-{number}" if repeated[kind] > 1 else kind, millicelsius)


def _type(fs: HostFS, name: str) -> str | None:
    try:
        return fs.read_word(f"{THERMAL_DIRECTORY}/{name}/type") or None
    except (Unavailable, SourceError):
        return None
