"""Activity of a GPU's parts by NVML's GPM: Hopper and newer, without DCGM, also per MIG instance."""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pynvml

from kwhere.devices.gpu_bounds import drop_impossible
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.devices.gpu_library import FieldReport
from kwhere.devices.nvml_calls import LASTING, Handle, absence_of, attempt, is_blank

_MEBI = 1 << 20
_RATIOS = {
    1: GpuField.PROF_GRAPHICS_RATIO,
    2: GpuField.PROF_SM_RATIO,
    3: GpuField.PROF_SM_OCCUPANCY_RATIO,
    4: GpuField.PROF_INT_RATIO,
    5: GpuField.PROF_TENSOR_RATIO,
    6: GpuField.PROF_DFMA_RATIO,
    7: GpuField.PROF_HMMA_RATIO,
    9: GpuField.PROF_IMMA_RATIO,
    10: GpuField.PROF_DRAM_RATIO,
    11: GpuField.PROF_FP64_RATIO,
    12: GpuField.PROF_FP32_RATIO,
    13: GpuField.PROF_FP16_RATIO,
}
_RATES = {
    20: GpuField.PROF_PCIE_TX_BYTES_PER_SECOND,
    21: GpuField.PROF_PCIE_RX_BYTES_PER_SECOND,
    60: GpuField.PROF_NVLINK_RX_BYTES_PER_SECOND,
    61: GpuField.PROF_NVLINK_TX_BYTES_PER_SECOND,
}
_FIELDS = {**_RATIOS, **_RATES}
SHORTEST_WINDOW_NS = 100_000_000
LONGEST_WINDOW_NS = 600_000_000_000
"""Samples further apart say nothing of now."""


def supports_gpm(handle: Handle) -> bool:
    """Return whether a device has GPM. Raises DeviceDown, Reopen."""
    answer = attempt(pynvml.nvmlGpmQueryDeviceSupport, handle)
    return not isinstance(answer, Absence) and bool(answer.isSupportedDevice)


class GpmWindow:
    """The last sample of one device or GPU instance; each reading is the mean since then."""

    def __init__(self, handle: Handle, gpu_instance: int | None = None) -> None:
        self._handle = handle
        self._gpu_instance = gpu_instance
        self._sample: object | None = None
        self._spare: object | None = None
        """Where the next sample is written: the two take turns."""
        self._taken_ns = 0
        self._question = _Question()
        self._last = FieldReport(missing=dict.fromkeys(_FIELDS.values(), Absence.NO_DATA))

    def read(self) -> FieldReport:
        """Return ratios and rates since the last call; the first has none. Raises DeviceDown, Reopen."""
        now_ns = time.monotonic_ns()
        age_ns = now_ns - self._taken_ns
        if self._sample is not None and age_ns < SHORTEST_WINDOW_NS:
            return self._last
        if self._spare is None:
            found = attempt(pynvml.nvmlGpmSampleAlloc)
            if isinstance(found, Absence):
                return _nothing(found)
            self._spare = found
        taken = self._take(self._spare)
        if isinstance(taken, Absence):
            return _nothing(taken)
        before, self._sample, self._spare, self._taken_ns = self._sample, self._spare, self._sample, now_ns
        if before is not None and age_ns <= LONGEST_WINDOW_NS:
            self._last = self._question.metrics(before, self._sample)
        return self._last

    def close(self) -> None:
        """Give the samples back."""
        for sample in (self._sample, self._spare):
            if sample is not None:
                attempt(pynvml.nvmlGpmSampleFree, sample)
        self._sample = self._spare = None

    def _take(self, sample: object) -> object | Absence:
        if self._gpu_instance is None:
            return attempt(pynvml.nvmlGpmSampleGet, self._handle, sample)
        return attempt(pynvml.nvmlGpmMigSampleGet, self._handle, self._gpu_instance, sample)


def _nothing(why: Absence) -> FieldReport:
    return FieldReport(missing=dict.fromkeys(_FIELDS.values(), why))


class _Question:
    """The library's record of metrics between two samples; it is large, so made once, and asks once for what lacks."""

    def __init__(self) -> None:
        self._record = pynvml.c_nvmlGpmMetricsGet_t()
        self._record.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._lacks: dict[GpuField, Absence] = {}
        self._answers = self._ask()

    def metrics(self, before: object, after: object) -> FieldReport:
        """Return ratios and rates between two samples. Raises DeviceDown, Reopen."""
        self._record.sample1, self._record.sample2 = before, after
        answered = attempt(pynvml.nvmlGpmMetricsGet, self._record)
        if isinstance(answered, Absence):
            return _nothing(answered)
        values: dict[GpuField, int | float] = {}
        missing = dict(self._lacks)
        for answer, is_ratio, field in self._answers:
            code, value = answer.nvmlReturn, answer.value
            if code != pynvml.NVML_SUCCESS:
                missing[field] = absence_of(code)
            elif is_blank(float(value), 0) or value < 0:
                missing[field] = Absence.BLANK
            elif is_ratio:
                values[field] = min(1.0, value / 100)  # some drivers say more than 100 % of a MIG instance
            else:
                values[field] = round(value * _MEBI)
        drop_impossible(values, missing)
        lacks = {field: why for field, why in missing.items() if why in LASTING}
        if len(lacks) > len(self._lacks):
            self._lacks, self._answers = lacks, self._ask(lacks)
        return FieldReport(values, missing)

    def _ask(self, lacks: Mapping[GpuField, Absence] = MappingProxyType({})) -> list[tuple[Any, bool, GpuField]]:
        """Set the record to ask for all but what is lacking; return where each answer will stand."""
        asked = [(metric, field) for metric, field in _FIELDS.items() if field not in lacks]
        self._record.numMetrics = len(asked)
        metrics = self._record.metrics
        answers = [(metrics[place], metric in _RATIOS, field) for place, (metric, field) in enumerate(asked)]
        for (answer, _, _), (metric, _) in zip(answers, asked, strict=True):
            answer.metricId = metric
        return answers
