"""Intel's GPUs by the files of the drivers i915 and xe."""

from kwhere.core.errors import Unavailable
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.meters.meter import MeterContext, Plugin

SOURCE = "intel_gpu"


def build(context: MeterContext) -> GpuMeter:
    """Return a meter of these GPUs. Raises Unavailable (absent)."""
    for source in context.gpus:
        if source.source == SOURCE:
            return GpuMeter(SOURCE, source)
    raise Unavailable("absent", f"{SOURCE}: expected a GPU of Intel, found none")


plugin = Plugin(source=SOURCE, build=build)
