"""GPUs in the API's JSON. "GPU seconds": a whole device for a second is one; null is not known, or no GPU."""

from dataclasses import dataclass
from datetime import datetime

from kwhere.core.quantities import joules, seconds
from kwhere.database.gpu_records import UnitGpu


@dataclass(frozen=True, slots=True)
class UnitGpuView:
    """One GPU or instance that a unit holds or held, with lifetime totals."""

    node: str
    gpu: int
    """As the vendor's library counts devices: the label `gpu` of its series."""
    uuid: str
    mig: str | None
    """UUID of the instance: the label `mig` of its series; null: the whole device."""
    model: str
    profile: str | None
    source: str
    """How it is known who held it."""
    held: bool
    """In the newest slot."""
    first_at: datetime
    last_at: datetime
    held_seconds: float
    """Time, not GPU time; so is `held_idle_seconds`."""
    allocated_seconds: float
    unknown_seconds: float
    """GPU seconds of which nobody knows whether it was used: neither idle nor busy."""
    busy_seconds: float | None
    utilization_ratio: float | None
    """Busy of allocated, over the time of which it is known."""
    held_idle_seconds: float | None
    held_idle_joules: float | None
    """What fell to it meanwhile."""
    idle_since: datetime | None
    energy_joules: float | None
    memory_peak_bytes: int | None
    memory_total_bytes: int | None


def unit_gpu_view(gpu: UnitGpu) -> UnitGpuView:
    """Return one GPU of a unit."""
    return UnitGpuView(
        node=gpu.node,
        gpu=gpu.index,
        uuid=gpu.device,
        mig=gpu.instance or None,
        model=gpu.model,
        profile=gpu.profile or None,
        source=gpu.source,
        held=gpu.is_held,
        first_at=gpu.first_at,
        last_at=gpu.last_at,
        held_seconds=seconds(gpu.held_ns),
        allocated_seconds=seconds(gpu.allocated_ns),
        unknown_seconds=seconds(gpu.unknown_ns),
        busy_seconds=None if gpu.busy_ns is None else seconds(gpu.busy_ns),
        utilization_ratio=gpu.utilisation_ratio,
        held_idle_seconds=None if gpu.held_idle_ns is None else seconds(gpu.held_idle_ns),
        held_idle_joules=None if gpu.held_idle_uj is None else joules(gpu.held_idle_uj),
        idle_since=gpu.idle_since,
        energy_joules=None if gpu.energy_uj is None else joules(gpu.energy_uj),
        memory_peak_bytes=gpu.memory_peak_bytes,
        memory_total_bytes=gpu.memory_total_bytes,
    )
