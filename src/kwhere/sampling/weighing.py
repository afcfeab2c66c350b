"""From CPU times and allocations of one step to the weights of its split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.energy.placement import CpuUse, Holding, Topology, place_allocation, place_cpu_time
from kwhere.sampling.cpu_book import Roster, UnitTimes
from kwhere.sampling.node_cpu import BusyStep
from kwhere.sampling.weights import Weights

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the units of a roster hold, placed on sockets; inner units' holdings are taken out of their outer's."""

    milli_cpus: list[list[int]]
    memory_bytes: list[list[int]]
    milli_cpus_total: list[int]
    memory_allocated: list[int | None]
    """Allocated bytes by unit, None where unknown."""


def own_amounts(units: Sequence[TrackedUnit], index: Mapping[UnitKey, int], amounts: Sequence[int]) -> list[int]:
    """Return each unit's amount less that of the units directly inside it, never below 0."""
    own = list(amounts)
    for i, unit in enumerate(units):
        outer = index.get(unit.outer) if unit.outer is not None else None
        if outer is not None:
            own[outer] -= amounts[i]
    return [max(0, amount) for amount in own]


class Weigher:
    """Weighs steps on one node. Remembers each socket's carry and the last roster's holdings."""

    def __init__(self, memory_total_bytes: int) -> None:
        self._memory_total_bytes = memory_total_bytes
        self._carry_ns: list[int] = []
        self._sockets: tuple[str, ...] = ()
        self._cached_for: tuple[Roster, Topology, int] | None = None
        self._holdings = Holdings([], [], [], [])
        self._keys: tuple[UnitKey, ...] = ()

    @property
    def carry_ns(self) -> list[int]:
        """Return, by socket, what units had beyond its busy time; owed by the next step, never positive."""
        return list(self._carry_ns)

    def restore(self, carry_ns: Sequence[int]) -> None:
        """Go on from carries saved in this boot."""
        self._carry_ns = [min(0, carry) for carry in carry_ns]

    def moved_to(self, topology: Topology) -> bool:
        """Return whether the node has other sockets than at the last call; carries then start anew."""
        moved = bool(self._sockets) and self._sockets != topology.sockets
        if moved or len(self._carry_ns) != len(topology.sockets):
            self._carry_ns = [0] * len(topology.sockets)
        self._sockets = topology.sockets
        return moved

    def holdings(self, roster: Roster, topology: Topology, resident: Mapping[UnitKey, int], version: int) -> Holdings:
        """Return what the roster's units hold; `version` changes when `resident` anonymous bytes were read anew."""
        cached = self._cached_for
        if cached is None or cached[0] is not roster or cached[1] is not topology or cached[2] != version:
            self._holdings = self._hold(roster, topology, resident)
            self._keys = tuple(unit.key for unit in roster.units)
            self._cached_for = (roster, topology, version)
        return self._holdings

    def weigh(self, times: UnitTimes, busy: BusyStep, topology: Topology, holdings: Holdings, span_ns: int) -> Weights:
        """Return the weights of one step."""
        sockets = len(topology.sockets)
        uses = [
            CpuUse(own_ns, unit.allocation.cpuset, times.per_cpu_ns.get(i))
            for i, (own_ns, unit) in enumerate(zip(times.own_ns, times.roster.units, strict=True))
        ]
        placed = place_cpu_time(topology, uses, busy.by_socket, self._carry_ns)
        self._carry_ns = placed.carry
        return Weights(
            keys=self._keys,
            span_ns=span_ns,
            used_ns=placed.units,
            system_ns=placed.system,
            cpus_held=[_times(row, times.lived_ns) for row in holdings.milli_cpus],
            cpu_capacity=[cpus * _MILLI * span_ns for cpus in topology.cpus_by_socket],
            memory_held=[_times(row, times.lived_ns) for row in holdings.memory_bytes],
            memory_capacity=[self._memory_total_bytes // sockets * span_ns] * sockets,
            lived_ns=times.lived_ns,
        )

    def _hold(self, roster: Roster, topology: Topology, resident: Mapping[UnitKey, int]) -> Holdings:
        units = roster.units
        milli = own_amounts(units, roster.index, [unit.allocation.milli_cpus or 0 for unit in units])
        allocated = [unit.allocation.memory_bytes for unit in units]
        held = [
            resident.get(unit.key, 0) if memory is None else memory
            for unit, memory in zip(units, allocated, strict=True)
        ]
        memory = own_amounts(units, roster.index, held)
        sockets = len(topology.sockets)
        cpusets = [unit.allocation.cpuset for unit in units]
        per_socket = [self._memory_total_bytes // sockets] * sockets
        return Holdings(
            milli_cpus=place_allocation(
                topology, _holdings(milli, cpusets), [cpus * _MILLI for cpus in topology.cpus_by_socket]
            ),
            memory_bytes=place_allocation(topology, _holdings(memory, cpusets), per_socket),
            milli_cpus_total=milli,
            memory_allocated=[None if given is None else own for given, own in zip(allocated, memory, strict=True)],
        )


def _holdings(amounts: Sequence[int], cpusets: Sequence[frozenset[int] | None]) -> list[Holding]:
    return [Holding(amount, cpuset) for amount, cpuset in zip(amounts, cpusets, strict=True)]


def _times(row: Sequence[int], lived_ns: Sequence[int]) -> list[int]:
    return [amount * lived for amount, lived in zip(row, lived_ns, strict=True)]
