"""How each quantity is read from NVML: by a call of its own, or by a field id. Sources: nvml.h, DCGM's dcgm_fields.

Units change here: milliwatts to microwatts, millijoules to microjoules, MHz to Hz, degrees to millidegrees, KiB to
bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from kwhere.devices.gpu_fields import Absence, GpuField, RateGroup
from kwhere.devices.nvml_calls import Handle, is_blank

FAST, MEDIUM, SLOW = RateGroup.FAST, RateGroup.MEDIUM, RateGroup.SLOW
MILLI, MEGA, KIBI = 1000, 1_000_000, 1024
ALL_LINKS = 0xFFFFFFFF
GPU_SCOPE, MODULE_SCOPE = 0, 1
_DOUBLE, _UINT, _ULONG, _ULL, _SLL, _INT, _USHORT = range(7)


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of an answer."""

    field: GpuField
    scale: int = 1
    bits: int = 32

    def of(self, raw: int | float) -> int | Absence:
        """Return the number of a getter in its unit; BLANK for NVML's "not available"."""
        return Absence.BLANK if is_blank(raw, self.bits) else self.known(raw)

    def known(self, raw: int | float) -> int:
        """Return a number of which it is known that it is one: of a field, whose answer tells its own width."""
        return round(raw) * self.scale if isinstance(raw, float) else raw * self.scale


@dataclass(frozen=True, slots=True, eq=False)
class Getter:
    """One call and the quantities that its answer holds, in order."""

    group: RateGroup
    quantities: tuple[Quantity, ...]
    call: Callable[[Handle], Sequence[int]]
    on_mig: bool = True
    """Whether it means anything while the device is divided: utilisation does not (it reads 0 or nothing)."""


def _one(
    group: RateGroup, quantity: Quantity, call: Callable[..., Any], *arguments: int, on_mig: bool = True
) -> Getter:
    return Getter(group, (quantity,), lambda handle: (call(handle, *arguments),), on_mig)


def _utilisation(field: GpuField, name: str) -> Getter:
    call = getattr(pynvml, name)
    return Getter(FAST, (Quantity(field),), lambda handle: (call(handle)[0],), on_mig=False)


def _clock(group: RateGroup, field: GpuField, call: Callable[..., Any], kind: int) -> Getter:
    return _one(group, Quantity(field, MEGA), call, kind)


def _temperature(field: GpuField, kind: int) -> Getter:
    return _one(SLOW, Quantity(field, MILLI), pynvml.nvmlDeviceGetTemperatureThreshold, kind)


def _utilisation_rates(handle: Handle) -> Sequence[int]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _bar1(handle: Handle) -> Sequence[int]:
    memory = pynvml.nvmlDeviceGetBAR1MemoryInfo(handle)
    return memory.bar1Total, memory.bar1Used, memory.bar1Free


def _vgpu_license(handle: Handle) -> Sequence[int]:
    """Return whether a vGPU licence is in force: 0 also where none is needed, as DCGM says it."""
    answer = pynvml.nvmlDeviceGetGridLicensableFeatures_v4(handle)
    features = answer.gridLicensableFeatures[: min(answer.licensableFeaturesCount, len(answer.gridLicensableFeatures))]
    return (int(bool(answer.isGridLicenseSupported) and any(one.featureState for one in features)),)


def _event_reasons(handle: Handle) -> Sequence[int]:
    try:
        return (pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),)
    except pynvml.NVMLError_FunctionNotFound:  # its name before driver 535
        return (pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),)


