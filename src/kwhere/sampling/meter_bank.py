"""All meters of a node: read each step, unwrapped, with the choice of source that sticks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.energy.limits import p_max_platform_uw
from kwhere.energy.zone import DomainState, DomainStep, DomainTrack, ZoneReading
from kwhere.meters.gpu_energy import GPU_LIBRARIES
from kwhere.meters.meter import PLATFORM, Domain, Meter, Reading

HOLD_INTERVALS = 3
PARTIAL = "partial"
"""Why a source that is up has a reason: one of its domains, a socket or a device, is not read any more."""
DOUBTED_STEPS = 3
"""So many steps of nothing but gaps, and never a sound one, and a source speaks no longer: a VM's garbage counters."""
_FASTEST_REFRESH_NS = 1_000_000_000
COMPONENT_OF = {
    DomainKind.CPU: Component.CPU,
    DomainKind.DRAM: Component.DRAM,
    DomainKind.GPU: Component.GPU,
    DomainKind.OTHER: Component.OTHER,
}


@dataclass(frozen=True, slots=True)
class MeterStep:
    """What one domain of one meter added in this step."""

    source: str
    method: Method
    domain: Domain
    step: DomainStep
    first: bool
    """A baseline: what came before it is not in any later delta."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """Whether a source works now; `reason` is one word when not, else empty."""

    up: bool
    reason: str = ""
    silent: frozenset[Domain] = frozenset()
    """Domains that it measured before and of which its newest answer says nothing, or nothing that is believed."""


@dataclass(slots=True)
class GapCount:
    """Gaps of one source: how many by cause, and how long in all."""

    by_cause: dict[str, int] = field(default_factory=dict)
    duration_ns: int = 0


class MeterBank:
    """Reads every meter once per step. A bad meter is a reason and a gap; the others go on."""

    def __init__(
        self, meters: Sequence[Meter], absent: Mapping[str, str], interval_ns: int, alone: str | None = None
    ) -> None:
        """`meters` come in the order in which they are believed; `absent` is the reason of each source not built.

        `alone` names the one source that may speak for the node, whatever others say: a guest's hypervisor.
        """
        self._alone = alone
        self._meters = tuple(meters)
        self._interval_ns = interval_ns
        self._tracks: dict[tuple[str, Domain], DomainTrack] = {}
        self._restored: dict[tuple[str, Domain], DomainState] = {}
        self._chosen: dict[DomainKind, str] = {}
        self._proven: set[str] = set()
        self._doubts: dict[str, int] = {}
        """Steps in which a source that was never fresh gave a gap."""
        self._muted: dict[str, str] = {}
        """Why the platform of a source is not believed, while its components are."""
        self._answered: set[str] = set()
        self.health: dict[str, SourceHealth] = {
            source: SourceHealth(False, reason) for source, reason in absent.items()
        }
        self.gaps: dict[str, GapCount] = {meter.source: GapCount() for meter in meters}
        self.totals_uj: dict[tuple[str, Domain], int] = {}
        """Energy of every domain of every meter since the process began, chosen or not."""

    def read(self, now_ns: int, *, suspended: bool, read_clock_ns: Callable[[], int] | None = None) -> list[MeterStep]:
        """Return what every domain added since the last step. `now_ns` is the step's time on the monotonic clock.

        `read_clock_ns` is that clock itself: on a crowded node a meter may be read long after its step began, and its
        power is judged by when it was read. The model goes by the step: what it counts was read at its beginning.
        """
        steps: list[MeterStep] = []
        for meter in self._meters:
            read_ns = now_ns if read_clock_ns is None or meter.method is Method.MODELLED else read_clock_ns()
            steps += self._read_meter(meter, now_ns, read_ns, suspended)
        self._choose(steps)
        return steps

    def chosen(self, kind: DomainKind) -> str | None:
        """Return the source that speaks for a kind of domain; it is chosen once and kept."""
        return self._chosen.get(kind)

    def speaks(self, source: str, kind: DomainKind) -> bool:
        """Return whether a source speaks for its domains of a kind: the vendors' GPU libraries do so together."""
        chosen = self._chosen.get(kind)
        together = kind is DomainKind.GPU and chosen in GPU_LIBRARIES and source in GPU_LIBRARIES
        return source == chosen or together

    def is_pending(self, source: str) -> bool:
        """Return whether a source has neither answered nor failed yet: a BMC that is being asked for the first time."""
        return source not in self._answered and any(meter.source == source for meter in self._meters)

    def covers(self, source: str) -> frozenset[Component]:
        """Return what lies inside a source's platform domain; empty for one without."""
        found = (meter.covers for meter in self._meters if meter.source == source and PLATFORM in meter.domains)
        return next(found, frozenset())

    def has(self, source: str, domain: Domain) -> bool:
        """Return whether a meter of that name measures that domain here."""
        return any(meter.source == source and domain in meter.domains for meter in self._meters)

    def count_gap(self, source: str, cause: str, duration_ns: int) -> None:
        """Note an interval in which `source` added nothing."""
        gaps = self.gaps.setdefault(source, GapCount())
        word = str(cause)  # a plain text, not a member of an enumeration: it becomes a label
        gaps.by_cause[word] = gaps.by_cause.get(word, 0) + 1
        gaps.duration_ns += duration_ns

    def switch_off(self, source: str, reason: str) -> None:
        """Stop using a platform whose readings cannot be true; its reason shows from now on.

        A meter that measures components too goes on with these: it is up, and yet has a reason.
        """
        kept = [m for m in self._meters if m.source == source and any(domain != PLATFORM for domain in m.domains)]
        if kept:
            self._muted[source] = reason
        for meter in self._meters:
            if meter.source == source and meter not in kept:
                meter.close()
        self._meters = tuple(meter for meter in self._meters if meter.source != source or meter in kept)
        self.health[source] = SourceHealth(bool(kept), reason, frozenset({PLATFORM}))

    def rebase(self) -> None:
        """Let totals begin at 0 from here on."""
        self.totals_uj = dict.fromkeys(self.totals_uj, 0)

    def saved(self) -> Mapping[tuple[str, Domain], DomainState]:
        """Return raw counters of every domain, for the journal.

        What an earlier process kept of a domain that has not answered in this one is kept on.
        """
        waiting = {place: state for place, state in self._restored.items() if self.has(*place)}
        found = {place: track.saved() for place, track in self._tracks.items()}
        return {**waiting, **{place: state for place, state in found.items() if state is not None}}

    def restore(self, states: Mapping[tuple[str, Domain], DomainState]) -> None:
        """Go on from counters saved in this boot: the first delta is the missing interval."""
        self._restored = dict(states)

    def close(self) -> None:
        """Close every meter."""
        for meter in self._meters:
            meter.close()

    def _read_meter(self, meter: Meter, now_ns: int, read_ns: int, suspended: bool) -> list[MeterStep]:
        try:
            readings = meter.read(read_ns)
        except NoData:
            return []
        except Unavailable as error:
            self._answered.add(meter.source)
            self.health[meter.source] = SourceHealth(False, error.reason)
            self._release(meter.source)
            return []
        except SourceError:
            self._answered.add(meter.source)
            self.health[meter.source] = SourceHealth(False, "nonsense")
            return []
        self._answered.add(meter.source)
        muted = self._muted.get(meter.source, "")
        by_domain: dict[Domain, list[tuple[str, ZoneReading]]] = {}
        methods: dict[Domain, Method] = {}
        for reading in readings:
            if muted and reading.domain == PLATFORM:
                continue
            by_domain.setdefault(reading.domain, []).append((reading.zone, zone_reading(reading)))
            methods[reading.domain] = reading.method or meter.method
        silent = frozenset(domain for source, domain in self._tracks if source == meter.source) - by_domain.keys()
        self.health[meter.source] = SourceHealth(True, muted or (PARTIAL if silent else ""), silent)
        # a model counts kernel counters, which stood still; a hypervisor counts on its own side, where nothing slept
        slept = suspended and meter.method not in (Method.MODELLED, Method.HYPERVISOR)
        return [
            self._advance(meter, domain, methods[domain], zones, now_ns, slept) for domain, zones in by_domain.items()
        ]

    def _advance(
        self,
        meter: Meter,
        domain: Domain,
        method: Method,
        zones: Sequence[tuple[str, ZoneReading]],
        now_ns: int,
        suspended: bool,
    ) -> MeterStep:
        place = (meter.source, domain)
        track = self._tracks.get(place)
        if track is None:
            track = self._tracks[place] = self._track(meter, domain)
        first = track.saved() is None
        step = track.advance(zones, now_ns, suspended=suspended)
        for gap in step.gaps:
            self.count_gap(meter.source, gap.cause, gap.duration_ns)
        self.totals_uj[place] = self.totals_uj.get(place, 0) + (step.energy_uj or 0)
        return MeterStep(meter.source, method, domain, step, first)

    def _track(self, meter: Meter, domain: Domain) -> DomainTrack:
        refresh_ns = max(int(meter.refresh_seconds * 1e9), self._interval_ns, _FASTEST_REFRESH_NS)
        track = DomainTrack(p_max_uw=self.p_max_uw(meter, domain), hold_ns=HOLD_INTERVALS * refresh_ns)
        state = self._restored.pop((meter.source, domain), None)
        if state is not None:
            track.restore(state)
        return track

    def p_max_uw(self, meter: Meter, domain: Domain) -> int:
        """Return the largest plausible power of a domain; of a platform: its components' and what lies beside them."""
        own_uw = meter.p_max_uw(domain)
        if domain.kind is not DomainKind.PLATFORM:
            return own_uw
        kinds = [kind for kind, component in COMPONENT_OF.items() if component in meter.covers]
        return p_max_platform_uw((self.p_max_of_kind_uw(kind) for kind in kinds), own_uw)

    def p_max_of_kind_uw(self, kind: DomainKind) -> int:
        """Return what all domains of a kind may draw together, by the meter that allows most."""
        return max(
            (sum(meter.p_max_uw(d) for d in meter.domains if d.kind is kind) for meter in self._meters), default=0
        )

    def p_max_by_component_uw(self) -> Mapping[Component, int]:
        """Return what each component may draw at most; `other` where a platform meter was found."""
        found = {component: self.p_max_of_kind_uw(kind) for kind, component in COMPONENT_OF.items()}
        found = {component: power_uw for component, power_uw in found.items() if power_uw}
        platforms = [meter for meter in self._meters if PLATFORM in meter.domains]
        if platforms:
            found[Component.OTHER] = max(self.p_max_uw(meter, PLATFORM) for meter in platforms)
        return found

    def _release(self, source: str) -> None:
        """Take back the choice of a source that fails and never gave a fresh reading, e.g. a VM's dead counters."""
        if source not in self._proven:
            self._chosen = {kind: chosen for kind, chosen in self._chosen.items() if chosen != source}

    def _doubt(self, steps: Sequence[MeterStep]) -> None:
        """Prove sources that are fresh; take back the choice of one that has only ever said nonsense."""
        self._proven |= {step.source for step in steps if step.step.fresh}
        told = {step.source for step in steps if step.step.gaps} - self._proven
        for source in self._proven & self._doubts.keys():
            del self._doubts[source]
        for source in told:
            self._doubts[source] = self._doubts.get(source, 0) + 1
        for source in filter(self._is_doubted, self._doubts):
            self._release(source)
            self.health[source] = SourceHealth(False, "nonsense")

    def _is_doubted(self, source: str) -> bool:
        return self._doubts.get(source, 0) >= DOUBTED_STEPS

    def _choose(self, steps: Sequence[MeterStep]) -> None:
        """Choose, for each kind of domain, the first source that answered; none while a better one is still asked.

        The model speaks for memory only where it also speaks for the CPU: a node whose meter has no dram domain has
        no dram figure, not a guessed one beside a measured one.
        """
        self._doubt(steps)
        for step in steps:
            kind = step.domain.kind
            if self._alone not in (None, step.source) or self._is_doubted(step.source):
                continue
            if kind is DomainKind.PLATFORM or kind in self._chosen:
                continue
            cpu_source = self._chosen.get(DomainKind.CPU, step.source)
            if step.method is Method.MODELLED and kind is not DomainKind.CPU and cpu_source != step.source:
                continue
            if not self._is_better_pending(step.source, kind):
                self._chosen[kind] = step.source

    def _is_better_pending(self, source: str, kind: DomainKind) -> bool:
        """Return whether a meter that is believed before `source` has such domains and has not answered yet."""
        for meter in self._meters:
            if meter.source == source:
                return False
            if self.is_pending(meter.source) and any(domain.kind is kind for domain in meter.domains):
                return True
        return False


def zone_reading(reading: Reading) -> ZoneReading:
    """Return what the unwrapping needs of a meter's reading."""
    return ZoneReading(
        time_ns=reading.time_ns,
        counter_uj=reading.counter_uj,
        power_uw=reading.power_uw,
        range_uj=reading.range_uj,
        p_max_uw=reading.p_max_uw,
        device_time=reading.device_time,
        idle_uj=reading.idle_uj,
        epoch=reading.epoch,
    )
