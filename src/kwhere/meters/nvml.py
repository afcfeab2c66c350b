"""NVIDIA's GPUs by NVML."""

from kwhere.core.errors import Unavailable
from kwhere.devices.gpu import Vendor
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.meters.meter import MeterContext, Plugin

SOURCE = "nvml"


def build(context: MeterContext) -> GpuMeter:
    """Return a meter of this node's NVIDIA GPUs. Raises Unavailable (absent)."""
    for source in context.gpus:
        if source.vendor is Vendor.NVIDIA:
            return GpuMeter(SOURCE, source)
    raise Unavailable("absent", "nvml: expected a GPU of NVIDIA on the PCI bus or gpu.nvml_library, found none")


plugin = Plugin(source=SOURCE, build=build)
