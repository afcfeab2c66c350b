"""The documented model for machines without a meter: watts of a socket by family and CPUs, of memory by size.

A modelled domain is a virtual counter, linear in what the kernel counts: P_idle x uptime + slope x busy time. It does
not depend on when it is read, and it goes on after a restart.

Sources: idle and full-load watts per hardware thread are SPECpower_ssj2008 results by microarchitecture (spec.org, as
averaged by Etsy's Cloud Jewels, 2020, and Cloud Carbon Footprint, 2022-2023): server power less memory, per thread, so
fans and power supply are inside. "Core, mobile" is our estimate from design powers (15 W for 8 threads). Memory:
0.392 W per GiB, the mean of two makers' guides (Crucial 0.375, Micron 0.408).
"""

import re
from dataclasses import dataclass

from kwhere.core.quantities import NANOSECONDS_PER_SECOND

GIBIBYTE = 1 << 30
DRAM_UW_PER_GIB = 392_000
DRAM_IDLE_TABLE_UW_PER_GIB = 150_000
"""What idle memory draws where a meter measures it: refresh and standby of a DDR4 module, within a factor of 2.

Our estimate from data sheets (32 GiB: 3 to 8 W); it splits measured memory only until its own idle power is learned.
"""
DRAM_UNCERTAINTY_RATIO = 0.5
OTHER_IDLE_NODE_UW = 20_000_000
OTHER_IDLE_SOCKET_UW = 10_000_000
"""Fans, board, disks, network and losses of an idle server: 20 W and 10 W per socket, within a factor of 3.

Our estimate; it splits `other` only until the node's own idle power is learned.
"""


@dataclass(frozen=True, slots=True)
class CpuPower:
    """Idle and full-load power of one socket in microwatts, how far off it may be, and which row it is from."""

    idle_uw: int
    max_uw: int
    uncertainty_ratio: float
    family: str


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    pattern: re.Pattern[str]
    idle_uw: int
    """Per hardware thread."""
    max_uw: int
    uncertainty_ratio: float = 0.4


def _family(name: str, pattern: str, idle_mw: int, max_mw: int, uncertainty_ratio: float = 0.4) -> _Family:
    return _Family(name, re.compile(pattern, re.IGNORECASE), idle_mw * 1000, max_mw * 1000, uncertainty_ratio)


_XEON_TIER = r"(?:Bronze|Silver|Gold|Platinum|Max)\s+"
FAMILIES: tuple[_Family, ...] = (
    _family("EPYC, 1st generation", r"EPYC\s+7\w\w1", 823, 2553),
    _family("EPYC, 2nd generation", r"EPYC\s+7\w\w2|EPYC-Rome", 474, 1693),
    _family("EPYC, 3rd generation", r"EPYC\s+7\w\w3|EPYC-Milan", 430, 1950),
    _family("EPYC, later", r"EPYC", 430, 1950, 0.6),
    _family("Ice Lake", _XEON_TIER + r"\d3\d\d|Icelake", 770, 3970),
    _family("Cascade Lake", _XEON_TIER + r"\d2\d\d|Cascadelake", 639, 3967),
    _family("Skylake", _XEON_TIER + r"\d1\d\d|Skylake", 645, 4193),
    _family("Xeon, later than Ice Lake", _XEON_TIER + r"\d[4-9]\d\d|Sapphire|Emerald|Granite", 770, 3970, 0.6),
    _family("Broadwell", r"E[357]-\d+\w*\s+v4|Broadwell", 713, 3685),
    _family("Haswell", r"E[357]-\d+\w*\s+v3|Haswell", 1860, 5600),
    _family("Ivy Bridge", r"E[357]-\d+\w*\s+v2|IvyBridge", 1710, 5560),
    _family("Sandy Bridge", r"E[357]-\d+\w*(?:\s+0)?(?:\s+@|$)|SandyBridge", 2170, 8575),
    _family("Core, mobile", r"Core.*\b(?:i\d-|Ultra\s+\d\s+|m\d?-|\d\s+)\d+(?:[UYPH]\w?|G\d)\b", 200, 3000, 0.8),
    _family("Core", r"Core\(TM\)|Core\s+Ultra|Core\s+i\d", 1138, 5422, 0.6),
    _family("Neoverse", r"Neoverse|Ampere|Altra|Graviton|Grace", 1060, 1940, 0.5),
)
ANY_CPU = _family("any CPU", r"", 740, 3500, 0.8)
"""Mean over the families a large cloud runs: for a name that says nothing."""


def cpu_power(model_name: str | None, cpus: int) -> CpuPower:
    """Return idle and full-load power of a socket with `cpus` hardware threads, by its name in /proc/cpuinfo."""
    family = next((row for row in FAMILIES if row.pattern.search(model_name or "")), ANY_CPU)
    return CpuPower(family.idle_uw * cpus, family.max_uw * cpus, family.uncertainty_ratio, family.name)


def cpu_counter_uj(power: CpuPower, cpus: int, uptime_ns: int, busy_ns: int) -> int:
    """Return microjoules of a modelled socket since boot: idle power x uptime, and the slope x busy CPU time."""
    slope_uw = power.max_uw - power.idle_uw
    return (power.idle_uw * uptime_ns * cpus + slope_uw * busy_ns) // (cpus * NANOSECONDS_PER_SECOND)


def dram_idle_uw(memory_bytes: int) -> int:
    """Return microwatts of memory of that size; the model knows no dynamic part."""
    return memory_bytes * DRAM_UW_PER_GIB // GIBIBYTE


def dram_idle_table_uw(memory_bytes: int) -> int:
    """Return microwatts that measured memory of that size is taken to draw idle, until it has been learned."""
    return memory_bytes * DRAM_IDLE_TABLE_UW_PER_GIB // GIBIBYTE


def dram_counter_uj(memory_bytes: int, uptime_ns: int) -> int:
    """Return microjoules of modelled memory since boot."""
    return dram_idle_uw(memory_bytes) * uptime_ns // NANOSECONDS_PER_SECOND


def other_idle_uw(sockets: int) -> int:
    """Return microwatts that a node's `other` is taken to draw idle, until it has been learned."""
    return OTHER_IDLE_NODE_UW + sockets * OTHER_IDLE_SOCKET_UW
