"""One step of one GPU: who held it, who used it, and with what weights its energy is split. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import DeviceState, GpuInstance, GpuProcess, Readings
from kwhere.devices.gpu_fields import GpuField
from kwhere.discovery.gpu_claims import WHOLE, ClaimSource, GpuClaim
from kwhere.energy.gpu_split import (
    GpuHolder,
    SharedInstance,
    active_use,
    device_holding,
    divided_holding,
    divided_use,
)
from kwhere.energy.split import Held, Use

Owner = Callable[[int], UnitKey | None]
"""Whose a process is."""


@dataclass(frozen=True, slots=True)
class UnitHold:
    """What one unit held of one device or instance in one step. None is not known."""

    unit: UnitKey
    device: str
    instance: str
    index: int
    source: ClaimSource
    share: float
    """Of the whole device, 0..1."""
    busy: float | None
    """Share of the device's time in which the unit's part of it worked."""
    memory_bytes: int | None
    idle: bool | None
    """Held, and nothing of the unit runs there."""
    model: str = ""
    profile: str = ""
    """Of the instance."""
    place_share: float = 1.0
    """Of the device or instance itself, 0..1."""
    memory_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceStep:
    """One device in one step. `use` and `held` are by position in `units`, per nanosecond of the step."""

    units: tuple[UnitKey, ...] = ()
    use: Use = field(default_factory=lambda: Use([], 1))
    held: Held = field(default_factory=lambda: Held([], 1, []))
    holds: tuple[UnitHold, ...] = ()
    utilisation: float | None = None
    """0 where no process has a context on it, 1 where one has; None: not known."""
    busy_percent: int = 0
    """How busy it was; 100 where only that somebody runs there is known."""


@dataclass(frozen=True, slots=True)
class _Claims:
    """Claims on one place, one per unit."""

    units: tuple[UnitKey, ...]
    by_unit: Mapping[UnitKey, GpuClaim]


def device_step(state: DeviceState, claims: Sequence[GpuClaim], owner_of: Owner) -> DeviceStep:
    """Return a device's step. Claims of units that are not here any more are the caller's to leave out."""
    if state.device.mig and state.device.instances:
        return _divided(state, claims, owner_of)
    return _undivided(state, [claim for claim in claims if not claim.instance], owner_of)


def _undivided(state: DeviceState, claims: Sequence[GpuClaim], owner_of: Owner) -> DeviceStep:
    found = _merge(claims)
    running = _by_owner(state.processes, owner_of)
    holders = [_holder(found.by_unit[unit], running.get(unit)) for unit in found.units]
    strangers = [one for unit, processes in running.items() if unit not in found.by_unit for one in processes]
    stranger_sm = sum((process.sm_percent or 0) * 10 for process in strangers)
    shares = device_holding(holders, 1)
    alone = len(found.units) == 1
    seen = _seen(state.processes, running, state.readings)
    holds = [
        _hold(
            found.by_unit[unit],
            state,
            share=_place_share(shares, i),
            processes=_of_unit(seen, running.get(unit), everything=alone and holders[i].exclusive),
            readings=state.readings if alone and holders[i].exclusive else None,
        )
        for i, unit in enumerate(found.units)
    ]
    return DeviceStep(
        found.units, active_use(holders, stranger_sm), shares, tuple(holds), _utilisation(state), _busy_percent(state)
    )


def _divided(state: DeviceState, claims: Sequence[GpuClaim], owner_of: Owner) -> DeviceStep:
    """Each instance is a device of its own; a claim on the whole holds the instances that nobody claims."""
    whole = [claim for claim in claims if not claim.instance]
    units = tuple(sorted({claim.unit for claim in claims}))
    position = {unit: i for i, unit in enumerate(units)}
    total = max(state.device.compute_slices, sum(one.compute_slices for one in state.device.instances))
    instances: list[SharedInstance] = []
    holds: list[UnitHold] = []
    for one in state.instances:
        instance = one.instance
        found = _merge([claim for claim in claims if claim.instance == instance.uuid] or whole)
        processes = _inside(state.processes, instance)
        running = _by_owner(processes, owner_of)
        holders = [_holder(found.by_unit[unit], running.get(unit)) for unit in found.units]
        activity = one.readings.ratio(GpuField.PROF_GRAPHICS_RATIO)
        instances.append(
            SharedInstance(
                instance.compute_slices,
                holders,
                [position[unit] for unit in found.units],
                None if activity is None else round(activity * WHOLE),
                has_process=bool(processes),
            )
        )
        shares = device_holding(holders, 1)
        alone = len(found.units) == 1
        holds += [
            _hold(
                found.by_unit[unit],
                state,
                instance=instance,
                share=_place_share(shares, i),
                slices=instance.compute_slices / total,
                processes=_of_unit(
                    _seen(processes, running, one.readings),
                    running.get(unit),
                    everything=alone and holders[i].exclusive,
                ),
                readings=one.readings if alone and holders[i].exclusive else None,
            )
            for i, unit in enumerate(found.units)
        ]
    return DeviceStep(
        units,
        divided_use(instances, len(units), total),
        divided_holding(instances, len(units), total, 1),
        tuple(holds),
        _utilisation(state),
        _busy_percent(state),
    )


def _place_share(shares: Held, i: int) -> float:
    return shares.amounts[i] / max(1, shares.capacity, sum(shares.amounts))


def _merge(claims: Sequence[GpuClaim]) -> _Claims:
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
    return _Claims(tuple(sorted(by_unit)), by_unit)


def _holder(claim: GpuClaim, processes: Sequence[GpuProcess] | None) -> GpuHolder:
    known = [process.sm_percent for process in processes or () if process.sm_percent is not None]
    return GpuHolder(
        share=max(0, claim.share),
        exclusive=claim.exclusive,
        live=claim.live,
        has_process=bool(processes),
        sm_utilisation=sum(known) * 10 if known else None,
    )


def _hold(
    claim: GpuClaim,
    state: DeviceState,
    *,
    share: float,
    processes: Sequence[GpuProcess] | None,
    readings: Readings | None,
    instance: GpuInstance | None = None,
    slices: float = 1.0,
) -> UnitHold:
    """`readings`: of a place that the unit has for itself, which then say more than its processes.

    `share` is of the place, `slices` the place's share of the device.
    """
    return UnitHold(
        unit=claim.unit,
        device=state.device.uuid,
        instance=instance.uuid if instance is not None else "",
        index=state.device.index,
        source=claim.source,
        share=share * slices,
        busy=_busy(processes, readings, share * slices),
        memory_bytes=_memory(processes, readings),
        idle=_is_idle(processes, readings),
        model=state.device.model,
        profile=instance.profile if instance is not None else "",
        place_share=share,
        memory_total_bytes=_memory_total(state, instance),
    )


def _memory_total(state: DeviceState, instance: GpuInstance | None) -> int | None:
    if instance is not None:
        return instance.memory_bytes
    return state.readings.integer(GpuField.MEMORY_TOTAL_BYTES) if state.readings is not None else None


def _busy(processes: Sequence[GpuProcess] | None, readings: Readings | None, share: float) -> float | None:
    if readings is not None:
        percent = readings.integer(GpuField.GPU_UTIL_PERCENT)
        if percent is not None:
            return share * min(100, percent) / 100
        ratio = readings.ratio(GpuField.PROF_GRAPHICS_RATIO)
        if ratio is not None:
            return share * ratio
    if processes is None:
        return None
    known = [process.sm_percent for process in processes]
    if any(percent is None for percent in known):
        return None
    return min(100, sum(percent or 0 for percent in known)) / 100


def _memory(processes: Sequence[GpuProcess] | None, readings: Readings | None) -> int | None:
    used = readings.integer(GpuField.MEMORY_USED_BYTES) if readings is not None else None
    if used is not None:
        return used
    if processes is None or any(process.memory_bytes is None for process in processes):
        return None
    return sum(process.memory_bytes or 0 for process in processes)


def _is_idle(processes: Sequence[GpuProcess] | None, readings: Readings | None) -> bool | None:
    percent = readings.integer(GpuField.GPU_UTIL_PERCENT) if readings is not None else None
    if _works(readings):
        return False
    if processes is None:
        return None if percent is None else True
    return not processes


def _by_owner(processes: Sequence[GpuProcess] | None, owner_of: Owner) -> dict[UnitKey | None, list[GpuProcess]]:
    found: dict[UnitKey | None, list[GpuProcess]] = {}
    for process in processes or ():
        found.setdefault(owner_of(process.pid), []).append(process)
    return found


def _of_unit(
    all_processes: Sequence[GpuProcess] | None, mine: Sequence[GpuProcess] | None, *, everything: bool
) -> Sequence[GpuProcess] | None:
    """Return a unit's processes: who has a place for itself has all that run there, whoever's they are."""
    if all_processes is None:
        return None
    return all_processes if everything else mine or ()


def _seen(
    processes: Sequence[GpuProcess] | None,
    running: Mapping[UnitKey | None, Sequence[GpuProcess]],
    readings: Readings | None,
) -> Sequence[GpuProcess] | None:
    """Return processes; None where a place works and none of them is anybody's: whose work it is nobody knows then."""
    works = _works(readings)
    return None if works and not any(owner is not None for owner in running) else processes


def _works(readings: Readings | None) -> bool:
    if readings is None:
        return False
    return bool(readings.integer(GpuField.GPU_UTIL_PERCENT) or readings.ratio(GpuField.PROF_GRAPHICS_RATIO))


def _inside(processes: Sequence[GpuProcess] | None, instance: GpuInstance) -> list[GpuProcess] | None:
    if processes is None:
        return None
    return [
        process
        for process in processes
        if process.gpu_instance == instance.gpu_instance
        and process.compute_instance in (None, instance.compute_instance)
    ]


def _utilisation(state: DeviceState) -> float | None:
    if state.readings is not None and state.readings.integer(GpuField.GPU_UTIL_PERCENT):
        return 1.0
    return None if state.processes is None else float(bool(state.processes))


def _busy_percent(state: DeviceState) -> int:
    told = state.readings.integer(GpuField.GPU_UTIL_PERCENT) if state.readings is not None else None
    return min(100, told) if told is not None else 100 * bool(state.processes)
