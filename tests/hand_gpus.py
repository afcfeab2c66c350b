"""GPUs made of numbers: a `GpuSource` whose devices a test moves by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.sampling_world import WATT, HandClock

from kwhere.devices.gpu import (
    DeviceState,
    GpuDevice,
    GpuInstance,
    GpuProcess,
    GpuSnapshot,
    InstanceState,
    LibraryState,
    Readings,
    Vendor,
)
from kwhere.devices.gpu_fields import Absence, GpuField

LIMIT_WATTS = 400


@dataclass
class HandGpus:
    """Every device is set by its uuid; `clock` says when it was read."""

    clock: HandClock
    vendor: Vendor = Vendor.NVIDIA
    library: LibraryState = field(default_factory=lambda: LibraryState(True))
    answered: bool = True
    interval_seconds: float = 1.0
    source: str = "nvml"
    states: dict[str, DeviceState] = field(default_factory=dict)

    def add(
        self,
        uuid: str,
        *,
        watts: float | None = 100,
        joules: float | None = 0,
        slices: int = 1,
        instances: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Add a device; `instances` are uuids with their compute slices, GPU instances numbered from 1."""
        made = tuple(
            GpuInstance(name, name, f"{width}g", number, 0, width)
            for number, (name, width) in enumerate(instances, start=1)
        )
        device = GpuDevice(
            uuid, len(self.states), self.vendor, "A100", mig=bool(made) or None, compute_slices=slices, instances=made
        )
        self.states[uuid] = DeviceState(
            device, up=True, instances=tuple(InstanceState(one) for one in made), processes=()
        )
        self.read(uuid, watts=watts, joules=joules)

    def read(
        self,
        uuid: str,
        *,
        watts: float | None = 100,
        joules: float | None = None,
        more: Mapping[GpuField, int | float] | None = None,
        why: Absence = Absence.UNSUPPORTED,
    ) -> None:
        """Let a device be read now."""
        values: dict[GpuField, int | float] = {GpuField.POWER_LIMIT_ENFORCED_UW: LIMIT_WATTS * WATT}
        missing: dict[GpuField, Absence] = {}
        for name, value in ((GpuField.POWER_UW, watts), (GpuField.ENERGY_UJ, joules)):
            if value is None:
                missing[name] = why
            else:
                values[name] = round(value * WATT)
        readings = Readings(self.clock.monotonic, {**values, **(more or {})}, missing)
        self.states[uuid] = replace(self.states[uuid], up=True, reason="", readings=readings)

    def run(self, uuid: str, *processes: GpuProcess) -> None:
        """Let exactly these processes run on a device."""
        self.states[uuid] = replace(self.states[uuid], processes=processes)

    def activity(self, uuid: str, instance: str, ratio: float | None) -> None:
        """Let an instance have been so active."""
        values = {} if ratio is None else {GpuField.PROF_GRAPHICS_RATIO: ratio}
        instances = tuple(
            replace(one, readings=Readings(self.clock.monotonic, values)) if one.instance.uuid == instance else one
            for one in self.states[uuid].instances
        )
        self.states[uuid] = replace(self.states[uuid], instances=instances)

    def lose(self, uuid: str, reason: str = "lost") -> None:
        """Let a device not answer any more."""
        self.states[uuid] = replace(self.states[uuid], up=False, reason=reason)

    def snapshot(self) -> GpuSnapshot:
        """Return the devices as they stand."""
        return GpuSnapshot(self.vendor, self.library, tuple(self.states.values()), self.answered)
