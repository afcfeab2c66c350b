"""RAPL through powercap: sockets and memory by the kernel's energy counters."""

from collections.abc import Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, p_max_cpu_uw
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.powercap import POWERCAP_DIRECTORY, ZoneFile, find_zones
from kwhere.meters.failures import as_unavailable, read_each, worst
from kwhere.meters.meter import PLATFORM, Domain, MeterContext, Plugin, Reading
from kwhere.meters.mirrors import MirrorWatch
from kwhere.meters.movement import Movement
from kwhere.meters.rapl_zones import RaplZone, drop_repeats, place_zones


class OpenZone:
    """One zone's counter, and whether it still moves."""

    __slots__ = ("_file", "_movement", "placed")

    def __init__(self, fs: HostFS, placed: RaplZone) -> None:
        """Open and try the counter: where it opens a read may still fail. Raises Unavailable or SourceError."""
        self.placed = placed
        self._file = ZoneFile(fs, placed.zone)
        self._movement = Movement()
        try:
            self._file.read()
        except (Unavailable, SourceError):
            self._file.close()
            raise

    def read(self, now_ns: int) -> int:
        """Return the counter. Raises Unavailable (`stuck`: a powered part that draws nothing for 60 s), SourceError."""
        value = self._file.read()
        self._movement.check(value, now_ns, f"{self.placed.zone.path}/energy_uj")
        return value

    def close(self) -> None:
        """Give back the file descriptor."""
        self._file.close()


class RaplMeter:
    """Zones of the powercap tree, each read on its own: one that fails is left out of that read."""

    method = Method.COUNTER
    refresh_seconds = 0.0

    def __init__(
        self,
        source: str,
        zones: Sequence[OpenZone],
        context: MeterContext,
        covers: frozenset[Component] = frozenset(),
        needs_proof: bool = False,
    ) -> None:
        self.source = source
        self.covers = covers
        self.needs_proof = needs_proof
        self.domains = tuple(sorted({zone.placed.domain for zone in zones}))
        self._groups = [[zone for zone in zones if zone.placed.domain == domain] for domain in self.domains]
        self._watches = [MirrorWatch(None if domain == PLATFORM else context.cpu_vendor) for domain in self.domains]
        headroom_uw = context.settings.platform_headroom_uw
        self._p_max_uw = {
            domain: headroom_uw if domain == PLATFORM else _p_max_uw(domain, group)
            for domain, group in zip(self.domains, self._groups, strict=True)
        }

    def read(self, now_ns: int) -> list[Reading]:
        """Return every zone that answers. Raises Unavailable where none does."""
        readings: list[Reading] = []
        failures: list[Unavailable] = []
        for group, watch in zip(self._groups, self._watches, strict=True):
            readings += _without_mirrors(self._read_group(group, now_ns, failures), watch, group)
        if not readings:
            raise worst(failures)
        return readings

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        return self._p_max_uw[domain]

    def close(self) -> None:
        """Give back file descriptors."""
        for group in self._groups:
            for zone in group:
                zone.close()

    def _read_group(self, group: Sequence[OpenZone], now_ns: int, failures: list[Unavailable]) -> list[Reading]:
        p_max_uw = self._p_max_uw
        return read_each(
            group,
            lambda zone: _reading(zone.placed, zone.read(now_ns), now_ns, p_max_uw[zone.placed.domain]),
            failures,
        )


def open_zones(context: MeterContext, kind: DomainKind, *more: DomainKind) -> list[OpenZone]:
    """Return the readable zones of these kinds, each counter once. Raises Unavailable where none is readable."""
    failures: list[Unavailable] = []
    readable: dict[str, OpenZone] = {}
    for placed in place_zones(find_zones(context.fs)):
        if placed.domain.kind in (kind, *more):
            try:
                readable[placed.zone.directory] = OpenZone(context.fs, placed)
            except (Unavailable, SourceError) as error:
                failures.append(as_unavailable(error))
    if not readable:
        raise worst(failures or [Unavailable("absent", f"{POWERCAP_DIRECTORY}: expected such a zone, found none")])
    kept = [placed.zone.directory for placed in drop_repeats([zone.placed for zone in readable.values()])]
    for directory, zone in readable.items():
        if directory not in kept:
            zone.close()
    return [readable[directory] for directory in kept]


def _reading(placed: RaplZone, counter_uj: int, now_ns: int, p_max_uw: int) -> Reading:
    return Reading(
        domain=placed.domain,
        zone=placed.zone.directory,
        time_ns=now_ns,
        counter_uj=counter_uj,
        range_uj=placed.zone.range_uj,
        p_max_uw=None if placed.domain == PLATFORM else p_max_uw,
    )


def _without_mirrors(readings: list[Reading], watch: MirrorWatch, group: Sequence[OpenZone]) -> list[Reading]:
    """Return the readings of one domain with mirrors counted once, always by the same zone."""
    first = group[0].placed
    if len(group) < 2 or first.domain.kind is DomainKind.DRAM:
        return readings
    counters = [reading.counter_uj for reading in readings if reading.counter_uj is not None]
    if not watch.are_mirrors(counters, first.zone.range_uj):
        return readings
    return [reading for reading in readings if reading.zone == first.zone.directory]


def _p_max_uw(domain: Domain, group: Sequence[OpenZone]) -> int:
    if domain.kind is DomainKind.DRAM:
        return P_MAX_DRAM_UW
    dies = {zone.placed.die for zone in group}
    return p_max_cpu_uw(len(dies), [limit for zone in group for limit in zone.placed.zone.limits_uw])


def build(context: MeterContext) -> RaplMeter:
    """Return the meter of packages and memory. Raises Unavailable: absent, permission, unsupported."""
    return RaplMeter("powercap", open_zones(context, DomainKind.CPU, DomainKind.DRAM), context)


plugin = Plugin("powercap", build)
