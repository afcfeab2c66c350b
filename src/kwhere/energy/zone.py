"""From readings of one meter's zones to microjoules per step: baselines, wraps, gaps, power integrated over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kwhere.core.counters import GapCause, modulus_of, unwrap
from kwhere.core.quantities import NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class ZoneReading:
    """One zone as it stands: a cumulative `counter_uj` or a momentary `power_uw`.

    `range_uj` is the kernel's `max_energy_range_uj`; None: the counter never wraps. `device_time`: `time_ns` is the
    device's own clock, then only a newer one is fresh.
    """

    time_ns: int
    counter_uj: int | None = None
    power_uw: int | None = None
    range_uj: int | None = None
    p_max_uw: int | None = None
    device_time: bool = False
    idle_uj: int | None = None
    """The idle part of `counter_uj`, as cumulative, where the source has split already."""
    epoch: str | None = None
    """Readings of different epochs are of different counters."""


@dataclass(frozen=True, slots=True)
class ZoneState:
    """What a zone must remember between readings and across a restart in the same boot.

    Neither counter nor power: the last sample was an impossible power.
    """

    time_ns: int
    counter_uj: int | None = None
    power_uw: int | None = None
    remainder: int = 0
    """Of the integrated power: below two seconds of one microwatt, in microwatt-nanoseconds x 2."""
    idle_uj: int | None = None
    epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Advance:
    """What one reading adds. `energy_uj` is None for a baseline, a stale reading and a gap."""

    fresh: bool
    energy_uj: int | None = None
    span_ns: int = 0
    """Between the two readings, by the zone's clock; 0 where they are by different clocks."""
    gap: GapCause | None = None
    idle_uj: int | None = None
    """The idle part of `energy_uj` where the source has split already."""


_NOTHING_NEW = Advance(fresh=False)


class ZoneTrack:
    """One zone: a die, a socket, a power sensor. The first reading is a baseline, never energy."""

    __slots__ = ("_hold_ns", "_p_max_uw", "_state")

    def __init__(self, *, p_max_uw: int, hold_ns: int) -> None:
        self._p_max_uw = p_max_uw
        self._hold_ns = hold_ns
        self._state: ZoneState | None = None

    def advance(self, reading: ZoneReading, *, suspended: bool = False) -> Advance:
        """Return what this reading adds to the last; `suspended`: the machine slept since then."""
        before = self._state
        if before is None or (before.counter_uj is None) != (reading.counter_uj is None):
            if self._is_impossible(reading):
                return self._lose(reading, 0)
            self._rebase(reading)
            return _NOTHING_NEW
        if before.epoch != reading.epoch:
            self._rebase(reading)
            return Advance(fresh=False, gap=GapCause.EPOCH)
        span_ns = reading.time_ns - before.time_ns
        if suspended:
            self._rebase(reading)
            return Advance(fresh=False, span_ns=max(0, span_ns), gap=GapCause.SUSPEND)
        if span_ns <= 0:  # no time, no power; what the counter holds comes with the next reading
            return _NOTHING_NEW
        if reading.counter_uj is not None and before.counter_uj is not None:
            return self._count(before.counter_uj, reading.counter_uj, before.idle_uj, reading, span_ns)
        return self._integrate(before, reading, span_ns)

    def saved(self) -> ZoneState | None:
        """Return what to keep across a restart; None before the first reading."""
        return self._state

    def restore(self, state: ZoneState) -> None:
        """Take up where the last process of this boot left off."""
        self._state = state

    def _rebase(self, reading: ZoneReading) -> None:
        self._state = ZoneState(
            reading.time_ns, reading.counter_uj, reading.power_uw, idle_uj=reading.idle_uj, epoch=reading.epoch
        )

    def _count(
        self, previous: int, current: int, previous_idle: int | None, reading: ZoneReading, span_ns: int
    ) -> Advance:
        if current == previous and not reading.device_time:
            return _NOTHING_NEW
        found = unwrap(
            previous,
            current,
            modulus=modulus_of(reading.range_uj, max(previous, current)),
            elapsed_ns=span_ns,
            p_max_uw=reading.p_max_uw or self._p_max_uw,
        )
        self._rebase(reading)
        if isinstance(found, GapCause):
            return Advance(fresh=False, span_ns=span_ns, gap=found)
        if reading.idle_uj is None or previous_idle is None:
            return Advance(fresh=True, energy_uj=found, span_ns=span_ns)
        idle_uj = reading.idle_uj - previous_idle
        if not 0 <= idle_uj <= found:  # a part that fell, or outgrew the whole
            return Advance(fresh=False, span_ns=span_ns, gap=GapCause.RESET)
        return Advance(fresh=True, energy_uj=found, span_ns=span_ns, idle_uj=idle_uj)

    def _is_impossible(self, reading: ZoneReading) -> bool:
        """Return whether a momentary power is more than the zone can draw."""
        return reading.power_uw is not None and reading.power_uw > (reading.p_max_uw or self._p_max_uw)

    def _lose(self, reading: ZoneReading, span_ns: int) -> Advance:
        """Keep of an impossible power when it was: neither the span before it nor the one after it has energy."""
        self._state = ZoneState(reading.time_ns, epoch=reading.epoch)
        return Advance(fresh=False, span_ns=span_ns, gap=GapCause.IMPLAUSIBLE)

    def _integrate(self, before: ZoneState, reading: ZoneReading, span_ns: int) -> Advance:
        """Trapezoid between two samples; a sample never holds for longer than the hold time."""
        assert reading.power_uw is not None
        if self._is_impossible(reading):
            return self._lose(reading, span_ns)
        if before.power_uw is None:
            self._rebase(reading)
            return Advance(fresh=False, span_ns=span_ns, gap=GapCause.IMPLAUSIBLE)
        if span_ns > self._hold_ns:
            self._rebase(reading)
            return Advance(fresh=False, span_ns=span_ns, gap=GapCause.STALE)
        doubled = (before.power_uw + reading.power_uw) * span_ns + before.remainder
        energy_uj, remainder = divmod(doubled, 2 * NANOSECONDS_PER_SECOND)
        self._state = ZoneState(reading.time_ns, None, reading.power_uw, remainder)
        return Advance(fresh=True, energy_uj=energy_uj, span_ns=span_ns)


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval of one zone that added nothing."""

    cause: GapCause
    duration_ns: int
    zone: str


@dataclass(frozen=True, slots=True)
class DomainStep:
    """What one step adds to a domain. Not fresh: nothing to split yet (`energy_uj` is None)."""

    fresh: bool
    energy_uj: int | None = None
    span_ns: int = 0
    """Whole steps since the last fresh one, by the step's clock: the span to split over."""
    gaps: tuple[Gap, ...] = ()
    idle_uj: int | None = None
    """The idle part of `energy_uj` where the source has split already; None: the split is ours to make."""

    @property
    def is_nonsense(self) -> bool:
        """Return whether all that was read is more than the domain can draw."""
        return not self.fresh and bool(self.gaps) and all(gap.cause is GapCause.IMPLAUSIBLE for gap in self.gaps)


