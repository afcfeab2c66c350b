"""From fresh meter readings and gathered weights to shares: one split per domain and span."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kwhere.core.terms import Component, DomainKind, IdlePolicy, Method
from kwhere.core.unit import UnitKey
from kwhere.energy.baseline import IdleBaseline, IdleOrigin
from kwhere.energy.placement import Topology
from kwhere.energy.platform import Modelled, PlatformState
from kwhere.energy.split import DomainSplit, Held, Use, idle_energy, split_domain
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.dynamic_seen import DynamicSeen
from kwhere.sampling.gpu_book import GpuBook, GpuWeights
from kwhere.sampling.meter_bank import COMPONENT_OF, MeterBank, MeterStep
from kwhere.sampling.platform_book import PlatformBook, PlatformClosed
from kwhere.sampling.weights import SpanWeights, Weights

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Booking:
    """One domain's energy over one span, and who gets it."""

    component: Component
    domain: str
    source: str
    method: Method
    energy_uj: int
    """As the meter had it, before the split."""
    span_ns: int
    keys: tuple[UnitKey, ...]
    split: DomainSplit
    held: Sequence[int]
    idle_origin: IdleOrigin
    gpu: GpuWeights | None = None
    """Who held the GPU, where the domain is one and that is known."""


class EnergyBook:
    """Splits domains when their meters are fresh. Remembers what each unit used since a domain's last fresh reading."""

    def __init__(
        self,
        bank: MeterBank,
        baseline_of: Callable[[str, Domain], IdleBaseline],
        policy: IdlePolicy,
        platforms: Sequence[PlatformBook] = (),
        gpus: GpuBook | None = None,
    ) -> None:
        """`baseline_of` gives the idle baseline of a source's domain when it is first seen.

        The first of `platforms` that answers is kept for good.
        """
        self._bank = bank
        self._baseline_of = baseline_of
        self._policy = policy
        self._candidates = tuple(platforms)
        self._gpus = gpus
        self._platform: PlatformBook | None = None
        self._spans: dict[Domain, SpanWeights] = {}
        self._given_dynamic = DynamicSeen()
        self.baselines: dict[tuple[str, Domain], IdleBaseline] = {}

    @property
    def platform(self) -> PlatformBook | None:
        """Return the book of `other`; None where no platform meter has answered."""
        return self._platform

    def saved_platform(self) -> tuple[str, PlatformState] | None:
        """Return the platform meter in use and what to keep of it across a restart."""
        state = self._platform.saved() if self._platform is not None else None
        return (self._platform.source, state) if self._platform is not None and state is not None else None

    def restore_platform(self, saved: tuple[str, PlatformState]) -> None:
        """Go on from what was saved of a platform meter in this boot."""
        source, state = saved
        for book in self._candidates:
            if book.source == source:
                book.restore(state)

    def step(
        self, steps: Sequence[MeterStep], weights: Weights, topology: Topology, *, now_ns: int, utc_ns: int
    ) -> list[Booking]:
        """Return what this step's fresh readings make known, split."""
        for span in self._spans.values():
            span.add(weights)
        chosen = [step for step in steps if self._bank.speaks(step.source, step.domain.kind)]
        platform = self._platform = self._platform or self._first_platform(steps)
        if platform is None:
            return [booking for step in chosen for booking in self._component(step, weights, topology, utc_ns)]
        platform.expect(_measured_inside(platform, chosen), now_ns)
        bookings = [booking for step in chosen for booking in self._component(step, weights, topology, utc_ns)]
        closed = platform.step(steps, weights, now_ns)
        bookings += self._released(platform, closed, topology)
        if closed.other_uj is not None:
            bookings += self._other(platform, closed.other_uj, closed.span_ns, topology, utc_ns)
        return bookings

    def start_slot(self) -> None:
        """Put learned idle powers in force: never within a slot."""
        for baseline in self.baselines.values():
            baseline.start_slot()

    def await_spans(self, domains: Iterable[Domain]) -> None:
        """Gather weights for domains whose counters go on from an earlier process: their source may answer late."""
        for domain in domains:
            self._spans.setdefault(domain, SpanWeights())

    def forget_spans(self) -> None:
        """Drop gathered weights: the sockets of the node are others than before."""
        self._spans.clear()

    def baseline(self, source: str, domain: Domain) -> IdleBaseline:
        """Return the idle baseline of a domain."""
        found = self.baselines.get((source, domain))
        if found is None:
            found = self.baselines[(source, domain)] = self._baseline_of(source, domain)
        return found

    def _first_platform(self, steps: Sequence[MeterStep]) -> PlatformBook | None:
        """Return the best platform meter that answered; none while a better one is asked for the first time.

        One that says what no node can draw has not answered: a meter whose unit is wrong says so for ever.
        """
        answered = {step.source for step in steps if step.domain == PLATFORM and not step.step.is_nonsense}
        for book in self._candidates:
            if book.source in answered:
                return book
            if self._bank.is_pending(book.source):
                return None
        return None

    def _component(self, step: MeterStep, weights: Weights, topology: Topology, utc_ns: int) -> Iterable[Booking]:
        domain = step.domain
        span = self._spans.get(domain)
        if span is None:
            span = self._spans[domain] = SpanWeights()
            span.add(weights)
        if step.method is Method.HYPERVISOR:
            return self._given(step, span, weights, topology)
        if step.first or (step.step.gaps and not step.step.fresh):
            self._take_gpu(domain)
        baseline = self.baseline(step.source, domain)
        holds = self._platform is not None and self._platform.holds(COMPONENT_OF[domain.kind])
        inside = self._platform if holds else None
        if step.step.gaps:
            baseline.interrupt()
            if inside is not None:
                inside.spoil()
        if step.first or not step.step.fresh:
            if step.first or step.step.gaps:
                span.take()
            return ()
        energy_uj, span_ns = step.step.energy_uj or 0, step.step.span_ns
        gathered = span.take() or weights
        idle_uj = idle_energy(energy_uj, baseline.idle_uw, span_ns)
        baseline.observe(energy_uj, span_ns, self._utilisation(domain, gathered, topology), utc_ns)
        parts = Modelled(energy_uj - idle_uj, idle_uj)
        if inside is None:
            return (self._split(step, parts, gathered, topology, span_ns),)
        if step.method is Method.MODELLED:
            inside.hold_back(step, parts, gathered)
            return ()
        inside.measured(step)
        booking = self._split(step, parts, gathered, topology, span_ns)
        inside.seen(booking.keys, booking.split)
        return (booking,)

    def _given(self, step: MeterStep, span: SpanWeights, weights: Weights, topology: Topology) -> Iterable[Booking]:
        """Return the split of energy whose parts the hypervisor has told: nothing is learned, nothing estimated."""
        if step.first or not step.step.fresh:
            if step.first or step.step.gaps:
                span.take()
                if step.domain.kind is DomainKind.OTHER:
                    self._given_dynamic.forget()
            return ()
        energy_uj, idle_uj = step.step.energy_uj or 0, step.step.idle_uj or 0
        gathered = span.take() or weights
        booking = self._split(step, Modelled(energy_uj - idle_uj, idle_uj), gathered, topology, step.step.span_ns)
        if step.domain.kind is not DomainKind.OTHER:
            self._given_dynamic.add(booking.keys, booking.split)
        return (booking,)

    def _split(self, step: MeterStep, energy: Modelled, weights: Weights, topology: Topology, span_ns: int) -> Booking:
        """Return one domain's energy split by the weights of its span."""
        gpu = self._take_gpu(step.domain)
        use, held = shares_of(step.domain, weights, topology) if gpu is None else (gpu.use, gpu.held)
        keys = weights.keys if gpu is None else gpu.keys
        given = step.method is Method.HYPERVISOR
        if step.domain.kind is DomainKind.OTHER:
            use = self._given_dynamic.take(weights.keys)
        policy = IdlePolicy.NONE if step.domain.kind is DomainKind.GPU and gpu is None else self._policy
        return Booking(
            component=COMPONENT_OF[step.domain.kind],
            domain=str(step.domain),
            source=step.source,
            method=step.method,
            energy_uj=energy.dynamic_uj + energy.idle_uj,
            span_ns=span_ns,
            keys=keys,
            split=split_domain(energy.dynamic_uj, energy.idle_uj, use, held, policy),
            held=held.amounts,
            idle_origin=IdleOrigin.GIVEN if given else self.baseline(step.source, step.domain).origin,
            gpu=gpu,
        )

    def _take_gpu(self, domain: Domain) -> GpuWeights | None:
        """Return who held a GPU since its last fresh reading; None for other domains and where nobody knows."""
        return self._gpus.take(domain.index) if self._gpus is not None and domain.kind is DomainKind.GPU else None

    def _utilisation(self, domain: Domain, weights: Weights, topology: Topology) -> float | None:
        if domain.kind is not DomainKind.GPU or self._gpus is None:
            return utilisation(domain, weights, topology)
        gpu = self._gpus.peek(domain.index)
        return None if gpu is None else gpu.utilisation

    def _released(self, platform: PlatformBook, closed: PlatformClosed, topology: Topology) -> list[Booking]:
        """Return the split of modelled components that the platform's span set free."""
        bookings = []
        for released in closed.released:
            booking = self._split(released.step, released.energy, released.weights, topology, released.weights.span_ns)
            platform.seen(booking.keys, booking.split)
            bookings.append(booking)
        return bookings

    def _other(
        self, platform: PlatformBook, other_uj: int, span_ns: int, topology: Topology, utc_ns: int
    ) -> list[Booking]:
        """Return the split of `other`; turns the platform meter off where its debt has grown too large."""
        found = platform.take_other()
        baseline = self.baseline(platform.source, PLATFORM)
        if found is None:
            return []
        use, weights = found
        idle_uj = idle_energy(other_uj, baseline.idle_uw, span_ns)
        baseline.observe(other_uj, span_ns, utilisation(PLATFORM, weights, topology), utc_ns)
        whole = weights.over_all_sockets()
        held = Held(whole.cpus_held[0], whole.cpu_capacity[0], whole.lived_ns)
        platform.judge(baseline.idle_uw)
        return [
            Booking(
                component=Component.OTHER,
                domain=str(PLATFORM),
                source=platform.source,
                method=platform.method,
                energy_uj=other_uj,
                span_ns=span_ns,
                keys=weights.keys,
                split=split_domain(other_uj - idle_uj, idle_uj, use, held, self._policy),
                held=held.amounts,
                idle_origin=baseline.origin,
            )
        ]


