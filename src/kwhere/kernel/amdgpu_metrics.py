"""`gpu_metrics` of amdgpu: one binary table with power, energy, activity and more (kgd_pp_interface.h of Linux).

Format 1 is of boards, formats 2 and 3 of processors with graphics inside, whose power is told in other units or not at
all: these are not read. All bits set means "not known", in every width.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from kwhere.core.errors import SourceError, Unavailable

PROCESSOR = "processor"
"""Reason of a table of graphics inside a processor: the power in it, and of its sensors, is the whole package's."""
_HEADER = struct.Struct("<HBB")
_UNKNOWN = {"H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}
_PARTITIONS = 8
_ENGINES = 8
"""XCCs, the compute dies that a partition may have."""


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """One table, units as the driver writes them; None is not known."""

    revision: int
    """Content revision of format 1."""
    socket_power_w: int | None = None
    is_average: bool = False
    """Whether the power is a mean (revisions up to 3) or of now."""
    energy_accumulator: int | None = None
    """In 2^-16 J on Instinct boards."""
    system_clock_ns: int | None = None
    """When the driver took the values."""
    gfx_activity_percent: int | None = None
    umc_activity_percent: int | None = None
    """Of the memory controller."""
    temperature_edge_c: int | None = None
    temperature_hotspot_c: int | None = None
    temperature_memory_c: int | None = None
    gfx_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    pcie_width: int | None = None
    pcie_speed_tenth_gts: int | None = None
    pcie_replays: int | None = None
    partitions: int | None = None
    partition_activity_percent: tuple[int | None, ...] = ()
    """Of each partition, the mean over its compute dies."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where each quantity lies: offset and struct code of an unsigned number, by field."""

    size: int
    """Smallest table that holds all of them but the partitions."""
    places: Mapping[str, tuple[int, str]]
    is_average: bool = False
    stats: tuple[int, int] | None = None
    """Offset of the first partition's figures, and the length of one's."""


def _early(size: int) -> _Layout:
    """Revisions 1, 2 and 3 share everything that is read here."""
    return _Layout(
        size,
        {
            "temperature_edge_c": (4, "H"),
            "temperature_hotspot_c": (6, "H"),
            "temperature_memory_c": (8, "H"),
            "gfx_activity_percent": (16, "H"),
            "umc_activity_percent": (18, "H"),
            "socket_power_w": (22, "H"),
            "energy_accumulator": (24, "Q"),
            "system_clock_ns": (32, "Q"),
            "gfx_clock_mhz": (54, "H"),
            "memory_clock_mhz": (58, "H"),
            "pcie_width": (74, "H"),
            "pcie_speed_tenth_gts": (76, "H"),
        },
        is_average=True,
    )


_LATE: Mapping[str, tuple[int, str]] = {
    "temperature_hotspot_c": (4, "H"),
    "temperature_memory_c": (6, "H"),
    "socket_power_w": (10, "H"),
    "gfx_activity_percent": (12, "H"),
    "umc_activity_percent": (14, "H"),
}


def _late(
    size: int, energy: int, link: int, replays: int, clocks: int, stats: tuple[int, int] | None = None
) -> _Layout:
    """Later revisions begin alike; the memory clock lies 40 bytes behind the first graphics clock."""
    places = {
        **_LATE,
        "energy_accumulator": (energy, "Q"),
        "system_clock_ns": (energy + 8, "Q"),
        "pcie_width": (link, "H"),
        "pcie_speed_tenth_gts": (link + 2, "H"),
        "pcie_replays": (replays, "Q"),
        "gfx_clock_mhz": (clocks, "H"),
        "memory_clock_mhz": (clocks + 40, "H"),
    }
    if stats is not None:
        places["partitions"] = (clocks + 42, "H")
    return _Layout(size, places, stats=stats)


_LAYOUTS: Mapping[int, _Layout] = {
    1: _early(96),
    2: _early(104),
    3: _early(120),
    4: _late(284, 24, 48, 88, 240),
    5: _late(356, 88, 112, 152, 312),
    6: _late(308, 16, 60, 104, 264, (312, 168)),
    7: _late(340, 24, 68, 112, 296, (344, 232)),
    8: _late(340, 24, 68, 112, 296, (344, 440)),
}


def parse_gpu_metrics(data: bytes, place: str) -> GpuMetrics:
    """Return the table. Raises Unavailable (unsupported, processor) for other formats, SourceError for no table."""
    if len(data) < _HEADER.size:
        raise SourceError(f"{place}: expected a table of at least {_HEADER.size} bytes, found {len(data)}")
    size, format_revision, revision = _HEADER.unpack_from(data)
    if format_revision in (2, 3):
        raise Unavailable(PROCESSOR, f"{place}: format {format_revision}.{revision} is of a processor with graphics")
    layout = _LAYOUTS.get(revision) if format_revision == 1 else None
    if layout is None:
        raise Unavailable("unsupported", f"{place}: expected format 1.1 to 1.8, found {format_revision}.{revision}")
    if min(size, len(data)) < layout.size:
        raise SourceError(f"{place}: expected {layout.size} bytes of format 1.{revision}, found {min(size, len(data))}")
    data = data[:size]
    found = {name: _number(data, offset, code) for name, (offset, code) in layout.places.items()}
    activities = _activities(data, layout, found.get("partitions"))
    return GpuMetrics(revision, is_average=layout.is_average, partition_activity_percent=activities, **found)


def _number(data: bytes, offset: int, code: str) -> int | None:
    if offset + struct.calcsize(f"<{code}") > len(data):
        return None
    (value,) = struct.unpack_from(f"<{code}", data, offset)
    return None if value == _UNKNOWN[code] else int(value)


def _activities(data: bytes, layout: _Layout, partitions: int | None) -> tuple[int | None, ...]:
    if layout.stats is None or not partitions or partitions > _PARTITIONS:
        return ()
    start, length = layout.stats
    return tuple(_activity(data, start + length * i) for i in range(partitions))


def _activity(data: bytes, offset: int) -> int | None:
    engines = [_number(data, offset + 4 * i, "I") for i in range(_ENGINES)]
    known = [percent for percent in engines if percent is not None and percent <= 100]
    return sum(known) // len(known) if known else None
