"""What a GPU can say at all: a driver's word for "not known" comes through as a number now and then, anywhere."""

from collections.abc import Mapping, MutableMapping

from kwhere.devices.gpu_fields import Absence, GpuField

LARGEST_PID = 1 << 22
"""The kernel's own limit (PID_MAX_LIMIT): above it a number is no pid."""
MOST_BYTES = 1 << 46
"""Of memory: 64 TiB, far above any board."""
_MOST_MICROWATTS = 100_000_000_000
_MOST_MICROJOULES = 10**18
_MOST_HERTZ = 50_000_000_000
_MOST_MILLIDEGREES = 300_000
_MOST_BYTES_PER_SECOND = 10**13
_NO_NUMBER = 2**63 - 16
"""DCGM's smallest word for "not known" in 64 bits."""
_WORDS: Mapping[GpuField, range] = {GpuField.ENERGY_UJ: range(_NO_NUMBER, 2**63)}
"""Numbers within the bounds of a quantity that are words for "not known" all the same."""
_ENDINGS: tuple[tuple[str, tuple[int, int]], ...] = (
    ("_ratio", (0, 1)),
    ("_percent", (0, 100)),
    ("_mc", (-_MOST_MILLIDEGREES, _MOST_MILLIDEGREES)),
    ("_hz", (0, _MOST_HERTZ)),
    ("_uw", (0, _MOST_MICROWATTS)),
    ("_uj", (0, _MOST_MICROJOULES)),
    ("_bytes_per_second", (0, _MOST_BYTES_PER_SECOND)),
    ("_link_gen", (0, 15)),
    ("_link_width", (0, 64)),
)
_SPECIAL: Mapping[GpuField, tuple[int, int]] = {
    GpuField.FAN_PERCENT: (0, 1000),
    **dict.fromkeys((GpuField.PCIE_TX_BYTES_PER_SECOND, GpuField.PCIE_RX_BYTES_PER_SECOND), (0, 10**12)),
    GpuField.PSTATE: (0, 15),
    GpuField.ECC_MODE: (0, 1),
    GpuField.ECC_PENDING: (0, 1),
    GpuField.MIG_MODE: (0, 1),
    GpuField.REMAPPED_PENDING: (0, 1),
    GpuField.REMAPPED_FAILURE: (0, 1),
    GpuField.RETIRED_PENDING: (0, 1),
    GpuField.NVLINK_COUNT: (0, 64),
    GpuField.RECOVERY_ACTION: (0, 15),
    # counters of bytes: a fast link passes 2^63 within months
    GpuField.NVLINK_TX_BYTES: (0, 1 << 80),
    GpuField.NVLINK_RX_BYTES: (0, 1 << 80),
    GpuField.CLOCK_EVENT_REASONS: (0, 2**64 - 2),
    # Intel's counter has 64 bits; all of them set is a word for "not known"
    GpuField.ENERGY_UJ: (0, 2**64 - 2),
}
_MEMORIES = (
    (
        GpuField.MEMORY_TOTAL_BYTES,
        (GpuField.MEMORY_USED_BYTES, GpuField.MEMORY_FREE_BYTES, GpuField.MEMORY_RESERVED_BYTES),
    ),
    (GpuField.BAR1_TOTAL_BYTES, (GpuField.BAR1_USED_BYTES, GpuField.BAR1_FREE_BYTES)),
)


def _bounds(name: GpuField) -> tuple[int, int]:
    if name in _SPECIAL:
        return _SPECIAL[name]
    if any(name is total or name in parts for total, parts in _MEMORIES):
        return 0, MOST_BYTES
    return next((ends for ending, ends in _ENDINGS if name.value.endswith(ending)), (0, _NO_NUMBER - 1))


BOUNDS: Mapping[GpuField, tuple[int, int]] = {name: _bounds(name) for name in GpuField}
"""Least and largest of each quantity, in its unit."""


def possible_bytes(number: int | None) -> int | None:
    """Return an amount of memory where it can be one."""
    return number if number is not None and 0 <= number <= MOST_BYTES else None


def _is_possible(name: GpuField, value: float) -> bool:
    least, most = BOUNDS[name]
    words = _WORDS.get(name, range(0))
    return least <= value <= most and not words.start <= value < words.stop


def drop_impossible(values: MutableMapping[GpuField, int | float], missing: MutableMapping[GpuField, Absence]) -> None:
    """Move what cannot be from `values` to `missing`: out of bounds, no number, more memory used than there is."""
    for name in [name for name, value in values.items() if not _is_possible(name, value)]:
        del values[name]
        missing[name] = Absence.BLANK
    for total_name, parts in _MEMORIES:
        total = values.get(total_name)
        for name in parts if total is not None else ():
            if values.get(name, 0) > (total or 0):
                del values[name]
                missing[name] = Absence.BLANK
