"""One step of one GPU: who held it, who used it, and with what weights its energy is split. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import DeviceState, GpuInstance, GpuProcess, Readings
from kwhere.devices.gpu_activity import tells_soon
from kwhere.devices.gpu_fields import GpuField
from kwhere.discovery.gpu_claims import WHOLE, GpuClaim
from kwhere.energy.gpu_split import GpuHolder, SharedInstance, active_use, divided_use
from kwhere.energy.split import Held, Use
from kwhere.sampling.gpu_plan import DevicePlan, HeldPlace, PlacePlan

Owner = Callable[[int], UnitKey | None]
"""Whose a process is."""


@dataclass(frozen=True, slots=True)
class UnitHold:
    """What one unit did in one step with what it held. None is not known."""

    place: HeldPlace
    busy: float | None
    """Share of the device's time in which the unit's part of it worked."""
    memory_bytes: int | None
    idle: bool | None
    """Held, and nothing of the unit runs there."""
    memory_total_bytes: int | None = None
    """Of the device or instance."""


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
    by_slices: bool = False
    """It is divided, and of an instance that is held nobody tells how much it worked: slices stand for it."""


def device_step(state: DeviceState, plan: DevicePlan, owner_of: Owner) -> DeviceStep:
    """Return a device's step; `plan` is of this device and its claims."""
    use, holds, by_slices = (_divided if plan.divided else _undivided)(state, plan, owner_of)
    return DeviceStep(
        plan.units, use, plan.held, tuple(holds), _utilisation(state), _busy_percent(state), by_slices=by_slices
    )


def _undivided(state: DeviceState, plan: DevicePlan, owner_of: Owner) -> tuple[Use, list[UnitHold], bool]:
    (place,) = plan.places
    running = _by_owner(state.processes, owner_of)
    total = state.readings.integer(GpuField.MEMORY_TOTAL_BYTES) if state.readings is not None else None
    holds = _holds(place, state.processes, running, state.readings, total)
    if plan.use is not None:
        return plan.use, holds, False
    strangers = [one for unit, processes in running.items() if unit not in place.units for one in processes]
    stranger_sm = sum((process.sm_percent or 0) * 10 for process in strangers)
    return active_use(_holders(place, running), stranger_sm), holds, False


def _divided(state: DeviceState, plan: DevicePlan, owner_of: Owner) -> tuple[Use, list[UnitHold], bool]:
    position = {unit: i for i, unit in enumerate(plan.units)}
    instances: list[SharedInstance] = []
    holds: list[UnitHold] = []
    guessed = False
    for one, place in zip(state.instances, plan.places, strict=True):
        instance = one.instance
        processes = _inside(state.processes, instance)
        running = _by_owner(processes, owner_of)
        activity = one.readings.ratio(GpuField.PROF_GRAPHICS_RATIO)
        guessed = guessed or (activity is None and bool(place.units) and not tells_soon(one.readings))
        instances.append(
            SharedInstance(
                instance.compute_slices,
                _holders(place, running),
                [position[unit] for unit in place.units],
                None if activity is None else round(activity * WHOLE),
                has_process=bool(processes),
            )
        )
        holds += _holds(place, processes, running, one.readings, instance.memory_bytes)
    return divided_use(instances, len(plan.units), plan.total_slices), holds, guessed


def _holders(place: PlacePlan, running: Mapping[UnitKey | None, Sequence[GpuProcess]]) -> Sequence[GpuHolder]:
    """Return holders with what their processes do, where that decides who uses a place."""
    if not place.shared:
        return place.holders
    return [_holder(claim, running.get(unit)) for claim, unit in zip(place.claims, place.units, strict=True)]


def _holder(claim: GpuClaim, processes: Sequence[GpuProcess] | None) -> GpuHolder:
    known = [process.sm_percent for process in processes or () if process.sm_percent is not None]
    return GpuHolder(
        share=max(0, claim.share),
        exclusive=claim.exclusive,
        live=claim.live,
        has_process=bool(processes),
        sm_utilisation=sum(known) * 10 if known else None,
    )


def _holds(
    place: PlacePlan,
    processes: Sequence[GpuProcess] | None,
    running: Mapping[UnitKey | None, Sequence[GpuProcess]],
    readings: Readings | None,
    memory_total_bytes: int | None,
) -> list[UnitHold]:
    """Readings are of a place that a unit has for itself, and then say more than its processes."""
    if not place.held:
        return []
    own = readings if place.alone else None
    seen = _seen(processes, running, readings)
    mine = [_of_unit(seen, running.get(unit), everything=place.alone) for unit in place.units]
    return [
        UnitHold(held, _busy(used, own, held.share), _memory(used, own), _is_idle(used, own), memory_total_bytes)
        for held, used in zip(place.held, mine, strict=True)
    ]


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
