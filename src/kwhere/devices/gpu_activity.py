"""Activity of a GPU's parts (`PROF_*`): by the vendor's library where it tells it, else by a service beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kwhere.devices.gpu import Readings
from kwhere.devices.gpu_fields import GpuField

ACTIVITY = frozenset(name for name in GpuField if name.value.startswith("prof_"))
LIBRARY = "gpm"
"""`Readings.activity` where the library itself tells it."""


@dataclass(frozen=True, slots=True)
class OutsideActivity:
    """What a service beside the library tells now. `source` is its word in `Readings.activity`."""

    source: str
    values: Mapping[tuple[str, int | None], Mapping[GpuField, int | float]] = field(default_factory=dict)
    """By the device's uuid and the GPU instance, None for the whole device."""


def with_activity(
    readings: Readings, outside: OutsideActivity | None, uuid: str, gpu_instance: int | None = None
) -> Readings:
    """Return the readings with activity and its source: never one quantity from here and another from there."""
    if not ACTIVITY.isdisjoint(readings.values):
        return replace(readings, activity=LIBRARY)
    found = {} if outside is None else outside.values.get((uuid, gpu_instance), {})
    if outside is None or not found:
        return readings
    missing = {name: why for name, why in readings.missing.items() if name not in found}
    return replace(readings, values={**readings.values, **found}, missing=missing, activity=outside.source)
