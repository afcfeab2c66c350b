"""What series are about: a GPU, or a GPU instance of a divided one, with everything that was read of it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kwhere.dcgm.device_choice import Choice, DeviceChoice
from kwhere.devices.gpu import DeviceState, GpuInstance, GpuSnapshot, LibraryState, Readings
from kwhere.devices.gpu_fields import GpuField

LinkRates = Mapping[tuple[GpuField, int | None], float]
"""Bytes per second by counter and link; link None is all of them."""

_COMPUTE_PART = re.compile(r"\d+c\.")


@dataclass(frozen=True, slots=True)
class Entity:
    """One GPU, or one GPU instance. `own` holds what is really its own, `whole` what belongs to the whole device."""

    state: DeviceState
    library: LibraryState
    whole: Readings
    own: Readings
    instance: GpuInstance | None = None
    rates: LinkRates = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int | None]:
        """Return what tells it from others: the device's uuid and the GPU instance's id."""
        return self.state.device.uuid, None if self.instance is None else self.instance.gpu_instance

    @property
    def profile(self) -> str:
        """Return the GPU instance's profile: `3g.20gb` also where a compute instance holds a part of it."""
        return "" if self.instance is None else _COMPUTE_PART.sub("", self.instance.profile, count=1)


def entities(snapshot: GpuSnapshot, choice: DeviceChoice, rates: Callable[[str], LinkRates]) -> list[Entity]:
    """Return what is shown, by GPU and GPU instance; one that is down is there with nothing read."""
    found: list[Entity] = []
    ordinal = 0
    for state in snapshot.devices:
        parts = list(_parts(state))
        whole = _readings(state)
        links = rates(state.device.uuid) if state.up else {}
        if choice.takes_gpu(state.device.index, is_divided=bool(parts)):
            found.append(Entity(state, snapshot.library, whole, whole, None, links))
        for instance, own in parts:
            if choice.takes_instance(ordinal):
                found.append(Entity(state, snapshot.library, whole, own, instance, links))
            ordinal += 1
    return found


def devices(snapshot: GpuSnapshot, choice: DeviceChoice) -> list[Entity]:
    """Return whole devices alone, for what is only known of those."""
    only = DeviceChoice(Choice.GPUS, choice.ids if choice.kind is Choice.GPUS else None)
    return entities(snapshot, only, lambda _uuid: {})


def _readings(state: DeviceState) -> Readings:
    """Return what was read; nothing of a device that is down: what was read before is not what is."""
    return state.readings if state.up and state.readings is not None else Readings()


def _parts(state: DeviceState) -> Iterator[tuple[GpuInstance, Readings]]:
    """Yield each GPU instance once: the compute instances in one share its memory, its activity and its id."""
    seen: set[int] = set()
    for part in sorted(state.instances, key=lambda one: (one.instance.gpu_instance, one.instance.compute_instance)):
        if state.device.mig and part.instance.gpu_instance not in seen:
            seen.add(part.instance.gpu_instance)
            yield part.instance, part.readings if state.up else Readings()
