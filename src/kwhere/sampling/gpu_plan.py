"""Who holds what of one GPU, as its claims say: what stays the same from step to step. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import GpuDevice, GpuInstance
from kwhere.discovery.gpu_claims import WHOLE, ClaimSource, GpuClaim
from kwhere.energy.gpu_split import GpuHolder, SharedInstance, active_use, device_holding, divided_holding
from kwhere.energy.split import Held, Use


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """One unit's part of one device or instance."""

    unit: UnitKey
    device: str
    instance: str
    index: int
    source: ClaimSource
    share: float
    """Of the whole device, 0..1."""
    model: str = ""
    profile: str = ""
    """Of the instance."""
    place_share: float = 1.0
    """Of the device or instance itself, 0..1."""


@dataclass(frozen=True, slots=True)
class PlacePlan:
    """A device that is not divided, or one instance. What is by unit stands in the order of `units`."""

    instance: GpuInstance | None
    units: tuple[UnitKey, ...]
    claims: tuple[GpuClaim, ...]
    holders: tuple[GpuHolder, ...]
    """As they are while nothing runs."""
    held: tuple[HeldPlace, ...]
    alone: bool
    """One unit has it for itself: what is read of the place is that unit's."""
    shared: bool
    """Who uses it goes by processes: nobody was given it for himself."""


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """One GPU and all who hold it."""

    device: GpuDevice
    claims: tuple[GpuClaim, ...]
    units: tuple[UnitKey, ...]
    places: tuple[PlacePlan, ...]
    divided: bool
    total_slices: int
    held: Held
    """Per nanosecond."""
    use: Use | None
    """Where it does not change while the claims stand."""

    def is_of(self, device: GpuDevice, claims: Sequence[GpuClaim]) -> bool:
        """Return whether it still says how things are."""
        return self.device is device and self.claims == tuple(claims)


def plan_device(device: GpuDevice, claims: Sequence[GpuClaim]) -> DevicePlan:
    """Return who holds what of a device. Claims of units that are not here any more are the caller's to leave out."""
    return _divided(device, claims) if device.mig and device.instances else _undivided(device, claims)


def _undivided(device: GpuDevice, claims: Sequence[GpuClaim]) -> DevicePlan:
    place = _place(device, None, 1.0, [claim for claim in claims if not claim.instance])
    return DevicePlan(
        device,
        tuple(claims),
        place.units,
        (place,),
        divided=False,
        total_slices=1,
        held=device_holding(place.holders, 1),
        use=active_use(place.holders) if place.holders and not place.shared else None,
    )


def _divided(device: GpuDevice, claims: Sequence[GpuClaim]) -> DevicePlan:
    """Each instance is a device of its own; a claim on the whole holds the instances that nobody claims."""
    whole = [claim for claim in claims if not claim.instance]
    units = tuple(sorted({claim.unit for claim in claims}))
    position = {unit: i for i, unit in enumerate(units)}
    total = max(device.compute_slices, sum(one.compute_slices for one in device.instances))
    places = tuple(
        _place(
            device,
            one,
            one.compute_slices / total,
            [claim for claim in claims if claim.instance == one.uuid] or whole,
        )
        for one in device.instances
    )
    instances = [
        SharedInstance(one.compute_slices, place.holders, [position[unit] for unit in place.units])
        for one, place in zip(device.instances, places, strict=True)
    ]
    held = divided_holding(instances, len(units), total, 1)
    return DevicePlan(device, tuple(claims), units, places, divided=True, total_slices=total, held=held, use=None)


def _place(device: GpuDevice, instance: GpuInstance | None, slices: float, claims: Sequence[GpuClaim]) -> PlacePlan:
    """`slices`: the place's share of the device."""
    by_unit = _merge(claims)
    units = tuple(sorted(by_unit))
    merged = tuple(by_unit[unit] for unit in units)
    holders = tuple(GpuHolder(max(0, claim.share), claim.exclusive, claim.live) for claim in merged)
    shares = device_holding(holders, 1)
    capacity = max(1, shares.capacity, sum(shares.amounts))
    exclusive = any(holder.exclusive for holder in holders)
    return PlacePlan(
        instance,
        units,
        merged,
        holders,
        tuple(
            HeldPlace(
                claim.unit,
                device.uuid,
                instance.uuid if instance is not None else "",
                device.index,
                claim.source,
                amount / capacity * slices,
                device.model,
                instance.profile if instance is not None else "",
                amount / capacity,
            )
            for claim, amount in zip(merged, shares.amounts, strict=True)
        ),
        alone=len(units) == 1 and exclusive,
        shared=not exclusive,
    )


def _merge(claims: Sequence[GpuClaim]) -> Mapping[UnitKey, GpuClaim]:
    """Return one claim per unit: shares of one unit add up, and one exclusive claim makes all of it exclusive."""
    by_unit: dict[UnitKey, GpuClaim] = {}
    for claim in claims:
        before = by_unit.get(claim.unit)
        if before is None:
            by_unit[claim.unit] = claim
            continue
        by_unit[claim.unit] = GpuClaim(
            unit=claim.unit,
            device=claim.device,
            instance=claim.instance,
            share=min(WHOLE, before.share + claim.share),
            exclusive=before.exclusive or claim.exclusive,
            live=before.live or claim.live,
            source=before.source,
        )
    return by_unit
