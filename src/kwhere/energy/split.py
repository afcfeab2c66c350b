"""Who gets the energy of a domain: dynamic by use, idle by what is held, to the microjoule.

Units are positions in sequences kept in the order of unit keys; `system` and `unallocated` come after them in ties.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.quantities import energy_of
from kwhere.core.terms import IdlePolicy
from kwhere.energy.apportion import apportion


@dataclass(frozen=True, slots=True)
class Use:
    """Weights of dynamic energy over the span: CPU time on that socket, or dynamic microjoules for `other`."""

    weights: Sequence[int]
    system: int


@dataclass(frozen=True, slots=True)
class Held:
    """Weights of idle energy over the span, times the nanoseconds for which each unit existed."""

    amounts: Sequence[int]
    """Allocated milli-CPUs or bytes x ns, placed on that socket."""
    capacity: int
    """Of the whole socket or node x ns of the span; what nobody holds is unallocated."""
    lived: Sequence[int]
    """Nanoseconds each unit lived within the span (policy `equal`)."""


@dataclass(frozen=True, slots=True)
class DomainSplit:
    """Shares of one domain's energy; all of them sum to what was to be split, exactly."""

    dynamic: list[int]
    idle: list[int]
    system_dynamic: int
    system_idle: int
    unallocated: int
    overcommitted: bool
    """More was held than there is: all holdings were scaled down."""


@dataclass(frozen=True, slots=True)
class _IdleShares:
    units: list[int]
    system: int
    unallocated: int
    overcommitted: bool = False


def idle_energy(energy_uj: int, idle_uw: int, span_ns: int) -> int:
    """Return the idle part of `energy_uj`: P_idle over the span, never more than there is."""
    return min(energy_uj, energy_of(idle_uw, span_ns))


def share_dynamic(dynamic_uj: int, use: Use) -> tuple[list[int], int]:
    """Return dynamic energy of the units and of `system`, by use; where nothing was used, all is the system's."""
    if not use.system and not any(use.weights):
        return [0] * len(use.weights), dynamic_uj
    *units, system = apportion(dynamic_uj, [*use.weights, use.system])
    return units, system


def split_domain(
    dynamic_uj: int, idle_uj: int, use: Use, held: Held, policy: IdlePolicy = IdlePolicy.ALLOCATION
) -> DomainSplit:
    """Return every share of one domain's energy over one span. Cost: a few sorts of the units."""
    dynamic, system_dynamic = share_dynamic(dynamic_uj, use)
    idle = _share_idle(idle_uj, use, held, policy)
    return DomainSplit(dynamic, idle.units, system_dynamic, idle.system, idle.unallocated, idle.overcommitted)


def _share_idle(idle_uj: int, use: Use, held: Held, policy: IdlePolicy) -> _IdleShares:
    nothing = [0] * len(held.amounts)
    if policy is IdlePolicy.USAGE:
        units, system = share_dynamic(idle_uj, use)
        return _IdleShares(units, system, 0)
    if policy is IdlePolicy.EQUAL and any(held.lived):
        return _IdleShares(apportion(idle_uj, held.lived), 0, 0)
    if policy is IdlePolicy.ALLOCATION:
        return _share_by_holding(idle_uj, held)
    return _IdleShares(nothing, 0, idle_uj)


def _share_by_holding(idle_uj: int, held: Held) -> _IdleShares:
    taken = sum(held.amounts)
    free = max(0, held.capacity - taken)
    if not taken:
        return _IdleShares([0] * len(held.amounts), 0, idle_uj)
    *units, unallocated = apportion(idle_uj, [*held.amounts, free])
    return _IdleShares(units, 0, unallocated, overcommitted=taken > held.capacity)
