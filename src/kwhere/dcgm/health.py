"""DCGM_EXP_GPU_HEALTH_STATUS from what NVML tells. A watch that cannot be judged is left out: not seen is not well."""

from collections.abc import Iterator
from dataclasses import dataclass

from kwhere.dcgm.entities import Entity
from kwhere.dcgm.watching import Watcher
from kwhere.devices.gpu_fields import Absence, GpuField

PASS, WARN, FAIL = 0, 10, 20
REPLAYS_PER_MINUTE = 8
RETIRED_PAGES = 60
_THERMAL = 0x20 | 0x40
_POWER_BRAKE = 0x80


@dataclass(frozen=True, slots=True)
class Health:
    """One watch of one GPU."""

    watch: str
    value: int = PASS
    code: str = "DCGM_FR_OK"


def judge(entity: Entity, watcher: Watcher) -> Iterator[Health]:
    """Yield the watches of a GPU that can be judged; of one that is down the driver's alone."""
    if not entity.state.up:
        yield Health("DRIVER", FAIL, "DCGM_FR_NVML_API")
        return
    uuid, values = entity.state.device.uuid, entity.whole
    replays = watcher.replays(uuid)
    if replays is not None:
        many = replays > REPLAYS_PER_MINUTE
        yield Health("PCIE", WARN, "DCGM_FR_PCI_REPLAY_RATE") if many else Health("PCIE")
    if entity.state.links:
        down = watcher.fallen_links(entity.state)
        yield Health("NVLINK", FAIL, "DCGM_FR_NVLINK_DOWN") if down else Health("NVLINK")
    memory = _memory(entity)
    if memory is not None:
        yield memory
    reasons = values.integer(GpuField.CLOCK_EVENT_REASONS)
    if reasons is not None:
        hot = bool(reasons & _THERMAL)
        yield Health("THERMAL", WARN, "DCGM_FR_CLOCK_THROTTLE_THERMAL") if hot else Health("THERMAL")
    power = _power(entity, reasons)
    if power is not None:
        yield power
    yield Health("DRIVER")


def _memory(entity: Entity) -> Health | None:
    """Return the worst that is known of the memory; None where nothing is."""
    found = {
        of: value
        for of in (
            GpuField.ECC_DBE_VOLATILE,
            GpuField.REMAPPED_FAILURE,
            GpuField.REMAPPED_PENDING,
            GpuField.RETIRED_SBE,
            GpuField.RETIRED_DBE,
            GpuField.RETIRED_PENDING,
        )
        if (value := entity.whole.integer(of)) is not None
    }
    if not found:
        return None
    if found.get(GpuField.ECC_DBE_VOLATILE):
        return Health("MEM", FAIL, "DCGM_FR_VOLATILE_DBE_DETECTED")
    if found.get(GpuField.REMAPPED_FAILURE):
        return Health("MEM", FAIL, "DCGM_FR_ROW_REMAP_FAILURE")
    if found.get(GpuField.RETIRED_SBE, 0) + found.get(GpuField.RETIRED_DBE, 0) >= RETIRED_PAGES:
        return Health("MEM", FAIL, "DCGM_FR_RETIRED_PAGES_LIMIT")
    if found.get(GpuField.REMAPPED_PENDING):
        return Health("MEM", WARN, "DCGM_FR_PENDING_ROW_REMAP")
    if found.get(GpuField.RETIRED_PENDING):
        return Health("MEM", WARN, "DCGM_FR_PENDING_PAGE_RETIREMENTS")
    return Health("MEM")


def _power(entity: Entity, reasons: int | None) -> Health | None:
    """Return how power does; None where the GPU, as a guest's, does not tell it at all."""
    if entity.whole.integer(GpuField.POWER_UW) is None:
        failed = entity.whole.missing.get(GpuField.POWER_UW) is Absence.ERROR
        return Health("POWER", WARN, "DCGM_FR_POWER_UNREADABLE") if failed else None
    if reasons is not None and reasons & _POWER_BRAKE:
        return Health("POWER", WARN, "DCGM_FR_CLOCK_THROTTLE_POWER")
    return Health("POWER")
