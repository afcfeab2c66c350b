"""DCGM's fields by name, and how each is told from what the device layer read. Sources: dcgm_fields.h, nvml.h.

Values are as DCGM has them: whole MHz, degrees, MiB and mJ; watts and ratios with a fraction. None is "no sample".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kwhere.dcgm.entities import Entity
from kwhere.devices.gpu import XidCount
from kwhere.devices.gpu_fields import GpuField

Value = int | float | str
Read = Callable[[Entity], Value | None]
MEBI, MEGA, KIBI, MILLI = 1 << 20, 1_000_000, 1024, 1000
LINKS = 18
_BOTH = (GpuField.NVLINK_TX_BYTES, GpuField.NVLINK_RX_BYTES)
_BRANDS = (
    *("Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan", "NVIDIA Virtual Applications"),
    *("NVIDIA Virtual PC", "NVIDIA Virtual Compute Server", "NVIDIA RTX Virtual Workstation"),
    *("NVIDIA Cloud Gaming", "Quadro RTX", "NVIDIA RTX", "NVIDIA", "GeForce RTX", "Titan RTX"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One DCGM field."""

    number: int
    """DCGM's id."""
    read: Read
    is_own: bool = False
    """Whether an instance has a value of its own; else it shows the whole device's."""
    is_text: bool = False
    """Whether it can only be a label."""
    link: GpuField | None = None
    """The counter of each NVLink that it shows, one series per link."""


def _whole(number: int, of: GpuField, scale: int = 1) -> Field:
    def read(entity: Entity) -> int | None:
        value = entity.whole.values.get(of)
        return None if value is None else int(value) // scale

    return Field(number, read)


def _undivided(number: int, of: GpuField) -> Field:
    """A field that means nothing while the device is divided: drivers then say 0, or nothing."""

    def read(entity: Entity) -> int | None:
        value = None if entity.state.device.mig else entity.whole.values.get(of)
        return None if value is None else int(value)

    return Field(number, read)


def _watts(number: int, of: GpuField) -> Field:
    def read(entity: Entity) -> float | None:
        value = entity.whole.values.get(of)
        return None if value is None else value / MEGA

    return Field(number, read)


def _own(number: int, of: GpuField, scale: int = 1) -> Field:
    def read(entity: Entity) -> int | None:
        value = entity.own.values.get(of)
        return None if value is None else int(value) // scale

    return Field(number, read, is_own=True)


def _ratio(number: int, of: GpuField) -> Field:
    def read(entity: Entity) -> float | None:
        value = entity.own.values.get(of)
        return None if value is None else float(value)

    return Field(number, read, is_own=True)


def _link_rate(number: int, counters: tuple[GpuField, ...], link: int | None = None) -> Field:
    """DCGM's "bandwidth": thousands of KiB per second, whole, up and down. Nothing until two readings are there."""

    def read(entity: Entity) -> int | None:
        found = [entity.rates.get((counter, link)) for counter in counters]
        known = [rate for rate in found if rate is not None]
        return int(sum(known) / KIBI / 1000) if len(known) == len(found) else None

    return Field(number, read)


def _text(number: int, read: Callable[[Entity], str | None]) -> Field:
    return Field(number, lambda entity: read(entity) or None, is_text=True)


def _fact(number: int, name: str) -> Field:
    return _text(number, lambda entity: entity.state.device.facts.get(name))


def _cuda(entity: Entity) -> int | None:
    major, _, minor = entity.library.cuda.partition(".")
    return int(major) * 1000 + int(minor) * 10 if major.isdecimal() and minor.isdecimal() else None


def _brand(entity: Entity) -> str | None:
    number = entity.state.device.facts.get("brand", "")
    return _BRANDS[int(number)] if number.isdecimal() and int(number) < len(_BRANDS) else None


def _used_ratio(entity: Entity) -> float | None:
    used, total = (entity.own.values.get(one) for one in (GpuField.MEMORY_USED_BYTES, GpuField.MEMORY_TOTAL_BYTES))
    usable = None if total is None else total - entity.own.values.get(GpuField.MEMORY_RESERVED_BYTES, 0)
    return None if used is None or not usable or usable < 0 else used / usable


