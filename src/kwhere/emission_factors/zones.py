"""Which country a machine's time zone suggests: a proposal, to be marked as one and confirmed by a person.

Never asked of the network: an address on the Internet says where a provider has its office.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TABLES = "zone.tab"
_LINKS = "tzdata.zi"
_MARK = "zoneinfo/"


def propose_country(
    environment: Mapping[str, str] | None = None,
    localtime: Path = Path("/etc/localtime"),
    timezone_file: Path = Path("/etc/timezone"),
) -> str | None:
    """Return the ISO 3166 country (two letters) of this machine's time zone; None where it tells none (UTC)."""
    for zone in time_zones(os.environ if environment is None else environment, localtime, timezone_file):
        return country_of_time_zone(zone)
    return None


def system_time_zone(
    environment: Mapping[str, str] | None = None,
    localtime: Path = Path("/etc/localtime"),
    timezone_file: Path = Path("/etc/timezone"),
) -> str:
    """Return the IANA name of this machine's time zone; `UTC` where it tells none that is known."""
    for zone in time_zones(os.environ if environment is None else environment, localtime, timezone_file):
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
        return zone
    return "UTC"


def time_zones(environment: Mapping[str, str], localtime: Path, timezone_file: Path) -> Iterator[str]:
    """Yield names of this machine's time zone, the one in force first."""
    named = environment.get("TZ", "").removeprefix(":")
    if named:
        yield named.partition(_MARK)[2] or named
        return
    try:
        target = os.readlink(localtime)
    except OSError:
        target = ""
    if _MARK in target:
        yield target.partition(_MARK)[2]
    try:
        words = timezone_file.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        words = []
    yield from words[:1]


def country_of_time_zone(zone: str) -> str | None:
    """Return the country of an IANA time zone or of one of its older names (`GB`, `US/Pacific`)."""
    for prefix in ("posix/", "right/"):
        zone = zone.removeprefix(prefix)
    countries, links = _tables()
    for _ in range(5):  # a link may point to a link
        if zone in countries:
            return countries[zone]
        if zone not in links:
            return None
        zone = links[zone]
    return None


@cache
def _tables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return country by time zone, and target by older name, from the tzdata package or the system's files."""
    countries: dict[str, str] = {}
    links: dict[str, str] = {}
    for line in _lines(_TABLES):
        if not line.startswith("#") and line.count("\t") >= 2:
            country, _, zone = line.split("\t")[:3]
            countries[zone] = country
    for line in _lines(_LINKS):
        if line.startswith("L "):
            _, target, name = line.split()[:3]
            links[name] = target
    return countries, links


def _lines(name: str) -> list[str]:
    for place in _places():
        try:
            return (place / name).read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
    return []


def _places() -> Iterator[Traversable]:
    with contextlib.suppress(ModuleNotFoundError):
        yield files("tzdata") / "zoneinfo"
    yield Path("/usr/share/zoneinfo")
