"""AMD's GPUs by AMD's Python package amdsmi, part of ROCm."""

from kwhere.core.errors import Unavailable
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.meters.meter import MeterContext, Plugin

SOURCE = "amdsmi"


def build(context: MeterContext) -> GpuMeter:
    """Return a meter of these GPUs. Raises Unavailable (absent)."""
    for source in context.gpus:
        if source.source == SOURCE:
            return GpuMeter(SOURCE, source)
    raise Unavailable("absent", f"{SOURCE}: expected a GPU of AMD and the package amdsmi, found none")


plugin = Plugin(source=SOURCE, build=build)
