"""RAPL by the perf unit `power`: sockets and memory where powercap is closed to us or absent.

Both read the same registers. Powercap's counters go on while no agent runs, so that a restart loses nothing; an
event counts only while it is open. So powercap speaks where it can be read, and events are then not even opened.
"""

import time
from collections.abc import Mapping, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import P_MAX_DRAM_UW, p_max_cpu_uw
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.perf_event import open_event
from kwhere.kernel.perf_power import PMU_DIRECTORY, Opener, PowerCounter, PowerUnit, find_power_unit
from kwhere.kernel.powercap import find_zones
from kwhere.meters.failures import as_unavailable, read_each, worst
from kwhere.meters.meter import PLATFORM, Domain, MeterContext, Plugin, Reading
from kwhere.meters.mirrors import MirrorWatch
from kwhere.meters.movement import Movement
from kwhere.meters.powercap import open_zones
from kwhere.meters.rapl_zones import place_zones

_KIND_OF = {
    "energy-pkg": DomainKind.CPU,
    "energy-ram": DomainKind.DRAM,
    "energy-psys": DomainKind.PLATFORM,
}


class OpenEvent:
    """One event on one CPU, and what it counts for."""

    __slots__ = ("_counter", "_movement", "domain", "zone")

    def __init__(self, counter: PowerCounter, name: str, domain: Domain) -> None:
        self._counter = counter
        self._movement = Movement()
        self.domain = domain
        self.zone = f"{name}/cpu{counter.cpu}"

    def read(self, now_ns: int) -> int:
        """Return microjoules since the opening. Raises Unavailable (`stuck` among others), SourceError."""
        energy_uj = self._counter.read_microjoules()
        self._movement.check(energy_uj, now_ns, self.zone)
        return energy_uj

    def close(self) -> None:
        """Give back the descriptor."""
        self._counter.close()


class PerfMeter:
    """Open events, each read on its own: one that fails is left out of that read."""

    method = Method.COUNTER
    refresh_seconds = 0.0

    def __init__(
        self,
        source: str,
        events: Sequence[OpenEvent],
        p_max_uw: Mapping[Domain, int],
        vendor: str | None,
        covers: frozenset[Component] = frozenset(),
    ) -> None:
        self.source = source
        self.covers = covers
        self.domains = tuple(sorted({event.domain for event in events}))
        self.needs_proof = PLATFORM in self.domains
        self._groups = [[event for event in events if event.domain == domain] for domain in self.domains]
        self._watches = [
            MirrorWatch(vendor) if domain.kind is DomainKind.CPU and len(group) > 1 else None
            for domain, group in zip(self.domains, self._groups, strict=True)
        ]
        self._p_max_uw = p_max_uw
        self._epoch = str(time.time_ns())
        """Of this opening: what another process counted has nothing to do with it."""

    def read(self, now_ns: int) -> list[Reading]:
        """Return every event that answers. Raises Unavailable where none does."""
        readings: list[Reading] = []
        failures: list[Unavailable] = []
        for group, watch in zip(self._groups, self._watches, strict=True):
            found = self._read_group(group, now_ns, failures)
            counters = [reading.counter_uj for reading in found if reading.counter_uj is not None]
            if watch is not None and watch.are_mirrors(counters, None):
                found = [reading for reading in found if reading.zone == group[0].zone]
            readings += found
        if not readings:
            raise worst(failures)
        return readings

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        return self._p_max_uw[domain]

    def close(self) -> None:
        """Give back descriptors; the events stop counting."""
        for group in self._groups:
            for event in group:
                event.close()

    def _read_group(self, group: Sequence[OpenEvent], now_ns: int, failures: list[Unavailable]) -> list[Reading]:
        return read_each(
            group,
            lambda event: Reading(event.domain, event.zone, now_ns, counter_uj=event.read(now_ns), epoch=self._epoch),
            failures,
        )


