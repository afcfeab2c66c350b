"""What each powercap zone measures, each physical counter once: names, sockets, repeats, mirrors."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count

from kwhere.core.terms import DomainKind
from kwhere.kernel.powercap import PowercapZone
from kwhere.meters.meter import PLATFORM, Domain

_PACKAGE = re.compile(r"(?:package|socket|cpu|soc)(?:-?(\d+))?(?:-die-(\d+))?", re.IGNORECASE)
_DRAM = re.compile(r"(?:dram|memory|ddr)(?:-?(\d+))?", re.IGNORECASE)
_PSYS = re.compile(r"psys(?:-\d+)?|platform", re.IGNORECASE)
PREFERRED_CONTROL_TYPE = "intel-rapl"


@dataclass(frozen=True, slots=True)
class RaplZone:
    """A zone and the domain that it counts for. `die` is set where the name has one."""

    zone: PowercapZone
    domain: Domain
    die: str | None = None


def place_zones(zones: Sequence[PowercapZone]) -> list[RaplZone]:
    """Return the zones that measure a domain; core and uncore lie inside a package and measure none."""
    drams = _dram_sockets(zones)
    packages = {zone.directory for zone in zones if _PACKAGE.fullmatch(zone.name)}
    places = (_place(zone, drams) for zone in zones if zone.parent not in packages or zone.directory in drams)
    return [placed for placed in places if placed is not None]


def drop_repeats(zones: Sequence[RaplZone]) -> list[RaplZone]:
    """Return the zones with each physical counter once.

    `intel-rapl-mmio` repeats zones of `intel-rapl` through other registers: dropped unless it is alone with them.
    """
    found = sorted(
        zones,
        key=lambda placed: (placed.zone.control_type != PREFERRED_CONTROL_TYPE, placed.zone.order),
    )
    speaker: dict[Domain, str] = {}
    for placed in found:
        speaker.setdefault(placed.domain, placed.zone.control_type)
    # two zones of one driver are two counters even under one name; those of two drivers are one counter
    return [placed for placed in found if speaker[placed.domain] == placed.zone.control_type]


def _place(zone: PowercapZone, drams: dict[str, str]) -> RaplZone | None:
    if _PSYS.fullmatch(zone.name):
        return RaplZone(zone, PLATFORM)
    if zone.directory in drams:
        return RaplZone(zone, Domain(DomainKind.DRAM, drams[zone.directory]))
    package = _PACKAGE.fullmatch(zone.name)
    if package is None:
        return None
    return RaplZone(zone, Domain(DomainKind.CPU, package[1] or "0"), package[2])


def _dram_sockets(zones: Iterable[PowercapZone]) -> dict[str, str]:
    """Return the socket of each dram zone by directory: its package's, the name's, else the next that has none yet."""
    by_directory = {zone.directory: zone for zone in zones}
    sockets: dict[str, str] = {}
    nameless: list[PowercapZone] = []
    for directory, zone in by_directory.items():
        match = _DRAM.fullmatch(zone.name)
        if match is None:
            continue
        package = _PACKAGE.fullmatch(by_directory[zone.parent].name) if zone.parent in by_directory else None
        if package is not None:
            sockets[directory] = package[1] or "0"
        elif match[1] is not None:
            sockets[directory] = match[1]
        else:
            nameless.append(zone)
    labels = sorted(_package_labels(by_directory.values()), key=lambda label: (len(label), label))
    for zone in nameless:
        taken = {sockets[other] for other in sockets if by_directory[other].control_type == zone.control_type}
        sockets[zone.directory] = next(label for label in chain(labels, map(str, count())) if label not in taken)
    return sockets


def _package_labels(zones: Iterable[PowercapZone]) -> set[str]:
    matches = (_PACKAGE.fullmatch(zone.name) for zone in zones if zone.parent is None)
    return {match[1] or "0" for match in matches if match is not None}
