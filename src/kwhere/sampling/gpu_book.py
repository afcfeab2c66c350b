"""GPUs in the steps: weights gathered until a GPU's meter is fresh, and what each unit held and used of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import GpuDevice, GpuSource
from kwhere.discovery.gpu_claims import GpuClaim, GpuHolders
from kwhere.energy.gpu_split import PARTS
from kwhere.energy.split import Held, Use
from kwhere.ledger.gpu_uses import Place
from kwhere.sampling.accounts import Accounts, Sums
from kwhere.sampling.gpu_holding import DeviceStep, UnitHold, device_step
from kwhere.sampling.gpu_plan import DevicePlan, plan_device
from kwhere.sampling.gpu_shown import ShownGpus, sum_of
from kwhere.sampling.gpu_slot import GpuSlot
from kwhere.sampling.gpu_uses import PlaceWeight, place_weight

_WHOLE_PERCENT = 100
_LONGEST_NS = 600 * NANOSECONDS_PER_SECOND
"""A GPU whose meter says nothing for longer: who held it before is forgotten."""


@dataclass(frozen=True, slots=True)
class GpuWeights:
    """Who gets the energy of one GPU over one span."""

    keys: tuple[UnitKey, ...]
    use: Use
    held: Held
    utilisation: float | None
    """Share of the span in which a process had a context on it; None: not known all the time."""
    places: tuple[tuple[PlaceWeight, ...], ...] = ()
    """By position in `keys`: what of the GPU it held."""
    by_slices: bool = False
    """Slices stood for activity in some of its steps."""


@dataclass(slots=True)
class _Span:
    """One GPU's weights since its last fresh reading."""

    use: dict[UnitKey, int] = field(default_factory=dict)
    system: int = 0
    held: dict[UnitKey, int] = field(default_factory=dict)
    capacity: int = 0
    lived: dict[UnitKey, int] = field(default_factory=dict)
    span_ns: int = 0
    busy_ns: float | None = 0.0
    places: dict[UnitKey, dict[Place, PlaceWeight]] = field(default_factory=dict)
    by_slices: bool = False

    def add(self, steps: Sequence[DeviceStep], lived_ns: Mapping[UnitKey, int], elapsed_ns: int) -> None:
        """Take in one step of every GPU that this one's meter holds: itself, and the other die of its package.

        Between two dies dynamic energy goes by how busy each is; where both rest, evenly.
        """
        busy = [step.busy_percent for step in steps] if len(steps) > 1 else []
        factors = busy if any(busy) else [_WHOLE_PERCENT] * len(steps)
        for step, factor in zip(steps, factors, strict=True):
            self._add_step(step, factor, lived_ns, elapsed_ns)
        for unit in steps[0].units if len(steps) == 1 else {unit for step in steps for unit in step.units}:
            self.lived[unit] = self.lived.get(unit, 0) + lived_ns[unit]
        self.span_ns += elapsed_ns
        told = [step.utilisation for step in steps]
        known = [utilisation for utilisation in told if utilisation is not None]
        all_known = self.busy_ns is not None and len(known) == len(told)
        self.busy_ns = (self.busy_ns or 0.0) + sum(known) / len(told) * elapsed_ns if all_known else None

    def _add_step(self, step: DeviceStep, factor: int, lived_ns: Mapping[UnitKey, int], elapsed_ns: int) -> None:
        capacity = max(1, step.held.capacity)
        for unit, use, amount in zip(step.units, step.use.weights, step.held.amounts, strict=True):
            lived = lived_ns[unit]
            self.use[unit] = self.use.get(unit, 0) + use * lived * factor // _WHOLE_PERCENT
            self.held[unit] = self.held.get(unit, 0) + amount * PARTS // capacity * lived
        for hold in step.holds:
            held = hold.place
            places = self.places.setdefault(held.unit, {})
            place = (held.device, held.instance)
            places[place] = place_weight(hold, lived_ns[held.unit], places.get(place))
        self.system += step.use.system * elapsed_ns * factor // _WHOLE_PERCENT
        self.capacity += PARTS * elapsed_ns
        self.by_slices = self.by_slices or step.by_slices

    def weights(self) -> GpuWeights:
        keys = tuple(sorted(self.use))
        return GpuWeights(
            keys,
            Use([self.use[key] for key in keys], self.system),
            Held([self.held[key] for key in keys], self.capacity, [self.lived[key] for key in keys]),
            None if self.busy_ns is None or not self.span_ns else self.busy_ns / self.span_ns,
            tuple(tuple(self.places.get(key, {}).values()) for key in keys),
            self.by_slices,
        )