def last_xid(entity: Entity) -> XidCount | None:
    """Return the newest XID: of a GPU instance its own and those of the whole device."""
    gpu_instance = entity.key[1]
    mine = (one for one in entity.state.xids if gpu_instance is None or one.gpu_instance in (None, gpu_instance))
    return max(mine, key=lambda one: one.last_utc_ns, default=None)


def _xid(entity: Entity) -> int | None:
    """Return the last XID, 0 before the first; also of a GPU that is lost: that is when it is wanted."""
    found = last_xid(entity)
    if found is not None:
        return found.xid
    return 0 if entity.state.up else None


def _dev(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields by their whole names; a key may hold a second name, of DCGM 4.6."""
    return {f"DCGM_FI_DEV_{name}": field for names, field in fields.items() for name in names.split()}


def _prof(fields: Mapping[str, Field]) -> dict[str, Field]:
    return {f"DCGM_FI_PROF_{name}": field for names, field in fields.items() for name in names.split()}


_XID_NAMES = "XID_ERRORS XID_ERROR"

FIELDS: dict[str, Field] = {
    "DCGM_FI_DRIVER_VERSION": _text(1, lambda entity: entity.library.driver),
    "DCGM_FI_SYSTEM_DRIVER_VERSION": _text(1, lambda entity: entity.library.driver),
    "DCGM_FI_NVML_VERSION": _text(2, lambda entity: entity.library.version),
    "DCGM_FI_SYSTEM_NVML_VERSION": _text(2, lambda entity: entity.library.version),
    "DCGM_FI_CUDA_DRIVER_VERSION": Field(5, _cuda),
    **_dev(
        {
            "NAME GPU_NAME": _text(50, lambda entity: entity.state.device.model),
            "BRAND GPU_BRAND": _text(51, _brand),
            "NVML_INDEX": Field(52, lambda entity: entity.state.device.index),
            "SERIAL BOARD_SERIAL": _text(53, lambda entity: entity.state.device.serial),
            "UUID GPU_UUID": _text(54, lambda entity: entity.state.device.uuid),
            "MINOR_NUMBER GPU_MINOR_NUMBER": Field(55, lambda entity: entity.state.device.minor),
            "OEM_INFOROM_VER INFOROM_OEM_VERSION": _fact(56, "inforom_oem"),
            "PCI_BUSID PCI_BUS_ID": _text(57, lambda entity: entity.state.device.pci),
            "MIG_MODE": _whole(67, GpuField.MIG_MODE),
            "ECC_INFOROM_VER INFOROM_ECC_VERSION": _fact(80, "inforom_ecc"),
            "POWER_INFOROM_VER INFOROM_POWER_VERSION": _fact(81, "inforom_power"),
            "INFOROM_IMAGE_VER INFOROM_IMAGE_VERSION": _fact(82, "inforom_image"),
            "VBIOS_VERSION": _fact(85, "vbios"),
            "BAR1_TOTAL": _own(90, GpuField.BAR1_TOTAL_BYTES, MEBI),
            "BAR1_USED": _own(92, GpuField.BAR1_USED_BYTES, MEBI),
            "BAR1_FREE": _own(93, GpuField.BAR1_FREE_BYTES, MEBI),
            "SM_CLOCK": _whole(100, GpuField.SM_CLOCK_HZ, MEGA),
            "MEM_CLOCK": _whole(101, GpuField.MEMORY_CLOCK_HZ, MEGA),
            "VIDEO_CLOCK": _whole(102, GpuField.VIDEO_CLOCK_HZ, MEGA),
            "APP_SM_CLOCK": _whole(110, GpuField.APP_SM_CLOCK_HZ, MEGA),
            "APP_MEM_CLOCK": _whole(111, GpuField.APP_MEMORY_CLOCK_HZ, MEGA),
            "CLOCK_THROTTLE_REASONS CLOCKS_EVENT_REASONS": _whole(112, GpuField.CLOCK_EVENT_REASONS),
            "MAX_SM_CLOCK": _whole(113, GpuField.MAX_SM_CLOCK_HZ, MEGA),
            "MAX_MEM_CLOCK": _whole(114, GpuField.MAX_MEMORY_CLOCK_HZ, MEGA),
            "MAX_VIDEO_CLOCK": _whole(115, GpuField.MAX_VIDEO_CLOCK_HZ, MEGA),
            "MEMORY_TEMP MEMORY_TEMP_CELSIUS": _whole(140, GpuField.MEMORY_TEMPERATURE_MC, MILLI),
            "GPU_TEMP GPU_TEMP_CELSIUS": _whole(150, GpuField.TEMPERATURE_MC, MILLI),
            "MEM_MAX_OP_TEMP MEMORY_MAX_OP_TEMP_CELSIUS": _whole(151, GpuField.MEMORY_TEMPERATURE_MAX_MC, MILLI),
            "GPU_MAX_OP_TEMP GPU_MAX_OP_TEMP_CELSIUS": _whole(152, GpuField.TEMPERATURE_MAX_MC, MILLI),
            "GPU_TEMP_LIMIT GPU_TEMP_MARGIN_CELSIUS": _whole(153, GpuField.TEMPERATURE_MARGIN_MC, MILLI),
            "POWER_USAGE BOARD_POWER_WATTS": _watts(155, GpuField.POWER_UW),
            "TOTAL_ENERGY_CONSUMPTION": _whole(156, GpuField.ENERGY_UJ, MILLI),
            "POWER_USAGE_INSTANT BOARD_POWER_RAW_WATTS": _watts(157, GpuField.POWER_INSTANT_UW),
            "SLOWDOWN_TEMP GPU_TEMP_SLOWDOWN_CELSIUS": _whole(158, GpuField.TEMPERATURE_SLOWDOWN_MC, MILLI),
            "SHUTDOWN_TEMP GPU_TEMP_SHUTDOWN_CELSIUS": _whole(159, GpuField.TEMPERATURE_SHUTDOWN_MC, MILLI),
            "POWER_MGMT_LIMIT BOARD_POWER_LIMIT_REQUESTED_WATTS": _watts(160, GpuField.POWER_LIMIT_UW),
            "POWER_MGMT_LIMIT_MIN BOARD_POWER_LIMIT_MIN_WATTS": _watts(161, GpuField.POWER_LIMIT_MIN_UW),
            "POWER_MGMT_LIMIT_MAX BOARD_POWER_LIMIT_MAX_WATTS": _watts(162, GpuField.POWER_LIMIT_MAX_UW),
            "POWER_MGMT_LIMIT_DEF BOARD_POWER_LIMIT_DEFAULT_WATTS": _watts(163, GpuField.POWER_LIMIT_DEFAULT_UW),
            "ENFORCED_POWER_LIMIT BOARD_POWER_LIMIT_ENFORCED_WATTS": _watts(164, GpuField.POWER_LIMIT_ENFORCED_UW),
            "PSTATE GPU_PSTATE": _whole(190, GpuField.PSTATE),
            "FAN_SPEED": _whole(191, GpuField.FAN_PERCENT),
            "PCIE_TX_THROUGHPUT": _whole(200, GpuField.PCIE_TX_BYTES_PER_SECOND, MILLI),
            "PCIE_RX_THROUGHPUT": _whole(201, GpuField.PCIE_RX_BYTES_PER_SECOND, MILLI),
            "PCIE_REPLAY_COUNTER PCIE_REPLAY_TOTAL": _whole(202, GpuField.PCIE_REPLAYS),
            "GPU_UTIL GPU_UTIL_RATIO": _undivided(203, GpuField.GPU_UTIL_PERCENT),
            "MEM_COPY_UTIL": _undivided(204, GpuField.MEMORY_UTIL_PERCENT),
            "ENC_UTIL": _undivided(206, GpuField.ENCODER_UTIL_PERCENT),
            "DEC_UTIL": _undivided(207, GpuField.DECODER_UTIL_PERCENT),
            _XID_NAMES: Field(230, _xid, is_own=True),
            "PCIE_MAX_LINK_GEN": _whole(235, GpuField.PCIE_MAX_LINK_GEN),
            "PCIE_MAX_LINK_WIDTH": _whole(236, GpuField.PCIE_MAX_LINK_WIDTH),
            "PCIE_LINK_GEN": _whole(237, GpuField.PCIE_LINK_GEN),
            "PCIE_LINK_WIDTH": _whole(238, GpuField.PCIE_LINK_WIDTH),
            "POWER_VIOLATION": _whole(240, GpuField.VIOLATION_POWER_NS),
            "THERMAL_VIOLATION": _whole(241, GpuField.VIOLATION_THERMAL_NS),
            "SYNC_BOOST_VIOLATION": _whole(242, GpuField.VIOLATION_SYNC_BOOST_NS),
            "BOARD_LIMIT_VIOLATION": _whole(243, GpuField.VIOLATION_BOARD_LIMIT_NS),
            "LOW_UTIL_VIOLATION": _whole(244, GpuField.VIOLATION_LOW_UTIL_NS),
            "RELIABILITY_VIOLATION": _whole(245, GpuField.VIOLATION_RELIABILITY_NS),
            "TOTAL_APP_CLOCKS_VIOLATION": _whole(246, GpuField.VIOLATION_APP_CLOCKS_NS),
            "TOTAL_BASE_CLOCKS_VIOLATION": _whole(247, GpuField.VIOLATION_BASE_CLOCKS_NS),
            "FB_TOTAL": _own(250, GpuField.MEMORY_TOTAL_BYTES, MEBI),
            "FB_FREE": _own(251, GpuField.MEMORY_FREE_BYTES, MEBI),
            "FB_USED": _own(252, GpuField.MEMORY_USED_BYTES, MEBI),
            "FB_RESERVED": _own(253, GpuField.MEMORY_RESERVED_BYTES, MEBI),
            "FB_USED_PERCENT FB_USED_RATIO": Field(254, _used_ratio, is_own=True),
            "ECC_CURRENT ECC_MODE": _whole(300, GpuField.ECC_MODE),
            "ECC_PENDING": _whole(301, GpuField.ECC_PENDING),
            "ECC_SBE_VOL_TOTAL": _whole(310, GpuField.ECC_SBE_VOLATILE),
            "ECC_DBE_VOL_TOTAL": _whole(311, GpuField.ECC_DBE_VOLATILE),
            "ECC_SBE_AGG_TOTAL": _whole(312, GpuField.ECC_SBE_AGGREGATE),
            "ECC_DBE_AGG_TOTAL": _whole(313, GpuField.ECC_DBE_AGGREGATE),
            "RETIRED_SBE PAGE_RETIRED_SBE_TOTAL": _whole(390, GpuField.RETIRED_SBE),
            "RETIRED_DBE PAGE_RETIRED_DBE_TOTAL": _whole(391, GpuField.RETIRED_DBE),
            "RETIRED_PENDING PAGE_RETIRED_PENDING": _whole(392, GpuField.RETIRED_PENDING),
            "UNCORRECTABLE_REMAPPED_ROWS ROW_REMAP_UNCORRECTABLE_TOTAL": _whole(393, GpuField.REMAPPED_UNCORRECTABLE),
            "CORRECTABLE_REMAPPED_ROWS ROW_REMAP_CORRECTABLE_TOTAL": _whole(394, GpuField.REMAPPED_CORRECTABLE),
            "ROW_REMAP_FAILURE ROW_REMAP_FAILED": _whole(395, GpuField.REMAPPED_FAILURE),
            "ROW_REMAP_PENDING": _whole(396, GpuField.REMAPPED_PENDING),
            "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL NVLINK_CRC_FLIT_ERROR_TOTAL": _whole(
                409, GpuField.NVLINK_CRC_FLIT_ERRORS
            ),
            "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL NVLINK_CRC_DATA_ERROR_TOTAL": _whole(
                419, GpuField.NVLINK_CRC_DATA_ERRORS
            ),
            "NVLINK_REPLAY_ERROR_COUNT_TOTAL NVLINK_REPLAY_ERROR_TOTAL": _whole(429, GpuField.NVLINK_REPLAY_ERRORS),
            "NVLINK_RECOVERY_ERROR_COUNT_TOTAL NVLINK_RECOVERY_ERROR_TOTAL": _whole(
                439, GpuField.NVLINK_RECOVERY_ERRORS
            ),
            "NVLINK_BANDWIDTH_TOTAL NVLINK_THROUGHPUT_TOTAL": _link_rate(449, _BOTH),
            "NVLINK_TX_BANDWIDTH_TOTAL NVLINK_TX_THROUGHPUT_TOTAL": _link_rate(843, _BOTH[:1]),
            "NVLINK_RX_BANDWIDTH_TOTAL NVLINK_RX_THROUGHPUT_TOTAL": _link_rate(897, _BOTH[1:]),
            **{
                f"NVLINK_BANDWIDTH_L{link} NVLINK_THROUGHPUT_L{link}": _link_rate(
                    440 + link if link < 6 else 469 + link, _BOTH, link
                )
                for link in range(LINKS)
            },
            **{
                f"NVLINK_TX_BANDWIDTH_L{link} NVLINK_TX_THROUGHPUT_L{link}": _link_rate(825 + link, _BOTH[:1], link)
                for link in range(LINKS)
            },
            **{
                f"NVLINK_RX_BANDWIDTH_L{link} NVLINK_RX_THROUGHPUT_L{link}": _link_rate(879 + link, _BOTH[1:], link)
                for link in range(LINKS)
            },
            "NVLINK_COUNT_TX_BYTES NVLINK_TX_BYTES_TOTAL": Field(1201, lambda _: None, link=_BOTH[0]),
            "NVLINK_COUNT_RX_BYTES NVLINK_RX_BYTES_TOTAL": Field(1203, lambda _: None, link=_BOTH[1]),
            "VGPU_LICENSE_STATUS": _whole(526, GpuField.VGPU_LICENSE_STATUS),
            "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS": _whole(1420, GpuField.VIOLATION_POWER_NS),
            "CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS": _whole(1421, GpuField.VIOLATION_SYNC_BOOST_NS),
            "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": _whole(1422, GpuField.CLOCK_EVENT_SW_THERMAL_NS),
            "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": _whole(1423, GpuField.CLOCK_EVENT_HW_THERMAL_NS),
            "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": _whole(1424, GpuField.CLOCK_EVENT_HW_POWER_BRAKE_NS),
            "PCIE_COUNT_CORRECTABLE_ERRORS PCIE_CORRECTABLE_ERROR_TOTAL": _whole(
                1501, GpuField.PCIE_CORRECTABLE_ERRORS
            ),
            "GET_GPU_RECOVERY_ACTION GPU_RECOVERY_ACTION": _whole(1523, GpuField.RECOVERY_ACTION),
        }
    ),
    **_prof(
        {
            "GR_ENGINE_ACTIVE GR_ENGINE_UTIL_RATIO": _ratio(1001, GpuField.PROF_GRAPHICS_RATIO),
            "SM_ACTIVE SM_UTIL_RATIO": _ratio(1002, GpuField.PROF_SM_RATIO),
            "SM_OCCUPANCY SM_OCCUPANCY_RATIO": _ratio(1003, GpuField.PROF_SM_OCCUPANCY_RATIO),
            "PIPE_TENSOR_ACTIVE TENSOR_UTIL_RATIO": _ratio(1004, GpuField.PROF_TENSOR_RATIO),
            "DRAM_ACTIVE DRAM_UTIL_RATIO": _ratio(1005, GpuField.PROF_DRAM_RATIO),
            "PIPE_FP64_ACTIVE FP64_UTIL_RATIO": _ratio(1006, GpuField.PROF_FP64_RATIO),
            "PIPE_FP32_ACTIVE FP32_UTIL_RATIO": _ratio(1007, GpuField.PROF_FP32_RATIO),
            "PIPE_FP16_ACTIVE FP16_UTIL_RATIO": _ratio(1008, GpuField.PROF_FP16_RATIO),
            "PCIE_TX_BYTES": _own(1009, GpuField.PROF_PCIE_TX_BYTES_PER_SECOND),
            "PCIE_RX_BYTES": _own(1010, GpuField.PROF_PCIE_RX_BYTES_PER_SECOND),
            "NVLINK_TX_BYTES": _own(1011, GpuField.PROF_NVLINK_TX_BYTES_PER_SECOND),
            "NVLINK_RX_BYTES": _own(1012, GpuField.PROF_NVLINK_RX_BYTES_PER_SECOND),
            "PIPE_TENSOR_IMMA_ACTIVE IMMA_UTIL_RATIO": _ratio(1013, GpuField.PROF_IMMA_RATIO),
            "PIPE_TENSOR_HMMA_ACTIVE HMMA_UTIL_RATIO": _ratio(1014, GpuField.PROF_HMMA_RATIO),
            "PIPE_TENSOR_DFMA_ACTIVE DFMA_UTIL_RATIO": _ratio(1015, GpuField.PROF_DFMA_RATIO),
            "PIPE_INT_ACTIVE INT_UTIL_RATIO": _ratio(1016, GpuField.PROF_INT_RATIO),
        }
    ),
}
"""Every field that has a source here, by each of its names."""

XID_FIELDS = frozenset(f"DCGM_FI_DEV_{name}" for name in _XID_NAMES.split())

LEGACY: dict[str, str] = {
    "dcgm_sm_clock": "DCGM_FI_DEV_SM_CLOCK",
    "dcgm_memory_clock": "DCGM_FI_DEV_MEM_CLOCK",
    "dcgm_memory_temp": "DCGM_FI_DEV_MEMORY_TEMP",
    "dcgm_gpu_temp": "DCGM_FI_DEV_GPU_TEMP",
    "dcgm_power_usage": "DCGM_FI_DEV_POWER_USAGE",
    "dcgm_total_energy_consumption": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "dcgm_pcie_tx_throughput": "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
    "dcgm_pcie_rx_throughput": "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
    "dcgm_pcie_replay_counter": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "dcgm_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_mem_copy_utilization": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "dcgm_enc_utilization": "DCGM_FI_DEV_ENC_UTIL",
    "dcgm_dec_utilization": "DCGM_FI_DEV_DEC_UTIL",
    "dcgm_xid_errors": "DCGM_FI_DEV_XID_ERRORS",
    "dcgm_fb_free": "DCGM_FI_DEV_FB_FREE",
    "dcgm_fb_used": "DCGM_FI_DEV_FB_USED",
    "dcgm_nvlink_bandwidth_total": "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    **{
        f"dcgm_{name}_violation": f"DCGM_FI_DEV_{name.upper()}_VIOLATION"
        for name in ("power", "thermal", "sync_boost", "board_limit", "low_util", "reliability")
    },
    **{
        f"dcgm_ecc_{bits}_{span}_total": f"DCGM_FI_DEV_ECC_{bits.upper()}_{short}_TOTAL"
        for bits in ("sbe", "dbe")
        for span, short in (("volatile", "VOL"), ("aggregate", "AGG"))
    },
    **{f"dcgm_retired_pages_{kind}": f"DCGM_FI_DEV_RETIRED_{kind.upper()}" for kind in ("sbe", "dbe", "pending")},
    "dcgm_nvlink_flit_crc_error_count_total": "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_data_crc_error_count_total": "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_replay_error_count_total": "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "dcgm_nvlink_recovery_error_count_total": "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    **{name.lower(): name for name in FIELDS if name.startswith("DCGM_FI_PROF_")},
}
"""Names of the 1.x series."""


def find(name: str) -> Field | None:
    """Return the field of any of its names; None where there is no such field with a source here."""
    return FIELDS.get(LEGACY.get(name, name))
