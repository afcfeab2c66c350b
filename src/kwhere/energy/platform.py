"""What a node draws beside its measured components: `other`, closed once per span of the platform meter.

A BMC lags and averages. Closing every step, or clipping at 0, would invent energy; so the debt is carried, signed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.counters import GapCause
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, energy_of
from kwhere.energy.apportion import apportion

LARGEST_DEBT_NS = 600 * NANOSECONDS_PER_SECOND
"""A platform meter that owes more than `other`'s idle power for this long does not measure what it says."""
HOLD_INTERVALS = 3


@dataclass(frozen=True, slots=True)
class Closure:
    """Energy of `other` and of the modelled components over one span, and the debt that stays."""

    modelled: list[int]
    other_uj: int
    carry_uj: int


def close_span(platform_uj: int, measured_uj: int, modelled_uj: Sequence[int], carry_uj: int) -> Closure:
    """Return how the platform's energy divides: measured components as they are, modelled ones as far as room is left.

    The sum of all shares and the change of carry is `platform_uj`, exactly. `carry_uj` is never positive.
    """
    model = sum(modelled_uj)
    room = platform_uj - measured_uj + carry_uj
    kept = min(model, max(0, room))
    modelled = list(modelled_uj) if kept == model else apportion(kept, modelled_uj)
    left = room - kept
    return Closure(modelled, max(0, left), min(0, left))


@dataclass(frozen=True, slots=True)
class Modelled:
    """Energy of a modelled component inside the platform meter, parts apart."""

    dynamic_uj: int = 0
    idle_uj: int = 0

    def __add__(self, more: "Modelled") -> "Modelled":
        return Modelled(self.dynamic_uj + more.dynamic_uj, self.idle_uj + more.idle_uj)


@dataclass(frozen=True, slots=True)
class SpanClosed:
    """What a platform span adds. `other_uj` is None where it is not known; `modelled` is to be booked now."""

    other_uj: int | None
    modelled: Mapping[str, Modelled]
    gap: GapCause | None = None


@dataclass(frozen=True, slots=True)
class PlatformState:
    """What must survive a restart: saved with each slot."""

    carry_uj: int = 0
    measured_uj: Mapping[str, int] = field(default_factory=dict)
    covered_ns: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, Modelled] = field(default_factory=dict)
    waiting: Mapping[str, Modelled] = field(default_factory=dict)
    spoiled: bool = False


class PlatformSpan:
    """What the components inside the platform meter did since its last fresh reading."""

    def __init__(self, inside: frozenset[str], refresh_ns: int, now_ns: int) -> None:
        """`inside` names the measured domains within the platform meter; `refresh_ns` is how often it is new."""
        self._inside = inside
        self._patience_ns = HOLD_INTERVALS * refresh_ns
        self._last_valid_ns = now_ns
        self._began_ns = now_ns
        """When the span under way began: at the last sign of life of the platform meter."""
        self._measured: dict[str, int] = {}
        self._covered: dict[str, int] = {}
        self._pending: dict[str, Modelled] = {}
        self._waiting: dict[str, Modelled] = {}
        self._spoiled = False
        self.carry_uj = 0
        """Never positive: what components drew beyond what the platform has shown so far."""

    def measured(self, domain: str, energy_uj: int, span_ns: int) -> None:
        """Take in a fresh delta of a measured domain; one outside the platform meter is ignored."""
        if domain in self._inside:
            self._measured[domain] = self._measured.get(domain, 0) + energy_uj
            self._covered[domain] = self._covered.get(domain, 0) + span_ns

    def spoil(self) -> None:
        """Note that a domain inside was re-baselined: this span cannot be closed."""
        self._spoiled = True

    def modelled(self, domain: str, dynamic_uj: int, idle_uj: int) -> None:
        """Take in a step's energy of a modelled domain inside; it is booked when `close` or `overdue` returns it."""
        self._pending[domain] = self._pending.get(domain, Modelled()) + Modelled(dynamic_uj, idle_uj)

    def close(self, platform_uj: int, span_ns: int, now_ns: int) -> SpanClosed:
        """Return what the fresh platform reading of `now_ns`, `span_ns` after the last one, makes known."""
        if self._spoiled or any(self._covered.get(domain, 0) != span_ns for domain in self._inside):
            return self._give_up(GapCause.LATE, now_ns)
        names = sorted(self._pending)
        amounts = [amount for name in names for amount in _parts(self._pending[name])]
        closure = close_span(platform_uj, sum(self._measured.values()), amounts, self.carry_uj)
        self.carry_uj = closure.carry_uj
        scaled = iter(closure.modelled)
        booked = {name: Modelled(next(scaled), next(scaled)) for name in names}
        for name, amount in self._waiting.items():
            booked[name] = booked.get(name, Modelled()) + amount
        self._waiting = {}
        self._last_valid_ns = now_ns
        self._start_span(now_ns)
        return SpanClosed(closure.other_uj, booked)

    def void(self, now_ns: int) -> SpanClosed:
        """Return what is due after the platform meter itself was re-baselined or came back: no `other` for the span."""
        return self._give_up(None, now_ns)

    def overdue(self, now_ns: int) -> Mapping[str, Modelled]:
        """Return modelled energy to be booked unscaled: no span was valid for 3 refresh intervals. Usually empty.

        What belongs to a span that began lately stays: the meter is back, and this span may be valid again.
        """
        if now_ns - self._last_valid_ns < self._patience_ns or not (self._pending or self._waiting):
            return {}
        due, self._waiting = dict(self._waiting), {}
        if now_ns - self._began_ns >= self._patience_ns:
            for name, amount in self._pending.items():
                due[name] = due.get(name, Modelled()) + amount
            self._spoiled = self._spoiled or bool(self._pending)
            self._pending = {}
        return due

    def below_components(self, idle_other_uw: int) -> bool:
        """Return whether the debt is beyond 600 s of the idle power of `other`: the meter shows too little."""
        return self.carry_uj < -energy_of(idle_other_uw, LARGEST_DEBT_NS)

    def saved(self) -> PlatformState:
        """Return what to keep across a restart."""
        return PlatformState(
            self.carry_uj,
            dict(self._measured),
            dict(self._covered),
            dict(self._pending),
            dict(self._waiting),
            self._spoiled,
        )

    def restore(self, state: PlatformState) -> None:
        """Take up where the last process of this boot left off."""
        self.carry_uj = min(0, state.carry_uj)
        self._measured = dict(state.measured_uj)
        self._covered = dict(state.covered_ns)
        self._pending = dict(state.pending)
        self._waiting = dict(state.waiting)
        self._spoiled = state.spoiled

    def _give_up(self, gap: GapCause | None, now_ns: int) -> SpanClosed:
        for name, amount in self._pending.items():
            self._waiting[name] = self._waiting.get(name, Modelled()) + amount
        self._start_span(now_ns)
        return SpanClosed(None, self.overdue(now_ns), gap)

    def _start_span(self, now_ns: int) -> None:
        self._began_ns = now_ns
        self._measured = {}
        self._covered = {}
        self._pending = {}
        self._spoiled = False


def _parts(energy: Modelled) -> tuple[int, int]:
    return energy.dynamic_uj, energy.idle_uj