@dataclass(frozen=True, slots=True)
class DomainState:
    """What a domain must remember across a restart in the same boot."""

    last_ns: int
    zones: Mapping[str, ZoneState] = field(default_factory=dict)


class DomainTrack:
    """All zones of one domain, each unwrapped alone before they are summed."""

    __slots__ = ("_hold_ns", "_last_ns", "_p_max_uw", "_zones")

    def __init__(self, *, p_max_uw: int, hold_ns: int) -> None:
        self._p_max_uw = p_max_uw
        self._hold_ns = hold_ns
        self._zones: dict[str, ZoneTrack] = {}
        self._last_ns: int | None = None

    def advance(
        self, readings: Sequence[tuple[str, ZoneReading]], now_ns: int, *, suspended: bool = False
    ) -> DomainStep:
        """Return what the zones read at `now_ns` add; a zone that was not read adds when it is read again."""
        energy_uj = 0
        idle_uj: int | None = None
        fresh = False
        gaps: list[Gap] = []
        for zone, reading in readings:
            step = self._zone(zone).advance(reading, suspended=suspended)
            if step.energy_uj is not None:
                fresh = True
                energy_uj += step.energy_uj
                idle_uj = idle_uj if step.idle_uj is None else (idle_uj or 0) + step.idle_uj
            elif step.gap is not None:
                gaps.append(Gap(step.gap, self._gap_ns(step, now_ns), zone))
        if not readings:
            return DomainStep(fresh=False)
        closed = self._close(fresh, energy_uj, now_ns, tuple(gaps))
        return replace(closed, idle_uj=idle_uj) if idle_uj is not None else closed

    def saved(self) -> DomainState | None:
        """Return what to keep across a restart; None before the first reading."""
        if self._last_ns is None:
            return None
        zones = {name: state for name, zone in self._zones.items() if (state := zone.saved()) is not None}
        return DomainState(self._last_ns, zones)

    def restore(self, state: DomainState) -> None:
        """Take up where the last process of this boot left off: the next delta is the missing interval."""
        self._last_ns = state.last_ns
        for name, zone in state.zones.items():
            self._zone(name).restore(zone)

    def _zone(self, name: str) -> ZoneTrack:
        track = self._zones.get(name)
        if track is None:
            track = self._zones[name] = ZoneTrack(p_max_uw=self._p_max_uw, hold_ns=self._hold_ns)
        return track

    def _gap_ns(self, step: Advance, now_ns: int) -> int:
        """Return how long a zone's gap is: since the domain's last energy where two counters share no clock."""
        if step.gap is not GapCause.EPOCH or self._last_ns is None:
            return step.span_ns
        return max(0, now_ns - self._last_ns)

    def _close(self, fresh: bool, energy_uj: int, now_ns: int, gaps: tuple[Gap, ...]) -> DomainStep:
        last_ns = now_ns if self._last_ns is None else self._last_ns
        if self._last_ns is None or fresh or gaps:
            self._last_ns = now_ns
        if not fresh:
            return DomainStep(fresh=False, gaps=gaps)
        return DomainStep(fresh=True, energy_uj=energy_uj, span_ns=max(0, now_ns - last_ns), gaps=gaps)
