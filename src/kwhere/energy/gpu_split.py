"""Weights by which a GPU's energy goes to those who hold it: whole, shared, or cut into MIG instances.

Weights are per holder in the order given; what they leave goes to `system` (dynamic) or `unallocated` (idle).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.energy.split import Held, Use

WHOLE = 1000
"""A whole device or full activity, in thousandths."""
PARTS = 840_000_000
"""A whole device at full activity, in weights that are added over time: those of every way of sharing are alike.

Halves to eighths, sevenths and thousandths of it are whole numbers, so that they are exact.
"""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """One unit's claim on a GPU. `share` is in thousandths of the device; None fields are not known."""

    share: int = WHOLE
    exclusive: bool = True
    live: bool = True
    """Whether its pod or job is alive: of two exclusive claims the live one counts."""
    has_process: bool = False
    sm_utilisation: int | None = None
    """Thousandths of the device, over the span."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG instance: its compute slices, who holds it (a position, None: nobody), how active it was."""

    slices: int
    holder: int | None
    activity: int | None = None
    """Thousandths, at most 1000; None: not known, then a process counts as full activity."""
    has_process: bool = False


def device_use(holders: Sequence[GpuHolder], stranger_sm_utilisation: int = 0) -> Use:
    """Return weights of dynamic energy of an undivided GPU; `stranger_…` is of processes that hold no share."""
    if not holders:
        return Use([], 1)
    claims = _claims(holders)
    if any(holder.exclusive for holder in holders):
        return Use(claims, 0)
    known = [holder.sm_utilisation for holder in holders]
    if any(known) or stranger_sm_utilisation:
        return Use([value or 0 for value in known], stranger_sm_utilisation)
    working = [claim if holder.has_process else 0 for claim, holder in zip(claims, holders, strict=True)]
    return Use(working if any(working) else claims, 0)


def device_holding(holders: Sequence[GpuHolder], span_ns: int) -> Held:
    """Return weights of idle energy of an undivided GPU: shares held, the rest unallocated."""
    claims = _claims(holders)
    whole = sum(claims) if any(holder.exclusive for holder in holders) else WHOLE
    return Held([claim * span_ns for claim in claims], whole * span_ns, [span_ns] * len(holders))


def mig_use(instances: Sequence[MigInstance], units: int) -> Use:
    """Return weights of dynamic energy of a GPU with MIG: slices x activity; nothing active: slices."""
    active = [instance.slices * _activity(instance) for instance in instances]
    weights = active if any(active) else [instance.slices for instance in instances]
    return _by_holder(instances, weights, units)


def mig_holding(instances: Sequence[MigInstance], units: int, total_slices: int, span_ns: int) -> Held:
    """Return weights of idle energy of a GPU with MIG: slices held of `total_slices`, the rest unallocated."""
    held = _by_holder(instances, [instance.slices * span_ns for instance in instances], units)
    return Held(held.weights, total_slices * span_ns, [span_ns] * units)


@dataclass(frozen=True, slots=True)
class SharedInstance:
    """One MIG instance with all who hold it; `positions` are the holders' among the units."""

    slices: int
    holders: Sequence[GpuHolder] = ()
    positions: Sequence[int] = ()
    activity: int | None = None
    has_process: bool = False


def active_use(holders: Sequence[GpuHolder], stranger_sm_utilisation: int = 0) -> Use:
    """Return `device_use` as parts of the device that were active, so that steps of one span can be added."""
    use = device_use(holders, stranger_sm_utilisation)
    if not holders or any(holder.exclusive for holder in holders):
        total = max(1, sum(use.weights) + use.system)
        return Use([weight * PARTS // total for weight in use.weights], use.system * PARTS // total)
    return Use([weight * PARTS // WHOLE for weight in use.weights], use.system * PARTS // WHOLE)


def divided_use(instances: Sequence[SharedInstance], units: int, total_slices: int) -> Use:
    """Return `mig_use` as parts of the device; within an instance energy goes as on a device of its own."""
    parts: list[MigInstance] = []
    for instance in instances:
        use = device_use(instance.holders)
        total = max(1, sum(use.weights) + use.system)
        owners = [*zip(instance.positions, use.weights, strict=True), (None, use.system)]
        parts += [
            MigInstance(instance.slices * PARTS * weight // total, holder, instance.activity, instance.has_process)
            for holder, weight in owners
            if weight
        ]
    use = mig_use(parts, units)
    scale = total_slices * WHOLE
    return Use([weight // scale for weight in use.weights], use.system // scale)


def divided_holding(instances: Sequence[SharedInstance], units: int, total_slices: int, span_ns: int) -> Held:
    """Return `mig_holding` with instances that several units share; what nobody holds of one is unallocated."""
    parts: list[MigInstance] = []
    for instance in instances:
        held = device_holding(instance.holders, 1)
        capacity = max(1, held.capacity, sum(held.amounts))
        parts += [
            MigInstance(instance.slices * PARTS * amount // capacity, holder)
            for holder, amount in zip(instance.positions, held.amounts, strict=True)
        ]
    return mig_holding(parts, units, total_slices * PARTS, span_ns)


def _claims(holders: Sequence[GpuHolder]) -> list[int]:
    """Return what each holder's claim is worth: of exclusive claims only live ones count, equally."""
    exclusive = [holder for holder in holders if holder.exclusive]
    if not exclusive:
        return [holder.share for holder in holders]
    heard = [holder for holder in exclusive if holder.live] or exclusive
    return [1 if any(holder is one for one in heard) else 0 for holder in holders]


def _activity(instance: MigInstance) -> int:
    if instance.activity is not None:
        return min(WHOLE, instance.activity)
    return WHOLE if instance.has_process else 0


def _by_holder(instances: Sequence[MigInstance], weights: Sequence[int], units: int) -> Use:
    sums = [0] * units
    nobody = 0
    for instance, weight in zip(instances, weights, strict=True):
        if instance.holder is None:
            nobody += weight
        else:
            sums[instance.holder] += weight
    return Use(sums, nobody)
