"""Which quantity of a GPU becomes which metric: base units, counters where the hardware counts."""

from dataclasses import dataclass

from kwhere.core.metrics import Kind, MetricSpec
from kwhere.devices.gpu_fields import GpuField

GPU = ("gpu", "uuid")
PLACE = ("gpu", "uuid", "mig")
_MICRO, _MILLI, _NANO, _PERCENT = 1_000_000, 1_000, 1_000_000_000, 100


@dataclass(frozen=True, slots=True)
class Shown:
    """One quantity as a series: `more` are label values after the place's, `divisor` turns its unit into the base's."""

    field: GpuField
    spec: MetricSpec
    divisor: int = 1
    more: tuple[str, ...] = ()
    detailed: bool = False
    """Shown on request only: it seldom changes or seldom matters."""


def _gauge(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(f"kwhere_gpu_{name}", Kind.GAUGE, text, (*PLACE, *labels))


def _counter(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(f"kwhere_gpu_{name}_total", Kind.COUNTER, text, (*PLACE, *labels))


def _one(field: GpuField, spec: MetricSpec, divisor: int = 1) -> Shown:
    return Shown(field, spec, divisor)


def _labelled(spec: MetricSpec, divisor: int, rows: dict[GpuField, str], *, detailed: bool = False) -> list[Shown]:
    return [Shown(field, spec, divisor, (word,), detailed) for field, word in rows.items()]


THROTTLED = _counter("throttled_seconds", "Time in which clocks were held down, by cause; causes overlap.", "cause")
ECC = _counter("ecc_errors", "Memory errors that ECC found.", "kind", "period")
LIMIT = _gauge("power_limit_watts", "Power limits of the board.", "kind")
CLOCK_LIMIT = _gauge("clock_limit_hertz", "Largest clocks, and clocks set for applications.", "clock", "kind")
THRESHOLD = _gauge("temperature_threshold_celsius", "Temperatures at which the board acts.", "kind")
ACTIVITY = _gauge("activity_ratio", "Mean activity of a part since the last reading, as DCGM_FI_PROF_* has it.", "part")
LINK_ERRORS = _counter("nvlink_errors", "Errors on all NVLinks.", "kind")
PCIE_LINK = _gauge("pcie_link_generation", "PCIe generation of the link.", "kind")
PCIE_WIDTH = _gauge("pcie_link_lanes", "PCIe lanes of the link.", "kind")
RETIRED = _counter("retired_pages", "Memory pages taken out of use.", "cause")
REMAPPED = _counter("remapped_rows", "Memory rows replaced by spare ones.", "cause")
BAR1 = _gauge("bar1_bytes", "Memory window of the PCIe bus.", "state")
SAMPLED = "PCIe traffic by a short sample of the driver, once a minute."

GAUGES: tuple[Shown, ...] = (
    _one(
        GpuField.POWER_UW,
        _gauge("power_watts", "Power as the driver tells it: mean of a second, momentary on A100, A30 and older."),
        _MICRO,
    ),
    _one(GpuField.POWER_INSTANT_UW, _gauge("power_instant_watts", "Momentary power."), _MICRO),
    _one(GpuField.POWER_AVERAGE_UW, _gauge("power_average_watts", "Power as a mean over about a second."), _MICRO),
    _one(
        GpuField.POWER_MODULE_UW,
        _gauge("power_module_watts", "Power of a module of GPU and CPU; holds the GPU's, never add the two."),
        _MICRO,
    ),
    *_labelled(
        LIMIT, _MICRO, {GpuField.POWER_LIMIT_ENFORCED_UW: "enforced", GpuField.POWER_LIMIT_DEFAULT_UW: "default"}
    ),
    *_labelled(
        LIMIT,
        _MICRO,
        {
            GpuField.POWER_LIMIT_UW: "set",
            GpuField.POWER_LIMIT_MIN_UW: "min",
            GpuField.POWER_LIMIT_MAX_UW: "max",
        },
        detailed=True,
    ),
    _one(
        GpuField.GPU_UTIL_PERCENT,
        _gauge(
            "utilization_ratio",
            "Share of time with at least one kernel running, not of SMs in use; absent on a divided GPU.",
        ),
        _PERCENT,
    ),
    _one(
        GpuField.MEMORY_UTIL_PERCENT,
        _gauge("memory_utilization_ratio", "Share of time in which memory was read or written."),
        _PERCENT,
    ),
    _one(GpuField.ENCODER_UTIL_PERCENT, _gauge("encoder_utilization_ratio", "Use of the video encoder."), _PERCENT),
    _one(GpuField.DECODER_UTIL_PERCENT, _gauge("decoder_utilization_ratio", "Use of the video decoder."), _PERCENT),
    _one(GpuField.JPEG_UTIL_PERCENT, _gauge("jpeg_utilization_ratio", "Use of the JPEG engine."), _PERCENT),
    _one(GpuField.OFA_UTIL_PERCENT, _gauge("ofa_utilization_ratio", "Use of the optical flow engine."), _PERCENT),
    _one(GpuField.MEMORY_TOTAL_BYTES, _gauge("memory_total_bytes", "Memory: used + free + reserved.")),
    _one(GpuField.MEMORY_USED_BYTES, _gauge("memory_used_bytes", "Memory in use by processes.")),
    _one(GpuField.MEMORY_FREE_BYTES, _gauge("memory_free_bytes", "Memory that is free.")),
    _one(GpuField.MEMORY_RESERVED_BYTES, _gauge("memory_reserved_bytes", "Memory that driver and firmware keep.")),
    *_labelled(
        BAR1,
        1,
        {
            GpuField.BAR1_TOTAL_BYTES: "total",
            GpuField.BAR1_USED_BYTES: "used",
            GpuField.BAR1_FREE_BYTES: "free",
        },
        detailed=True,
    ),
    _one(GpuField.SM_CLOCK_HZ, _gauge("sm_clock_hertz", "Clock of the streaming multiprocessors.")),
    _one(GpuField.MEMORY_CLOCK_HZ, _gauge("memory_clock_hertz", "Clock of the memory.")),
    _one(GpuField.VIDEO_CLOCK_HZ, _gauge("video_clock_hertz", "Clock of the video engines.")),
    _one(GpuField.GRAPHICS_CLOCK_HZ, _gauge("graphics_clock_hertz", "Clock of the graphics engine.")),
    *(
        Shown(field, CLOCK_LIMIT, 1, words, detailed=True)
        for field, words in {
            GpuField.MAX_SM_CLOCK_HZ: ("sm", "max"),
            GpuField.MAX_MEMORY_CLOCK_HZ: ("memory", "max"),
            GpuField.MAX_VIDEO_CLOCK_HZ: ("video", "max"),
            GpuField.APP_SM_CLOCK_HZ: ("sm", "application"),
            GpuField.APP_MEMORY_CLOCK_HZ: ("memory", "application"),
        }.items()
    ),
    _one(GpuField.TEMPERATURE_MC, _gauge("temperature_celsius", "Temperature of the chip."), _MILLI),
    _one(
        GpuField.TEMPERATURE_HOTSPOT_MC,
        _gauge("hotspot_temperature_celsius", "Temperature of the hottest place on the chip."),
        _MILLI,
    ),
    _one(GpuField.MEMORY_TEMPERATURE_MC, _gauge("memory_temperature_celsius", "Temperature of the memory."), _MILLI),
    _one(
        GpuField.TEMPERATURE_MARGIN_MC,
        _gauge("temperature_margin_celsius", "Degrees left until the clocks fall."),
        _MILLI,
    ),
    *_labelled(
        THRESHOLD,
        _MILLI,
        {
            GpuField.TEMPERATURE_SLOWDOWN_MC: "slowdown",
            GpuField.TEMPERATURE_SHUTDOWN_MC: "shutdown",
            GpuField.TEMPERATURE_MAX_MC: "max",
            GpuField.MEMORY_TEMPERATURE_MAX_MC: "memory_max",
        },
        detailed=True,
    ),
    _one(GpuField.FAN_PERCENT, _gauge("fan_ratio", "Speed of the fan; may exceed 1."), _PERCENT),
    _one(GpuField.PSTATE, _gauge("performance_state", "Performance state, 0 is the fastest.")),
    *_labelled(PCIE_LINK, 1, {GpuField.PCIE_LINK_GEN: "now"}),
    *_labelled(PCIE_WIDTH, 1, {GpuField.PCIE_LINK_WIDTH: "now"}),
    *_labelled(PCIE_LINK, 1, {GpuField.PCIE_MAX_LINK_GEN: "max"}, detailed=True),
    *_labelled(PCIE_WIDTH, 1, {GpuField.PCIE_MAX_LINK_WIDTH: "max"}, detailed=True),
    Shown(
        GpuField.PCIE_TX_BYTES_PER_SECOND,
        _gauge("pcie_sampled_transmit_bytes_per_second", SAMPLED),
        detailed=True,
    ),
    Shown(
        GpuField.PCIE_RX_BYTES_PER_SECOND,
        _gauge("pcie_sampled_receive_bytes_per_second", SAMPLED),
        detailed=True,
    ),
    _one(GpuField.ECC_MODE, _gauge("ecc_enabled", "Whether ECC is on.")),
    Shown(GpuField.ECC_PENDING, _gauge("ecc_pending", "Whether ECC will be on after a reset."), detailed=True),
    _one(GpuField.RETIRED_PENDING, _gauge("retired_pages_pending", "Whether pages wait for a reset to be retired.")),
    _one(GpuField.REMAPPED_PENDING, _gauge("remapped_rows_pending", "Whether rows wait for a reset to be replaced.")),
    _one(GpuField.REMAPPED_FAILURE, _gauge("remapped_rows_failure", "Whether a row could not be replaced.")),
    _one(GpuField.NVLINK_COUNT, _gauge("nvlinks", "NVLinks that the GPU has.")),
    _one(
        GpuField.RECOVERY_ACTION,
        _gauge(
            "recovery_action",
            "What is to be done: 0 nothing, 1 GPU reset, 2 reboot, 3 drain P2P, 4 drain and reset, 5 recover IMEX.",
        ),
    ),
    _one(GpuField.MIG_MODE, _gauge("mig_enabled", "Whether the GPU may be divided.")),
    _one(GpuField.VGPU_LICENSE_STATUS, _gauge("vgpu_license", "Whether a vGPU licence is in force.")),
    *_labelled(
        ACTIVITY,
        1,
        {
            GpuField.PROF_GRAPHICS_RATIO: "graphics",
            GpuField.PROF_SM_RATIO: "sm",
            GpuField.PROF_SM_OCCUPANCY_RATIO: "sm_occupancy",
            GpuField.PROF_TENSOR_RATIO: "tensor",
            GpuField.PROF_DRAM_RATIO: "dram",
            GpuField.PROF_FP64_RATIO: "fp64",
            GpuField.PROF_FP32_RATIO: "fp32",
            GpuField.PROF_FP16_RATIO: "fp16",
            GpuField.PROF_INT_RATIO: "int",
        },
    ),
    *_labelled(
        ACTIVITY,
        1,
        {
            GpuField.PROF_IMMA_RATIO: "tensor_imma",
            GpuField.PROF_HMMA_RATIO: "tensor_hmma",
            GpuField.PROF_DFMA_RATIO: "tensor_dfma",
        },
        detailed=True,
    ),
    _one(
        GpuField.PROF_PCIE_TX_BYTES_PER_SECOND,
        _gauge("pcie_transmit_bytes_per_second", "PCIe traffic with protocol, mean since the last reading."),
    ),
    _one(
        GpuField.PROF_PCIE_RX_BYTES_PER_SECOND,
        _gauge("pcie_receive_bytes_per_second", "PCIe traffic with protocol, mean since the last reading."),
    ),
    _one(
        GpuField.PROF_NVLINK_TX_BYTES_PER_SECOND,
        _gauge("nvlink_transmit_bytes_per_second", "NVLink traffic with protocol, mean since the last reading."),
    ),
    _one(
        GpuField.PROF_NVLINK_RX_BYTES_PER_SECOND,
        _gauge("nvlink_receive_bytes_per_second", "NVLink traffic with protocol, mean since the last reading."),
    ),
)
"""Quantities as they are."""

COUNTERS: tuple[Shown, ...] = (
    *_labelled(
        THROTTLED,
        _NANO,
        {
            GpuField.VIOLATION_POWER_NS: "power",
            GpuField.VIOLATION_THERMAL_NS: "thermal",
            GpuField.VIOLATION_SYNC_BOOST_NS: "sync_boost",
            GpuField.VIOLATION_BOARD_LIMIT_NS: "board_limit",
            GpuField.VIOLATION_LOW_UTIL_NS: "low_utilization",
            GpuField.VIOLATION_RELIABILITY_NS: "reliability",
            GpuField.CLOCK_EVENT_SW_THERMAL_NS: "sw_thermal",
            GpuField.CLOCK_EVENT_HW_THERMAL_NS: "hw_thermal",
            GpuField.CLOCK_EVENT_HW_POWER_BRAKE_NS: "hw_power_brake",
        },
    ),
    *_labelled(
        THROTTLED,
        _NANO,
        {
            GpuField.VIOLATION_APP_CLOCKS_NS: "application_clocks",
            GpuField.VIOLATION_BASE_CLOCKS_NS: "base_clocks",
        },
        detailed=True,
    ),
    _one(GpuField.PCIE_REPLAYS, _counter("pcie_replays", "PCIe packets that were sent again.")),
    _one(GpuField.PCIE_TX_BYTES, _counter("pcie_transmit_bytes", "Bytes that the GPU sent over PCIe.")),
    _one(GpuField.PCIE_RX_BYTES, _counter("pcie_receive_bytes", "Bytes that the GPU received over PCIe.")),
    _one(GpuField.PCIE_CORRECTABLE_ERRORS, _counter("pcie_correctable_errors", "PCIe errors that hardware corrected.")),
    *(
        Shown(field, ECC, 1, words)
        for field, words in {
            GpuField.ECC_SBE_VOLATILE: ("corrected", "volatile"),
            GpuField.ECC_DBE_VOLATILE: ("uncorrected", "volatile"),
            GpuField.ECC_SBE_AGGREGATE: ("corrected", "lifetime"),
            GpuField.ECC_DBE_AGGREGATE: ("uncorrected", "lifetime"),
        }.items()
    ),
    *_labelled(RETIRED, 1, {GpuField.RETIRED_SBE: "corrected", GpuField.RETIRED_DBE: "uncorrected"}),
    *_labelled(
        REMAPPED, 1, {GpuField.REMAPPED_CORRECTABLE: "corrected", GpuField.REMAPPED_UNCORRECTABLE: "uncorrected"}
    ),
    _one(GpuField.NVLINK_TX_BYTES, _counter("nvlink_transmit_bytes", "Data bytes sent over all NVLinks.")),
    _one(GpuField.NVLINK_RX_BYTES, _counter("nvlink_receive_bytes", "Data bytes received over all NVLinks.")),
    *_labelled(
        LINK_ERRORS,
        1,
        {
            GpuField.NVLINK_CRC_FLIT_ERRORS: "crc_flit",
            GpuField.NVLINK_CRC_DATA_ERRORS: "crc_data",
            GpuField.NVLINK_REPLAY_ERRORS: "replay",
            GpuField.NVLINK_RECOVERY_ERRORS: "recovery",
        },
    ),
)
"""Quantities that hardware or driver counts; some begin anew with the driver, the series do not."""

CLOCK_EVENT = MetricSpec(
    "kwhere_gpu_clock_event",
    Kind.GAUGE,
    "Whether a reason holds the clocks below their largest now.",
    (*GPU, "reason"),
)
CLOCK_EVENTS: dict[int, str] = {
    0x1: "gpu_idle",
    0x2: "clocks_setting",
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
"""Bits of `CLOCK_EVENT_REASONS` (nvml.h: nvmlClocksEventReason…); other bits have no name and no series."""

SPECS: tuple[MetricSpec, ...] = tuple(
    dict.fromkeys([*(shown.spec for shown in GAUGES), *(shown.spec for shown in COUNTERS), CLOCK_EVENT])
)