class GpuBook:
    """Written by the sampler's thread alone."""

    def __init__(self, sources: Sequence[GpuSource], holders: GpuHolders) -> None:
        self._sources = tuple(sources)
        self._holders = holders
        self._spans: dict[str, _Span] = {}
        self._plans: dict[str, DevicePlan] = {}
        self.shown = ShownGpus()

    def step(self, lived_ns: Mapping[UnitKey, int], accounts: Accounts, now_ns: int, elapsed_ns: int) -> None:
        """Take one step in: gather weights, and add GPU time and memory to the units' accounts.

        `lived_ns` has how much of the step each unit of this step existed; claims of others are of units that are gone.
        """
        claims: dict[str, list[GpuClaim]] = {}
        for claim in self._holders.claims():
            if claim.unit in lived_ns and (claim.share > 0 or claim.exclusive):
                claims.setdefault(claim.device, []).append(claim)
        memory_bytes: dict[UnitKey, int] = {}
        measured: dict[str, list[DeviceStep]] = {}
        self.shown.begin()
        for source in self._sources:
            for state in source.snapshot().devices:
                uuid = state.device.uuid
                step = device_step(state, self._plan(state.device, claims.get(uuid, ())), self._holders.owner_of)
                measured.setdefault(state.device.carrier or uuid, []).append(step)
                for hold in step.holds:
                    unit = hold.place.unit
                    self._add(hold, accounts, lived_ns[unit], now_ns)
                    if hold.memory_bytes is not None:
                        memory_bytes[unit] = memory_bytes.get(unit, 0) + hold.memory_bytes
        for unit, used in memory_bytes.items():
            if (account := accounts.units.get(unit)) is not None:
                account.gpu_memory_peak_bytes = max(used, account.gpu_memory_peak_bytes or 0)
        for uuid, steps in measured.items():
            self._span(uuid).add(steps, lived_ns, elapsed_ns)
        self.shown.end(accounts.units, now_ns)

    def take(self, uuid: str) -> GpuWeights | None:
        """Return what was gathered for a GPU since the last call, and begin anew; None for one that was never seen."""
        span = self._spans.pop(uuid, None)
        return None if span is None else span.weights()

    def peek(self, uuid: str) -> GpuWeights | None:
        """Return what was gathered so far, and go on."""
        span = self._spans.get(uuid)
        return None if span is None else span.weights()

    def _plan(self, device: GpuDevice, claims: Sequence[GpuClaim]) -> DevicePlan:
        """Return who holds what of a device; it is worked out anew when that changes."""
        plan = self._plans.get(device.uuid)
        if plan is None or not plan.is_of(device, claims):
            plan = self._plans[device.uuid] = plan_device(device, claims)
        return plan

    def _span(self, uuid: str) -> _Span:
        span = self._spans.get(uuid)
        if span is None or span.span_ns > _LONGEST_NS:
            span = self._spans[uuid] = _Span()
        return span

    def _add(self, hold: UnitHold, accounts: Accounts, lived_ns: int, now_ns: int) -> None:
        """Add one hold of one step to the unit's account and to what is shown of it."""
        idle_since_ns = self.shown.add(hold, lived_ns, now_ns)
        account = accounts.units.get(hold.place.unit)
        if account is None or not lived_ns:
            return
        _add_sums(account.sums, hold, lived_ns)
        place = (hold.place.device, hold.place.instance)
        slot = account.gpus.get(place)
        if slot is None:
            slot = account.gpus[place] = GpuSlot(hold)
        slot.add(hold, lived_ns, idle_since_ns)


def _add_sums(sums: Sums, hold: UnitHold, lived_ns: int) -> None:
    allocated_ns = round(hold.place.share * lived_ns)
    sums.gpu_allocated_ns = (sums.gpu_allocated_ns or 0) + allocated_ns
    sums.gpu_busy_ns = sum_of(sums.gpu_busy_ns, hold.busy, lived_ns)
    if hold.busy is None:
        sums.gpu_unknown_ns = (sums.gpu_unknown_ns or 0) + allocated_ns
    if hold.idle is not None:
        sums.gpu_held_idle_ns = (sums.gpu_held_idle_ns or 0) + allocated_ns * hold.idle
    if hold.memory_bytes is not None:
        sums.gpu_memory_byte_ns = (sums.gpu_memory_byte_ns or 0) + hold.memory_bytes * lived_ns