def _measured_inside(platform: PlatformBook, chosen: Sequence[MeterStep]) -> frozenset[str]:
    return frozenset(
        str(step.domain)
        for step in chosen
        if step.method is not Method.MODELLED and platform.holds(COMPONENT_OF[step.domain.kind])
    )


def shares_of(domain: Domain, weights: Weights, topology: Topology) -> tuple[Use, Held]:
    """Return the weights by which a domain is split: its socket's, or the whole node's where it has none."""
    s = socket_of(domain, topology)
    if s is None:
        weights, s = weights.over_all_sockets(), 0
    if domain.kind is DomainKind.GPU:
        nothing = [0] * len(weights.keys)
        return Use(nothing, 0), Held(nothing, 1, weights.lived_ns)
    use = Use(weights.used_ns[s], weights.system_ns[s])
    if domain.kind is DomainKind.DRAM:
        return use, Held(weights.memory_held[s], weights.memory_capacity[s], weights.lived_ns)
    return use, Held(weights.cpus_held[s], weights.cpu_capacity[s], weights.lived_ns)


def socket_of(domain: Domain, topology: Topology) -> int | None:
    """Return the index of the socket that a domain names; None: the whole node."""
    if domain.kind is DomainKind.GPU or domain.index not in topology.sockets:
        return None
    return topology.index(domain.index)


def utilisation(domain: Domain, weights: Weights, topology: Topology) -> float | None:
    """Return the domain's own utilisation over a span: its socket's for cpu, the busiest socket's for dram."""
    if domain.kind is DomainKind.GPU:
        return None
    by_socket = [
        (sum(used) + system) * _MILLI / capacity if capacity else 1.0
        for used, system, capacity in zip(weights.used_ns, weights.system_ns, weights.cpu_capacity, strict=True)
    ]
    s = socket_of(domain, topology) if domain.kind is DomainKind.CPU else None
    return max(by_socket, default=None) if s is None else by_socket[s]
