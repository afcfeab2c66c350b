"""What changes slowly on AMD's GPUs, by amdsmi: temperatures, clocks, links, errors, limits."""

from kwhere.devices.gpu_fields import GpuField
from kwhere.graphics.amdsmi_calls import Handle, Module, call, entry, number
from kwhere.graphics.field_sink import FieldSink

_MEGA = 1_000_000
_MILLI = 1000
_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}
"""By speed in megatransfers per second."""


def put_state(module: Module, handle: Handle, sink: FieldSink) -> None:
    """Put temperatures, clocks, the PCI link and errors."""
    edge, junction = (_temperature(module, handle, kind) for kind in ("EDGE", "JUNCTION"))
    junction = _temperature(module, handle, "HOTSPOT") if junction is None else junction
    sink.put(GpuField.TEMPERATURE_MC, junction if edge is None else edge)
    sink.put(GpuField.TEMPERATURE_HOTSPOT_MC, junction)
    sink.put(GpuField.MEMORY_TEMPERATURE_MC, _temperature(module, handle, "VRAM"))
    graphics = _clock(module, handle, "GFX", "clk", "cur_clk")
    sink.put(GpuField.SM_CLOCK_HZ, graphics)
    sink.put(GpuField.GRAPHICS_CLOCK_HZ, graphics)
    sink.put(GpuField.MEMORY_CLOCK_HZ, _clock(module, handle, "MEM", "clk", "cur_clk"))
    link = call(module, "amdsmi_get_pcie_info", handle)
    sink.put(GpuField.PCIE_LINK_WIDTH, entry(link, "pcie_metric", "pcie_width") or None)
    sink.put(GpuField.PCIE_LINK_GEN, _GENERATIONS.get(entry(link, "pcie_metric", "pcie_speed") or 0))
    sink.put(GpuField.PCIE_REPLAYS, entry(link, "pcie_metric", "pcie_replay_count"))
    errors = call(module, "amdsmi_get_gpu_total_ecc_count", handle)
    sink.put(GpuField.ECC_SBE_VOLATILE, entry(errors, "correctable_count"))
    sink.put(GpuField.ECC_DBE_VOLATILE, entry(errors, "uncorrectable_count"))


def put_limits(module: Module, handle: Handle, sink: FieldSink) -> None:
    """Put power limits (microwatts as they come), highest clocks, the link that is possible, critical temperatures."""
    caps = call(module, "amdsmi_get_power_cap_info", handle)
    enforced = _cap(entry(caps, "power_cap"))
    sink.put(GpuField.POWER_LIMIT_UW, enforced)
    sink.put(GpuField.POWER_LIMIT_ENFORCED_UW, enforced)
    sink.put(GpuField.POWER_LIMIT_DEFAULT_UW, _cap(entry(caps, "default_power_cap")))
    sink.put(GpuField.POWER_LIMIT_MAX_UW, _cap(entry(caps, "max_power_cap")))
    sink.put(GpuField.POWER_LIMIT_MIN_UW, _cap(entry(caps, "min_power_cap")))
    sink.put(GpuField.MAX_SM_CLOCK_HZ, _clock(module, handle, "GFX", "max_clk"))
    sink.put(GpuField.MAX_MEMORY_CLOCK_HZ, _clock(module, handle, "MEM", "max_clk"))
    link = call(module, "amdsmi_get_pcie_info", handle)
    sink.put(GpuField.PCIE_MAX_LINK_WIDTH, entry(link, "pcie_static", "max_pcie_width") or None)
    sink.put(GpuField.PCIE_MAX_LINK_GEN, _GENERATIONS.get(entry(link, "pcie_static", "max_pcie_speed") or 0))
    sink.put(GpuField.TEMPERATURE_SLOWDOWN_MC, _temperature(module, handle, "HOTSPOT", "CRITICAL"))
    sink.put(GpuField.MEMORY_TEMPERATURE_MAX_MC, _temperature(module, handle, "VRAM", "CRITICAL"))


def _cap(limit: int | None) -> int | None:
    """Return microwatts: some versions of the package tell whole watts, which no limit in microwatts is as small as."""
    if not limit:
        return None
    return limit * _MEGA if limit < _MEGA else limit


def _temperature(module: Module, handle: Handle, place: str, metric: str = "CURRENT") -> int | None:
    kind = getattr(getattr(module, "AmdSmiTemperatureType", None), place, None)
    wanted = getattr(getattr(module, "AmdSmiTemperatureMetric", None), metric, None)
    if kind is None or wanted is None:
        return None
    degrees = number(call(module, "amdsmi_get_temp_metric", handle, kind, wanted))
    return None if degrees is None else degrees * _MILLI


def _clock(module: Module, handle: Handle, clock: str, *names: str) -> int | None:
    kind = getattr(getattr(module, "AmdSmiClkType", None), clock, None)
    if kind is None:
        return None
    answer = call(module, "amdsmi_get_clock_info", handle, kind)
    found = next((value for name in names if (value := entry(answer, name)) is not None), None)
    return None if found is None else found * _MEGA