def build_perf(
    context: MeterContext, source: str, kinds: frozenset[DomainKind], rival: str, opener: Opener | None
) -> PerfMeter:
    """Return a meter over the events of these kinds; `rival` is the powercap source of the same counters.

    Raises Unavailable: absent, recorded, permission, unsupported, spare (powercap can be read, so nothing is opened).
    """
    unit = find_power_unit(context.fs)
    asked_for = context.settings.perf.beside_powercap or rival in context.settings.off
    if not asked_for and _is_readable(context, kinds):
        raise Unavailable("spare", f"{source}: not opened, {rival} reads the same counters and also fills restarts")
    has_event = any(_KIND_OF[name] in kinds for name in unit.events)
    if opener is None and context.fs.is_recorded and has_event:
        raise Unavailable("recorded", f"{source}: events of a copied tree cannot be opened")
    events = _open(context, unit, kinds, opener or open_event)
    domains = {event.domain for event in events}
    headroom_uw = context.settings.platform_headroom_uw
    p_max_uw = {domain: _p_max_uw(domain, events, context.fs, headroom_uw) for domain in domains}
    covers = frozenset({Component.CPU, Component.DRAM, Component.OTHER}) if PLATFORM in domains else frozenset()
    return PerfMeter(source, events, p_max_uw, context.cpu_vendor, covers)


def _open(context: MeterContext, unit: PowerUnit, kinds: frozenset[DomainKind], opener: Opener) -> list[OpenEvent]:
    """Return the events that could be opened. Raises Unavailable where none could."""
    opened: list[OpenEvent] = []
    failures: list[Unavailable] = []
    for name, event in unit.events.items():
        if _KIND_OF[name] not in kinds:
            continue
        for cpu in unit.cpus:
            try:
                domain = _domain(_KIND_OF[name], cpu, context)
                opened.append(OpenEvent(PowerCounter(unit, event, cpu, opener), name, domain))
            except (Unavailable, SourceError) as error:
                failures.append(as_unavailable(error))
    if not opened:
        raise worst(failures or [Unavailable("absent", f"{PMU_DIRECTORY}/events: expected such an event, found none")])
    return opened


def _domain(kind: DomainKind, cpu: int, context: MeterContext) -> Domain:
    """Return the domain that an event on `cpu` counts for. Raises Unavailable for a CPU that is offline."""
    if kind is DomainKind.PLATFORM:
        return PLATFORM
    socket = context.socket_of_cpu.get(cpu)
    if socket is None:
        raise Unavailable("absent", f"CPU {cpu}: expected it online, as the unit power says")
    return Domain(kind, socket)


def _is_readable(context: MeterContext, kinds: frozenset[DomainKind]) -> bool:
    """Return whether powercap can be read for the first of these kinds: the one that matters."""
    kind = DomainKind.CPU if DomainKind.CPU in kinds else DomainKind.PLATFORM
    try:
        zones = open_zones(context, kind)
    except Unavailable:
        return False
    for zone in zones:
        zone.close()
    return True


def _p_max_uw(domain: Domain, events: Sequence[OpenEvent], fs: HostFS, headroom_uw: int) -> int:
    if domain == PLATFORM:
        return headroom_uw
    if domain.kind is DomainKind.DRAM:
        return P_MAX_DRAM_UW
    return p_max_cpu_uw(sum(1 for event in events if event.domain == domain), _limits_uw(fs, domain))


def _limits_uw(fs: HostFS, domain: Domain) -> list[int]:
    """Return the power limits that powercap knows of a domain: they stay readable where the counters are closed."""
    try:
        placed = place_zones(find_zones(fs))
    except (Unavailable, SourceError):
        return []
    return [limit for zone in placed if zone.domain == domain for limit in zone.zone.limits_uw]


def build(context: MeterContext, opener: Opener | None = None) -> PerfMeter:
    """Return the meter of packages and memory; `opener` opens an event in place of the kernel.

    Raises Unavailable: absent, permission, unsupported, spare.
    """
    return build_perf(context, "perf", frozenset({DomainKind.CPU, DomainKind.DRAM}), "powercap", opener)


plugin = Plugin("perf", build)
