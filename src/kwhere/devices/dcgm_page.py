"""Activity of GPUs on the page of a dcgm-exporter: what it prints, what it means by it, and what it prints for nothing.

It does not escape label values, prints words of NVIDIA's DCGM for "not known" as numbers, and repeats a GPU's series
for every job or pod on it. Every line is taken by itself: one that cannot be read takes no other along.
"""

import re
from collections.abc import Mapping

from kwhere.devices.gpu_fields import GpuField

_NAMES: dict[str, GpuField] = {
    "GR_ENGINE_ACTIVE": GpuField.PROF_GRAPHICS_RATIO,
    "GR_ENGINE_UTIL_RATIO": GpuField.PROF_GRAPHICS_RATIO,
    "SM_ACTIVE": GpuField.PROF_SM_RATIO,
    "SM_UTIL_RATIO": GpuField.PROF_SM_RATIO,
    "SM_OCCUPANCY": GpuField.PROF_SM_OCCUPANCY_RATIO,
    "SM_OCCUPANCY_RATIO": GpuField.PROF_SM_OCCUPANCY_RATIO,
    "PIPE_TENSOR_ACTIVE": GpuField.PROF_TENSOR_RATIO,
    "TENSOR_UTIL_RATIO": GpuField.PROF_TENSOR_RATIO,
    "DRAM_ACTIVE": GpuField.PROF_DRAM_RATIO,
    "DRAM_UTIL_RATIO": GpuField.PROF_DRAM_RATIO,
    "PIPE_FP64_ACTIVE": GpuField.PROF_FP64_RATIO,
    "FP64_UTIL_RATIO": GpuField.PROF_FP64_RATIO,
    "PIPE_FP32_ACTIVE": GpuField.PROF_FP32_RATIO,
    "FP32_UTIL_RATIO": GpuField.PROF_FP32_RATIO,
    "PIPE_FP16_ACTIVE": GpuField.PROF_FP16_RATIO,
    "FP16_UTIL_RATIO": GpuField.PROF_FP16_RATIO,
    "PIPE_INT_ACTIVE": GpuField.PROF_INT_RATIO,
    "INT_UTIL_RATIO": GpuField.PROF_INT_RATIO,
    "PIPE_TENSOR_IMMA_ACTIVE": GpuField.PROF_IMMA_RATIO,
    "IMMA_UTIL_RATIO": GpuField.PROF_IMMA_RATIO,
    "PIPE_TENSOR_HMMA_ACTIVE": GpuField.PROF_HMMA_RATIO,
    "HMMA_UTIL_RATIO": GpuField.PROF_HMMA_RATIO,
    "PIPE_TENSOR_DFMA_ACTIVE": GpuField.PROF_DFMA_RATIO,
    "DFMA_UTIL_RATIO": GpuField.PROF_DFMA_RATIO,
    "PCIE_TX_BYTES": GpuField.PROF_PCIE_TX_BYTES_PER_SECOND,
    "PCIE_RX_BYTES": GpuField.PROF_PCIE_RX_BYTES_PER_SECOND,
    "NVLINK_TX_BYTES": GpuField.PROF_NVLINK_TX_BYTES_PER_SECOND,
    "NVLINK_RX_BYTES": GpuField.PROF_NVLINK_RX_BYTES_PER_SECOND,
}
"""Fields without `DCGM_FI_PROF_`, by their names of before and after DCGM 4.6."""

_LINE = re.compile(r"dcgm_fi_prof_([a-z0-9_]+)\{(.*)\}[ \t]+([0-9.eE+-]{1,40})(?:[ \t]+-?[0-9]{1,20})?[ \t\r]*", re.I)
_UUID = re.compile(r'(?:^|,)[ \t]*(?:UUID|uuid)="(GPU-[0-9a-zA-Z-]{1,64})"')
_INSTANCE = re.compile(r'(?:^|,)[ \t]*GPU_I_ID="([0-9]{1,4})"')
_BLANK_DOUBLE = 140737488355328.0
"""DCGM_FP64_BLANK; three more words for "not known" follow it."""
_BLANK_INTEGER = 2.0**63 - 16
_MOST_SLICES = 8.0
"""Some versions say more than all of a MIG instance: its activity by the whole GPU's measure. Beyond is no ratio."""

Values = Mapping[tuple[str, int | None], Mapping[GpuField, int | float]]
"""By the device's uuid and the GPU instance, None for the whole device."""


def read_activity(page: str) -> Values:
    """Return what a page says of the activity of each GPU and instance; the first of what it says twice."""
    found: dict[tuple[str, int | None], dict[GpuField, int | float]] = {}
    for line in page.splitlines():
        match = _LINE.fullmatch(line)
        name = _NAMES.get(match[1].upper()) if match is not None else None
        if match is None or name is None:
            continue
        uuid, instance = _UUID.search(match[2]), _INSTANCE.search(match[2])
        value = activity_value(name, match[3])
        if uuid is not None and value is not None:
            place = (uuid[1], int(instance[1]) if instance is not None else None)
            found.setdefault(place, {}).setdefault(name, value)
    return found


def activity_value(name: GpuField, text: str) -> int | float | None:
    """Return the number of a page; None for words that mean "not known" and for what cannot be."""
    try:
        return activity_number(name, float(text))
    except ValueError:
        return None


def activity_number(name: GpuField, value: float) -> int | float | None:
    """Return a ratio 0..1 or bytes per second; None for DCGM's "not known" and for what cannot be."""
    if not 0 <= value < _BLANK_INTEGER or _BLANK_DOUBLE <= value < _BLANK_DOUBLE + 4:
        return None
    if not name.value.endswith("_ratio"):
        return round(value)
    return min(1.0, value) if value <= _MOST_SLICES else None
