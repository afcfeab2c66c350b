"""Activity of a GPU's parts (`PROF_*`): by the vendor's library where it tells it, else by a service beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kwhere.devices.gpu import DeviceState, GpuSnapshot, Readings
from kwhere.devices.gpu_fields import Absence, GpuField

ACTIVITY = frozenset(name for name in GpuField if name.value.startswith("prof_"))
LIBRARY = "gpm"
"""`Readings.activity` where the library itself tells it."""


@dataclass(frozen=True, slots=True)
class OutsideActivity:
    """What a service beside the library tells now. `source` is its word in `Readings.activity`."""

    source: str
    values: Mapping[tuple[str, int | None], Mapping[GpuField, int | float]] = field(default_factory=dict)
    """By the device's uuid and the GPU instance, None for the whole device."""


@dataclass(frozen=True, slots=True)
class OutsideState:
    """How a service beside the library does. `reason` is one word, empty while it tells activity."""

    source: str
    place: str
    up: bool
    reason: str = ""
    message: str = ""


class OutsideSource(Protocol):
    """A service beside the library, asked on a thread or in a process of its own."""

    def latest(self) -> OutsideActivity | None:
        """Return the newest activity, without waiting; None where none is known."""
        ...

    def states(self) -> tuple[OutsideState, ...]:
        """Return how each service does that was asked."""
        ...

    def ask(self) -> None:
        """Ask once and wait for the answer, for `doctor`."""
        ...

    def close(self) -> None:
        """Ask no more."""
        ...


class NothingOutside:
    """No service beside the library."""

    def latest(self) -> OutsideActivity | None:
        """Return nothing."""
        return None

    def states(self) -> tuple[OutsideState, ...]:
        """Return no service."""
        return ()

    def ask(self) -> None:
        """Ask nobody."""

    def close(self) -> None:
        """Hold nothing."""


def lacks_activity(found: GpuSnapshot) -> bool:
    """Return whether there is a GPU whose library does not tell the activity of its parts."""
    return any(state.up and not tells_activity(state) for state in found.devices)


def tells_activity(state: DeviceState) -> bool:
    """Return whether a GPU's library tells the activity of its parts, or will with its next reading."""
    places = [one.readings for one in state.instances] or [state.readings or Readings()]
    return all(place.activity == LIBRARY or tells_soon(place) for place in places)


def tells_soon(readings: Readings) -> bool:
    """Return whether the library tells it, and has only one sample yet."""
    return readings.missing.get(GpuField.PROF_GRAPHICS_RATIO) is Absence.NO_DATA


def with_activity(
    readings: Readings, outside: OutsideActivity | None, uuid: str, gpu_instance: int | None = None
) -> Readings:
    """Return the readings with activity and its source: never one quantity from here and another from there."""
    if not readings.values.keys().isdisjoint(ACTIVITY):
        return Readings(readings.time_ns, readings.values, readings.missing, readings.medium_ns, LIBRARY)
    found = {} if outside is None else outside.values.get((uuid, gpu_instance), {})
    if outside is None or not found or tells_soon(readings):
        return readings
    missing = {name: why for name, why in readings.missing.items() if name not in found}
    return replace(readings, values={**readings.values, **found}, missing=missing, activity=outside.source)
