"""Names of energy sources, those first that are believed first."""

PLATFORM_ORDER = (
    "cray",
    "hwmon_energy",
    "redfish",
    "ipmi_dcmi",
    "http_json",
    "hwmon_power",
    "scmi",
    "psys",
    "perf_psys",
    "battery",
)
"""Whose platform is believed first; an unknown source comes last."""
COMPONENT_ORDER = (
    "hypervisor",
    "powercap",
    "perf",
    "hwmon_energy",
    "nvml",
    "amdsmi",
    "amdgpu",
    "intel_gpu",
    "cray",
    "scmi",
    "hwmon_power",
    "model",
)
SOURCES = frozenset((*PLATFORM_ORDER, *COMPONENT_ORDER))
