"""A virtual machine's own energy, as the agent of its host tells it: dynamic and idle apart, nothing to learn."""

from collections.abc import Callable, Sequence

from kwhere.core.errors import Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.meters.background import BackgroundMeter, BlockingSource, SlowFacts
from kwhere.meters.guest_entry import GuestEnergy, GuestEntry, parse_entry
from kwhere.meters.hypervisor_settings import HypervisorSettings
from kwhere.meters.hypervisor_ways import FeedWay, FileWay, HttpWay, VsockWay
from kwhere.meters.meter import Domain, MeterContext, Plugin, Reading

SOURCE = "hypervisor"
P_MAX_UW = 10_000_000_000
"""10 kW for each component: the host has judged what it passes on; this stops a feed that is plainly wrong."""
GIVE_UP_SECONDS = 15.0
DOMAIN_OF = {
    Component.CPU: Domain(DomainKind.CPU),
    Component.DRAM: Domain(DomainKind.DRAM),
    Component.GPU: Domain(DomainKind.GPU),
    Component.OTHER: Domain(DomainKind.OTHER),
}


class FeedSource(BlockingSource):
    """Asks for the feed and says what is new in it. A feed that stands still is stale, never zero."""

    def __init__(self, way: FeedWay, stale_seconds: float, clock_ns: Callable[[], int]) -> None:
        self._way = way
        self._stale_ns = int(stale_seconds * NANOSECONDS_PER_SECOND)
        self._clock_ns = clock_ns
        self._last: GuestEntry | None = None
        self._moved_ns = 0
        self.parent: str | None = None
        """`<host node>/<VM unit>` of the newest entry; kept while the feed is lost."""

    def ask(self) -> Sequence[Reading]:
        """Return the counters of every component. Raises Unavailable (absent, permission, stale, …), SourceError."""
        entry = parse_entry(self._way.fetch(), f"hypervisor feed {self._way.place}")
        now_ns = self._clock_ns()
        before = self._last
        if before is None or (before.epoch, before.seq) != (entry.epoch, entry.seq):
            self._last, self._moved_ns = entry, now_ns
        elif now_ns - self._moved_ns > self._stale_ns:
            age = (now_ns - self._moved_ns) // NANOSECONDS_PER_SECOND
            raise Unavailable("stale", f"hypervisor feed {self._way.place}: has not moved for {age} s")
        self.parent = entry.parent
        return readings(entry, before)

    def close(self) -> None:
        """Close the way."""
        self._way.close()


def readings(entry: GuestEntry, before: GuestEntry | None) -> list[Reading]:
    """Return the counters of an entry; `before` is the one seen last.

    A component that comes into an epoch already under way began at 0 then: that is its baseline, and what it counts
    comes with the next reading.
    """
    if before is None or before.epoch != entry.epoch:
        return [_reading(entry, energy) for energy in entry.energies]
    known = {energy.component for energy in before.energies}
    return [
        _reading(
            entry,
            energy
            if energy.component in known
            else GuestEnergy(energy.component, 0, 0, min(before.time_ns, energy.time_ns - 1)),
        )
        for energy in entry.energies
    ]


def _reading(entry: GuestEntry, energy: GuestEnergy) -> Reading:
    return Reading(
        domain=DOMAIN_OF[energy.component],
        zone=str(energy.component),
        time_ns=max(1, energy.time_ns),
        counter_uj=energy.dynamic_uj + energy.idle_uj,
        device_time=True,
        idle_uj=energy.idle_uj,
        epoch=entry.epoch,
    )


class HypervisorMeter(BackgroundMeter):
    """The feed as a meter; every share and listener may hang, so a thread of its own asks."""

    def __init__(self, source: FeedSource, settings: HypervisorSettings, clock_ns: Callable[[], int]) -> None:
        facts = SlowFacts(
            source=SOURCE,
            domains=tuple(DOMAIN_OF.values()),
            covers=frozenset(),
            refresh_seconds=settings.interval_seconds,
            give_up_seconds=GIVE_UP_SECONDS,
            p_max_uw=P_MAX_UW,
            method=Method.HYPERVISOR,
        )
        super().__init__(facts, source, clock_ns)
        self._feed = source

    @property
    def parent(self) -> str | None:
        """Return `<host node>/<VM unit>` as the feed last said; None before its first entry."""
        return self._feed.parent


def build(context: MeterContext) -> HypervisorMeter:
    """Return the meter of a guest's feed. Raises Unavailable: absent (not set), recorded. ConfigError: token, url."""
    settings = context.settings.hypervisor
    if not settings.is_set:
        raise Unavailable(
            "absent",
            "meters.hypervisor is not set: on a virtual machine ask the operator of its host for agent.guests",
        )
    if context.fs.is_recorded:
        raise Unavailable("recorded", "hypervisor: a recorded machine has no host to ask")
    source = FeedSource(_way_of(settings), settings.stale_seconds, context.clock_ns)
    return HypervisorMeter(source, settings, context.clock_ns)


def _way_of(settings: HypervisorSettings) -> FeedWay:
    if settings.file is not None:
        return FileWay(settings.file)
    if settings.url is not None:
        return HttpWay(settings.url, settings.client)
    return VsockWay(settings.vsock_port or 0)


plugin = Plugin(SOURCE, build)
