"""The documented model for machines without a meter: watts of a socket by its table, of memory by size.

A modelled domain is a virtual counter, linear in what the kernel counts: P_idle x uptime + slope x busy time. It does
not depend on when it is read, and it goes on after a restart.

Watts of processors: `energy.cpu_table`. Memory, watts per GiB: DDR3 the mean of idle and full load of three servers in
SPECpower_ssj2008, each published with two sizes of memory (0.37, 0.45, 0.57); DDR4 and unknown the mean of two makers'
guides (Crucial 0.375, Micron 0.408; Tom's Hardware 2014 measured 0.37 under load); DDR5 is DDR4 x (1.1 V / 1.2 V)^2.
"""

from dataclasses import dataclass
from enum import StrEnum

from kwhere.core.quantities import NANOSECONDS_PER_SECOND

GIBIBYTE = 1 << 30


class Memory(StrEnum):
    """Generation of memory, as far as the processor tells. `inside`: within the processor's own figure."""

    DDR3 = "DDR3"
    DDR4 = "DDR4"
    DDR5 = "DDR5"
    INSIDE = "inside"


DRAM_UW_PER_GIB = {Memory.DDR3: 460_000, Memory.DDR4: 392_000, Memory.DDR5: 329_000, Memory.INSIDE: 0}
ANY_DRAM_UW_PER_GIB = 392_000
DRAM_IDLE_TABLE_UW_PER_GIB = 150_000
"""What idle memory draws where a meter measures it: refresh and standby of a DDR4 module, within a factor of 2.

Our estimate from data sheets (32 GiB: 3 to 8 W); it splits measured memory only until its own idle power is learned.
"""
OTHER_IDLE_NODE_UW = 20_000_000
OTHER_IDLE_SOCKET_UW = 10_000_000
"""Fans, board, disks, network and losses of an idle server: 20 W and 10 W per socket, within a factor of 3.

Our estimate; it splits `other` only until the node's own idle power is learned.
"""
ANY_CPU_IDLE_UW = 740_000
ANY_CPU_MAX_UW = 3_500_000
"""Per hardware thread: the mean over server generations that Cloud Carbon Footprint takes where it knows nothing."""
ANY_CPU_UNCERTAINTY_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class CpuPower:
    """Idle and full-load power of one socket in microwatts, how far off it may be, and which row it is from."""

    idle_uw: int
    max_uw: int
    uncertainty_ratio: float
    family: str
    memory: Memory | None = None
    """Memory that goes with it; None: not known."""
    chip_threads: int | None = None
    """Hardware threads of the whole chip, where the row is of a model."""


def cpu_counter_uj(power: CpuPower, cpus: int, uptime_ns: int, busy_ns: int) -> int:
    """Return microjoules of a modelled socket since boot: idle power x uptime, and the slope x busy CPU time."""
    slope_uw = power.max_uw - power.idle_uw
    return (power.idle_uw * uptime_ns * cpus + slope_uw * busy_ns) // (cpus * NANOSECONDS_PER_SECOND)


def dram_idle_uw(memory_bytes: int, memory: Memory | None = None) -> int:
    """Return microwatts of memory of that size; the model knows no dynamic part."""
    per_gib_uw = ANY_DRAM_UW_PER_GIB if memory is None else DRAM_UW_PER_GIB[memory]
    return memory_bytes * per_gib_uw // GIBIBYTE


def dram_idle_table_uw(memory_bytes: int) -> int:
    """Return microwatts that measured memory of that size is taken to draw idle, until it has been learned."""
    return memory_bytes * DRAM_IDLE_TABLE_UW_PER_GIB // GIBIBYTE


def dram_counter_uj(power_uw: int, uptime_ns: int) -> int:
    """Return microjoules of modelled memory of that power since boot."""
    return power_uw * uptime_ns // NANOSECONDS_PER_SECOND


def other_idle_uw(sockets: int) -> int:
    """Return microwatts that a node's `other` is taken to draw idle, until it has been learned."""
    return OTHER_IDLE_NODE_UW + sockets * OTHER_IDLE_SOCKET_UW
