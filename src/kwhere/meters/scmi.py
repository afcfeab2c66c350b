"""ARM servers whose firmware measures power: powercap zones that say watts, not joules (Linux arm_scmi_powercap.c)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, p_max_cpu_uw
from kwhere.kernel.powercap import PowercapZone, ZoneFile, find_zones
from kwhere.meters.asked import AskedMeter
from kwhere.meters.failures import as_unavailable, read_all, worst
from kwhere.meters.meter import PLATFORM, Domain, Meter, MeterContext, Plugin, Reading

CONTROL_TYPE = "arm-scmi"
"""Other drivers with `power_uw` are left alone: dtpm's figures come from a model of the kernel's."""
GIVE_UP_SECONDS = 10.0
_NUMBER = r"[-_ ]?(\d+)?"
_PLATFORM = re.compile(r"(?:sys|system|platform|node|board|total)" + _NUMBER, re.IGNORECASE)
_CPU = re.compile(r"(?:package|pkg|socket|soc|cpu)" + _NUMBER, re.IGNORECASE)
_DRAM = re.compile(r"(?:dram|ddr|memory|mem|dimm)" + _NUMBER, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ScmiZone:
    """A zone and the domain that it counts for."""

    zone: PowercapZone
    domain: Domain


class ScmiMeter:
    """Zones of known names, integrated; one that fails is left out of that read. The firmware may take its time."""

    source = "scmi"
    method = Method.INTEGRATED
    refresh_seconds = 1.0
    needs_proof = False

    def __init__(self, zones: Sequence[tuple[ScmiZone, ZoneFile]], context: MeterContext) -> None:
        self._zones = list(zones)
        self.domains = tuple(sorted({placed.domain for placed, _ in zones}))
        self.covers = frozenset(Component) if PLATFORM in self.domains else frozenset[Component]()
        self._sockets = max(1, len(set(context.socket_of_cpu.values())))
        self._headroom_uw = context.settings.platform_headroom_uw

    def read(self, now_ns: int) -> list[Reading]:
        """Return every zone that answers. Raises Unavailable where none does."""
        return read_all(
            self._zones,
            lambda zone: Reading(
                zone[0].domain, zone[0].zone.directory, now_ns, power_uw=read_power_uw(zone[0], zone[1])
            ),
        )

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        if domain == PLATFORM:
            return self._headroom_uw
        if domain.kind is DomainKind.DRAM:
            one_uw = P_MAX_DRAM_UW
        else:
            one_uw = p_max_cpu_uw(1, [limit for placed, _ in self._zones for limit in placed.zone.limits_uw])
        return one_uw * (1 if domain.index else self._sockets)

    def close(self) -> None:
        """Give back file descriptors."""
        for _, file in self._zones:
            file.close()


def read_power_uw(placed: ScmiZone, file: ZoneFile) -> int:
    """Return a zone's power. Raises Unavailable for 0, which firmware says of what it does not measure."""
    power_uw = file.read()
    if power_uw == 0:
        raise Unavailable("unsupported", f"{placed.zone.path}/power_uw: expected a power, found 0")
    return power_uw


def place_zones(zones: Sequence[PowercapZone], sockets: Sequence[str]) -> list[ScmiZone]:
    """Return the zones whose names say what they measure; others are left alone.

    A zone's power holds that of the zones below it, so below a processor or memory nothing is added.
    """
    kinds = {zone.directory: _kind(zone.name) for zone in zones}
    parents = {zone.directory: zone.parent for zone in zones}
    placed: list[ScmiZone] = []
    for zone in zones:
        kind = kinds[zone.directory]
        inside = {kinds.get(above) for above in _ancestors(zone.directory, parents)}
        taken = {DomainKind.CPU, DomainKind.DRAM} | ({kind} if kind is DomainKind.PLATFORM else set())
        if kind is not None and not inside & taken:
            placed.append(ScmiZone(zone, _domain(kind, zone.name, sockets)))
    return placed


def _kind(name: str) -> DomainKind | None:
    for kind, pattern in ((DomainKind.PLATFORM, _PLATFORM), (DomainKind.CPU, _CPU), (DomainKind.DRAM, _DRAM)):
        if pattern.fullmatch(name):
            return kind
    return None


def _domain(kind: DomainKind, name: str, sockets: Sequence[str]) -> Domain:
    """Return the domain: the socket that the name says, the only one, else all of them together."""
    if kind is DomainKind.PLATFORM:
        return PLATFORM
    match = (_CPU if kind is DomainKind.CPU else _DRAM).fullmatch(name)
    number = match[1] if match is not None else None
    if len(sockets) == 1:
        return Domain(kind, sockets[0])
    return Domain(kind, str(number) if number in sockets else "")


def _ancestors(directory: str, parents: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    above = parents.get(directory)
    while above is not None:
        found.append(above)
        above = parents.get(above)
    return found


def build(context: MeterContext) -> Meter:
    """Return the meter of SCMI's zones. Raises Unavailable: absent, permission, unsupported."""
    zones = [zone for zone in find_zones(context.fs, "power_uw") if zone.control_type == CONTROL_TYPE]
    sockets = sorted(set(context.socket_of_cpu.values()), key=lambda label: (len(label), label))
    found: list[tuple[ScmiZone, ZoneFile]] = []
    failures: list[Unavailable] = []
    for placed in place_zones(zones, sockets):
        try:
            file = ZoneFile(context.fs, placed.zone, "power_uw")
            if context.fs.is_recorded:
                read_power_uw(placed, file)
            found.append((placed, file))
        except (Unavailable, SourceError) as error:
            failures.append(as_unavailable(error))
    if not found:
        raise worst(failures or [_none_of(zones)])
    meter = ScmiMeter(found, context)
    return meter if context.fs.is_recorded else AskedMeter(meter, GIVE_UP_SECONDS, context.clock_ns)


def _none_of(zones: Sequence[PowercapZone]) -> Unavailable:
    if not zones:
        return Unavailable("absent", f"scmi: expected a powercap zone of {CONTROL_TYPE}, found none")
    names = ", ".join(sorted(zone.name for zone in zones))
    return Unavailable("unsupported", f"scmi: expected a zone named like soc, ddr or system, found {names}")


plugin = Plugin("scmi", build)
