"""The platform meter's side of a step: modelled components held back, `other` closed per fresh platform reading."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.terms import Component, DomainKind
from kwhere.core.unit import UnitKey
from kwhere.energy.platform import Modelled, PlatformSpan, PlatformState
from kwhere.energy.split import DomainSplit, Use
from kwhere.meters.meter import Meter
from kwhere.sampling.meter_bank import MeterBank, MeterStep
from kwhere.sampling.weights import SpanWeights, Weights

BELOW_COMPONENTS = "below_components"


@dataclass(frozen=True, slots=True)
class Released:
    """Energy of a modelled component that was held back and is to be booked now."""

    step: MeterStep
    energy: Modelled
    weights: Weights


@dataclass(frozen=True, slots=True)
class PlatformClosed:
    """What a step makes known of the platform's span."""

    released: Sequence[Released] = field(default=())
    other_uj: int | None = None
    span_ns: int = 0


class PlatformBook:
    """Keeps what components inside the platform meter did since its last fresh reading."""

    def __init__(self, meter: Meter, bank: MeterBank, refresh_ns: int) -> None:
        self.source = meter.source
        self.method = meter.method
        self._covers = meter.covers
        self._bank = bank
        self._refresh_ns = refresh_ns
        self._span: PlatformSpan | None = None
        self._inside: frozenset[str] = frozenset()
        self._state: PlatformState | None = None
        self._held_back: dict[str, tuple[MeterStep, SpanWeights]] = {}
        self._weights = SpanWeights()
        self._dynamic: dict[UnitKey, int] = {}
        self._system_dynamic = 0
        self._needs_proof = meter.needs_proof
        self._packages_uj = 0
        self.off = False
        """Whether the meter was found to show less than its components."""

    @property
    def carry_uj(self) -> int:
        """Return what components drew beyond what the platform has shown so far; never positive."""
        return 0 if self._span is None else self._span.carry_uj

    def holds(self, component: Component) -> bool:
        """Return whether a component lies inside the platform meter."""
        return component in self._covers and not self.off

    def saved(self) -> PlatformState | None:
        """Return what to keep across a restart in the same boot."""
        return self._state if self._span is None else self._span.saved()

    def restore(self, state: PlatformState) -> None:
        """Go on from what was saved in this boot."""
        self._state = state

    def expect(self, inside: frozenset[str], now_ns: int) -> None:
        """Name the measured domains inside, before a step is booked; a new one spoils the span under way."""
        known = self._inside | inside
        if self._span is not None and known == self._inside:
            return
        state = self.saved()
        self._span = PlatformSpan(known, self._refresh_ns, now_ns)
        self._inside = known
        if state is not None:
            self._span.restore(state)

    def measured(self, step: MeterStep) -> None:
        """Take in a fresh delta of a measured component inside."""
        if self._span is not None:
            self._span.measured(str(step.domain), step.step.energy_uj or 0, step.step.span_ns)
            if step.domain.kind is DomainKind.CPU:
                self._packages_uj += step.step.energy_uj or 0

    def spoil(self) -> None:
        """Note that a component inside was re-baselined."""
        if self._span is not None:
            self._span.spoil()

    def hold_back(self, step: MeterStep, energy: Modelled, weights: Weights) -> None:
        """Keep a modelled component's energy until the platform meter says how much room there is."""
        name = str(step.domain)
        _, gathered = self._held_back.get(name, (step, SpanWeights()))
        gathered.add(weights)
        self._held_back[name] = (step, gathered)
        if self._span is not None:
            self._span.modelled(name, energy.dynamic_uj, energy.idle_uj)

    def seen(self, keys: Sequence[UnitKey], split: DomainSplit) -> None:
        """Take in who used what of a component inside: the weights of `other`."""
        for key, dynamic_uj in zip(keys, split.dynamic, strict=True):
            if dynamic_uj:
                self._dynamic[key] = self._dynamic.get(key, 0) + dynamic_uj
        self._system_dynamic += split.system_dynamic

    def step(self, steps: Sequence[MeterStep], weights: Weights, now_ns: int) -> PlatformClosed:
        """Return what to book now; `take_other` follows once the released energy went through `seen`."""
        if self.off or self._span is None:
            return PlatformClosed()
        self._weights.add(weights)
        mine = next((s for s in steps if s.source == self.source and s.domain.kind is DomainKind.PLATFORM), None)
        if mine is None or not (mine.first or mine.step.fresh or mine.step.gaps):
            return PlatformClosed(self._release(self._span.overdue(now_ns)))
        if mine.first or not mine.step.fresh or not self._proven(mine):
            closed = self._span.void(now_ns)
        else:
            closed = self._span.close(mine.step.energy_uj or 0, mine.step.span_ns, now_ns)
        if closed.gap is not None:
            self._bank.count_gap(self.source, closed.gap, mine.step.span_ns)
        if closed.other_uj is None:
            self._start_span()
        return PlatformClosed(self._release(closed.modelled), closed.other_uj, mine.step.span_ns)

    def take_other(self) -> tuple[Use, Weights] | None:
        """Return the weights of `other` for the span that just closed, and start the next."""
        gathered = self._weights.take()
        if gathered is None:
            return None
        dynamic = [self._dynamic.pop(key, 0) for key in gathered.keys]
        use = Use(dynamic, self._system_dynamic + sum(self._dynamic.values()))
        self._start_span()
        return use, gathered

    def judge(self, idle_other_uw: int) -> None:
        """Turn the meter off where its debt shows that it sees less than its components."""
        if self._span is not None and not self.off and self._span.below_components(idle_other_uw):
            self.off = True
            self._bank.switch_off(self.source, BELOW_COMPONENTS)

    def _proven(self, mine: MeterStep) -> bool:
        """Return whether the meter may be believed: one that needs proof shows at first all that packages drew."""
        if self._needs_proof and (mine.step.energy_uj or 0) < self._packages_uj:
            self.off = True
            self._bank.switch_off(self.source, BELOW_COMPONENTS)
        self._needs_proof = False
        return not self.off

    def _release(self, energies: Mapping[str, Modelled]) -> list[Released]:
        released = []
        for name, energy in energies.items():
            held = self._held_back.get(name)
            gathered = held[1].take() if held is not None else None
            if held is not None and gathered is not None:
                released.append(Released(held[0], energy, gathered))
            elif self._span is not None:  # nobody to book to yet, e.g. just after a restart: keep it for the next span
                self._span.modelled(name, energy.dynamic_uj, energy.idle_uj)
        return released

    def _start_span(self) -> None:
        self._weights.take()
        self._dynamic.clear()
        self._system_dynamic = 0
        self._packages_uj = 0
