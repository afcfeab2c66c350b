"""Batteries and what charges them, in microwatts (Documentation/ABI/testing/sysfs-class-power)."""

import re
from dataclasses import dataclass
from enum import StrEnum

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.hostfs import HostFS

SUPPLY_DIRECTORY = "sys/class/power_supply"
_CHARGER = re.compile(r"Mains|USB.*|Wireless")


class Charge(StrEnum):
    """What a battery does, as its driver says (`status`); a word not known here is `unknown`."""

    CHARGING = "charging"
    DISCHARGING = "discharging"
    NOT_CHARGING = "not charging"
    FULL = "full"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Battery:
    """One battery of the machine itself. `power_uw` is a size: drivers disagree about its sign; None: not known."""

    name: str
    charge: Charge
    power_uw: int | None


@dataclass(frozen=True, slots=True)
class Supplies:
    """All batteries that are there, by name, and whether a charger is connected."""

    batteries: tuple[Battery, ...]
    charger: str | None
    """Name of one that is online."""


def read_supplies(fs: HostFS) -> Supplies:
    """Return what powers the machine. Raises Unavailable where the kernel has no such class.

    Batteries of mice, keyboards and the like (`scope` Device) and empty slots are left out.
    """
    batteries: list[Battery] = []
    charger: str | None = None
    for name in fs.list_dir(SUPPLY_DIRECTORY):
        path = f"{SUPPLY_DIRECTORY}/{name}"
        kind = _word(fs, f"{path}/type")
        if _word(fs, f"{path}/scope").lower() == "device":
            continue
        if kind == "Battery" and _number(fs, f"{path}/present") != 0:
            batteries.append(Battery(name, _charge(_word(fs, f"{path}/status")), _power_uw(fs, path)))
        elif _CHARGER.fullmatch(kind) and (_number(fs, f"{path}/online") or 0) > 0:
            charger = charger or name
    return Supplies(tuple(batteries), charger)


def _power_uw(fs: HostFS, path: str) -> int | None:
    """Return `power_now`, else current times voltage (microamperes times microvolts are picowatts)."""
    power_uw = _number(fs, f"{path}/power_now")
    if power_uw is not None:
        return abs(power_uw)
    current_ua, voltage_uv = _number(fs, f"{path}/current_now"), _number(fs, f"{path}/voltage_now")
    if current_ua is None or voltage_uv is None or voltage_uv <= 0:
        return None
    return abs(current_ua) * voltage_uv // 1_000_000


def _charge(word: str) -> Charge:
    try:
        return Charge(word.lower())
    except ValueError:
        return Charge.UNKNOWN


def _word(fs: HostFS, path: str) -> str:
    try:
        return fs.read_word(path)
    except (Unavailable, SourceError):
        return ""


def _number(fs: HostFS, path: str) -> int | None:
    try:
        return fs.read_int(path)
    except (Unavailable, SourceError):
        return None
