"""P_max: the largest power that a zone can plausibly draw, in microwatts. Above it a delta is nonsense, not energy."""

from collections.abc import Iterable

_WATT = 1_000_000

P_MAX_SOCKET_UW = 500 * _WATT
P_MAX_MULTI_DIE_UW = 1000 * _WATT
P_MAX_DRAM_UW = 200 * _WATT
PLATFORM_HEADROOM_UW = 2000 * _WATT
LOWEST_LIMIT_UW = 5 * _WATT
UNLIMITED_UW = 4000 * _WATT
"""A RAPL limit has 15 bits of 1/8 W: one near 4096 W means "unlimited" (Intel SDM vol. 3, MSR_PKG_POWER_LIMIT)."""


def believable_limits(limits_uw: Iterable[int]) -> list[int]:
    """Return the power limits that mean something: not 0, not "unlimited", not under 5 W."""
    return [limit for limit in limits_uw if LOWEST_LIMIT_UW <= limit < UNLIMITED_UW]


def p_max_cpu_uw(dies: int, limits_uw: Iterable[int]) -> int:
    """Return P_max of a socket of `dies` dies: turbo bursts exceed the long-term limit, so twice the largest counts."""
    floor = P_MAX_MULTI_DIE_UW if dies > 1 else P_MAX_SOCKET_UW
    return max([floor, *(2 * limit for limit in believable_limits(limits_uw))])


def p_max_gpu_uw(enforced_limit_uw: int) -> int:
    """Return P_max of a GPU: 1.5 times the limit that its driver enforces."""
    return enforced_limit_uw * 3 // 2


def gpu_limit_uw(p_max_uw: int) -> int:
    """Return the enforced limit that a GPU's P_max was made of."""
    return p_max_uw * 2 // 3


def p_max_platform_uw(inside_uw: Iterable[int], headroom_uw: int = PLATFORM_HEADROOM_UW) -> int:
    """Return P_max of a whole node: what its components may draw, and `headroom_uw` for the rest."""
    return sum(inside_uw) + headroom_uw