GETTERS: tuple[Getter, ...] = (
    _one(FAST, Quantity(GpuField.POWER_UW, MILLI), pynvml.nvmlDeviceGetPowerUsage),
    _one(
        FAST,
        Quantity(GpuField.ENERGY_UJ, MILLI, bits=64),
        pynvml.nvmlDeviceGetTotalEnergyConsumption,
    ),
    Getter(
        FAST,
        (Quantity(GpuField.GPU_UTIL_PERCENT), Quantity(GpuField.MEMORY_UTIL_PERCENT)),
        _utilisation_rates,
        on_mig=False,
    ),
    _utilisation(GpuField.ENCODER_UTIL_PERCENT, "nvmlDeviceGetEncoderUtilization"),
    _utilisation(GpuField.DECODER_UTIL_PERCENT, "nvmlDeviceGetDecoderUtilization"),
    _utilisation(GpuField.JPEG_UTIL_PERCENT, "nvmlDeviceGetJpgUtilization"),
    _utilisation(GpuField.OFA_UTIL_PERCENT, "nvmlDeviceGetOfaUtilization"),
    Getter(
        MEDIUM,
        tuple(
            Quantity(field, bits=64)
            for field in (GpuField.BAR1_TOTAL_BYTES, GpuField.BAR1_USED_BYTES, GpuField.BAR1_FREE_BYTES)
        ),
        _bar1,
    ),
    _clock(FAST, GpuField.SM_CLOCK_HZ, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
    _clock(FAST, GpuField.MEMORY_CLOCK_HZ, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
    _clock(MEDIUM, GpuField.VIDEO_CLOCK_HZ, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_VIDEO),
    _clock(MEDIUM, GpuField.GRAPHICS_CLOCK_HZ, pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_GRAPHICS),
    _clock(SLOW, GpuField.APP_SM_CLOCK_HZ, pynvml.nvmlDeviceGetApplicationsClock, pynvml.NVML_CLOCK_SM),
    _clock(SLOW, GpuField.APP_MEMORY_CLOCK_HZ, pynvml.nvmlDeviceGetApplicationsClock, pynvml.NVML_CLOCK_MEM),
    _clock(SLOW, GpuField.MAX_SM_CLOCK_HZ, pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
    _clock(SLOW, GpuField.MAX_MEMORY_CLOCK_HZ, pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_MEM),
    _clock(SLOW, GpuField.MAX_VIDEO_CLOCK_HZ, pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_VIDEO),
    _one(
        MEDIUM,
        Quantity(GpuField.TEMPERATURE_MC, MILLI),
        pynvml.nvmlDeviceGetTemperature,
        pynvml.NVML_TEMPERATURE_GPU,
    ),
    _temperature(GpuField.TEMPERATURE_SHUTDOWN_MC, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
    _temperature(GpuField.TEMPERATURE_SLOWDOWN_MC, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
    _temperature(GpuField.MEMORY_TEMPERATURE_MAX_MC, pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX),
    _temperature(GpuField.TEMPERATURE_MAX_MC, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),
    _one(
        MEDIUM,
        Quantity(GpuField.TEMPERATURE_MARGIN_MC, MILLI),
        pynvml.nvmlDeviceGetMarginTemperature,
    ),
    _one(MEDIUM, Quantity(GpuField.FAN_PERCENT), pynvml.nvmlDeviceGetFanSpeed),
    _one(MEDIUM, Quantity(GpuField.PSTATE), pynvml.nvmlDeviceGetPerformanceState),
    Getter(FAST, (Quantity(GpuField.CLOCK_EVENT_REASONS, bits=64),), _event_reasons),
    _one(SLOW, Quantity(GpuField.POWER_LIMIT_UW, MILLI), pynvml.nvmlDeviceGetPowerManagementLimit),
    _one(
        SLOW,
        Quantity(GpuField.POWER_LIMIT_DEFAULT_UW, MILLI),
        pynvml.nvmlDeviceGetPowerManagementDefaultLimit,
    ),
    _one(
        SLOW,
        Quantity(GpuField.POWER_LIMIT_ENFORCED_UW, MILLI),
        pynvml.nvmlDeviceGetEnforcedPowerLimit,
    ),
    Getter(
        SLOW,
        (
            Quantity(GpuField.POWER_LIMIT_MIN_UW, MILLI),
            Quantity(GpuField.POWER_LIMIT_MAX_UW, MILLI),
        ),
        pynvml.nvmlDeviceGetPowerManagementLimitConstraints,
    ),
    _one(MEDIUM, Quantity(GpuField.PCIE_REPLAYS), pynvml.nvmlDeviceGetPcieReplayCounter),
    # each of these two measures for 20 ms: seldom
    _one(
        SLOW,
        Quantity(GpuField.PCIE_TX_BYTES_PER_SECOND, MILLI),
        pynvml.nvmlDeviceGetPcieThroughput,
        0,
    ),
    _one(
        SLOW,
        Quantity(GpuField.PCIE_RX_BYTES_PER_SECOND, MILLI),
        pynvml.nvmlDeviceGetPcieThroughput,
        1,
    ),
    _one(SLOW, Quantity(GpuField.PCIE_LINK_GEN), pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
    _one(SLOW, Quantity(GpuField.PCIE_LINK_WIDTH), pynvml.nvmlDeviceGetCurrPcieLinkWidth),
    _one(SLOW, Quantity(GpuField.PCIE_MAX_LINK_GEN), pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
    _one(SLOW, Quantity(GpuField.PCIE_MAX_LINK_WIDTH), pynvml.nvmlDeviceGetMaxPcieLinkWidth),
    Getter(
        MEDIUM,
        (
            Quantity(GpuField.REMAPPED_CORRECTABLE),
            Quantity(GpuField.REMAPPED_UNCORRECTABLE),
            Quantity(GpuField.REMAPPED_PENDING),
            Quantity(GpuField.REMAPPED_FAILURE),
        ),
        pynvml.nvmlDeviceGetRemappedRows,
    ),
    Getter(SLOW, (Quantity(GpuField.VGPU_LICENSE_STATUS),), _vgpu_license),
    Getter(SLOW, (Quantity(GpuField.MIG_MODE),), lambda handle: pynvml.nvmlDeviceGetMigMode(handle)[:1]),
)
"""Quantities that have a call of their own."""

GETTERS_OF = {group: tuple(getter for getter in GETTERS if getter.group is group) for group in RateGroup}

FIELD_IDS: dict[tuple[int, int], tuple[RateGroup, Quantity]] = {
    (186, GPU_SCOPE): (FAST, Quantity(GpuField.POWER_INSTANT_UW, MILLI)),
    (185, GPU_SCOPE): (FAST, Quantity(GpuField.POWER_AVERAGE_UW, MILLI)),
    (186, MODULE_SCOPE): (FAST, Quantity(GpuField.POWER_MODULE_UW, MILLI)),
    (82, 0): (MEDIUM, Quantity(GpuField.MEMORY_TEMPERATURE_MC, MILLI)),
    (74, 0): (MEDIUM, Quantity(GpuField.VIOLATION_POWER_NS)),
    (75, 0): (MEDIUM, Quantity(GpuField.VIOLATION_THERMAL_NS)),
    (76, 0): (MEDIUM, Quantity(GpuField.VIOLATION_SYNC_BOOST_NS)),
    (77, 0): (MEDIUM, Quantity(GpuField.VIOLATION_BOARD_LIMIT_NS)),
    (78, 0): (MEDIUM, Quantity(GpuField.VIOLATION_LOW_UTIL_NS)),
    (79, 0): (MEDIUM, Quantity(GpuField.VIOLATION_RELIABILITY_NS)),
    (80, 0): (MEDIUM, Quantity(GpuField.VIOLATION_APP_CLOCKS_NS)),
    (81, 0): (MEDIUM, Quantity(GpuField.VIOLATION_BASE_CLOCKS_NS)),
    (269, 0): (MEDIUM, Quantity(GpuField.CLOCK_EVENT_SW_THERMAL_NS)),
    (270, 0): (MEDIUM, Quantity(GpuField.CLOCK_EVENT_HW_THERMAL_NS)),
    (271, 0): (MEDIUM, Quantity(GpuField.CLOCK_EVENT_HW_POWER_BRAKE_NS)),
    (197, 0): (MEDIUM, Quantity(GpuField.PCIE_TX_BYTES)),
    (198, 0): (MEDIUM, Quantity(GpuField.PCIE_RX_BYTES)),
    (173, 0): (MEDIUM, Quantity(GpuField.PCIE_CORRECTABLE_ERRORS)),
    (1, 0): (SLOW, Quantity(GpuField.ECC_MODE)),
    (2, 0): (SLOW, Quantity(GpuField.ECC_PENDING)),
    (3, 0): (MEDIUM, Quantity(GpuField.ECC_SBE_VOLATILE)),
    (4, 0): (MEDIUM, Quantity(GpuField.ECC_DBE_VOLATILE)),
    (5, 0): (MEDIUM, Quantity(GpuField.ECC_SBE_AGGREGATE)),
    (6, 0): (MEDIUM, Quantity(GpuField.ECC_DBE_AGGREGATE)),
    (29, 0): (SLOW, Quantity(GpuField.RETIRED_SBE)),
    (30, 0): (SLOW, Quantity(GpuField.RETIRED_DBE)),
    (31, 0): (SLOW, Quantity(GpuField.RETIRED_PENDING)),
    (91, 0): (SLOW, Quantity(GpuField.NVLINK_COUNT)),
    (138, ALL_LINKS): (MEDIUM, Quantity(GpuField.NVLINK_TX_BYTES, KIBI)),
    (139, ALL_LINKS): (MEDIUM, Quantity(GpuField.NVLINK_RX_BYTES, KIBI)),
    (38, 0): (MEDIUM, Quantity(GpuField.NVLINK_CRC_FLIT_ERRORS)),
    (45, 0): (MEDIUM, Quantity(GpuField.NVLINK_CRC_DATA_ERRORS)),
    (52, 0): (MEDIUM, Quantity(GpuField.NVLINK_REPLAY_ERRORS)),
    (59, 0): (MEDIUM, Quantity(GpuField.NVLINK_RECOVERY_ERRORS)),
    (230, 0): (MEDIUM, Quantity(GpuField.RECOVERY_ACTION)),
}
"""Quantities by field id and scope: all of a group are read in one call, each with a return code of its own."""

FIELD_IDS_OF = {
    group: {place: quantity for place, (of, quantity) in FIELD_IDS.items() if of is group} for group in RateGroup
}


def field_value(answer: Any) -> int | float | Absence:
    """Return the number of one field's answer; BLANK where all bits of the type that it says it has are set."""
    value, kind = answer.value, answer.valueType
    if kind == _DOUBLE:
        number = float(value.dVal)
        return Absence.BLANK if is_blank(number, 0) else number
    if kind in (_UINT, _USHORT, _INT):
        number = int({_UINT: value.uiVal, _USHORT: value.usVal, _INT: value.siVal}[kind])
        return Absence.BLANK if is_blank(number, 32) else number
    number = int(value.sllVal if kind == _SLL else value.ullVal)
    return Absence.BLANK if is_blank(number, 64) or number < 0 else number
