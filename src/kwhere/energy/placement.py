"""On which socket a unit's CPU time and allocation lie, so that each socket's energy goes to those who used it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.counters import rest


class Topology:
    """Which CPU sits on which socket. Socket names are labels, indices run in their sorted order."""

    __slots__ = ("_cache", "_cpus", "_index_of_cpu", "sockets")

    def __init__(self, socket_of_cpu: Mapping[int, str]) -> None:
        self.sockets: tuple[str, ...] = tuple(sorted(set(socket_of_cpu.values()), key=lambda name: (len(name), name)))
        index_of = {name: index for index, name in enumerate(self.sockets)}
        self._index_of_cpu = {cpu: index_of[name] for cpu, name in socket_of_cpu.items()}
        self._cpus: list[int] = [0] * len(self.sockets)
        for index in self._index_of_cpu.values():
            self._cpus[index] += 1
        self._cache: dict[frozenset[int], list[int]] = {}

    @property
    def cpus_by_socket(self) -> tuple[int, ...]:
        """Return the number of CPUs on each socket."""
        return tuple(self._cpus)

    def index(self, socket: str) -> int:
        """Return the index of a socket. Raises ValueError for one that is not there."""
        return self.sockets.index(socket)

    def by_socket(self, amounts: Iterable[tuple[int, int]]) -> list[int]:
        """Return (CPU, amount) pairs summed by socket; CPUs that are not there are left out."""
        sums = [0] * len(self.sockets)
        for cpu, amount in amounts:
            index = self._index_of_cpu.get(cpu)
            if index is not None:
                sums[index] += amount
        return sums

    def reach(self, cpuset: frozenset[int]) -> list[int]:
        """Return how many CPUs of each socket `cpuset` holds; where none of them is online: all CPUs."""
        found = self._cache.get(cpuset)
        if found is None:
            if len(self._cache) > 4096:  # one entry per cpuset ever seen: forget rather than grow
                self._cache.clear()
            found = self.by_socket((cpu, 1) for cpu in cpuset)
            found = found if any(found) else self._cpus
            self._cache[cpuset] = found
        return found


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU time of one unit in one step, and what is known of where it ran."""

    total_ns: int
    cpuset: frozenset[int] | None = None
    per_cpu_ns: tuple[int, ...] | None = None
    """Deltas by CPU number, where the kernel tells."""


@dataclass(frozen=True, slots=True)
class Placed:
    """CPU time by socket, then unit; what is left of each socket's busy time is the system's."""

    units: list[list[int]]
    system: list[int]
    carry: list[int]
    """Never positive: what units had beyond a socket's busy time, owed by the next step."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one unit holds: milli-CPUs or bytes, times the nanoseconds for which it existed."""

    amount: int
    cpuset: frozenset[int] | None = None


def place_cpu_time(
    topology: Topology, units: Sequence[CpuUse], busy_ns: Sequence[int], carry_ns: Sequence[int]
) -> Placed:
    """Return each unit's CPU time by socket. Pinned units use theirs; others per-CPU usage, else what these left."""
    known: list[list[int] | None] = [_known_place(topology, use) for use in units]
    by_unit = _place(topology, [(use.total_ns, use.cpuset) for use in units], known, busy_ns)
    placed = [list(column) for column in zip(*by_unit, strict=True)] or [[] for _ in busy_ns]
    rests = [rest(busy, sum(row), carry) for busy, row, carry in zip(busy_ns, placed, carry_ns, strict=True)]
    return Placed(placed, [left.amount for left in rests], [left.carry for left in rests])


def place_allocation(topology: Topology, holdings: Sequence[Holding], capacity: Sequence[int]) -> list[list[int]]:
    """Return what each unit holds by socket, then unit: pinned units first, the others by what these left."""
    known: list[list[int] | None] = [None] * len(holdings)
    by_unit = _place(topology, [(held.amount, held.cpuset) for held in holdings], known, capacity)
    return [list(column) for column in zip(*by_unit, strict=True)] or [[] for _ in capacity]


def _known_place(topology: Topology, use: CpuUse) -> list[int] | None:
    """Return the unit's per-CPU usage scaled to its total, by socket; None where the kernel does not tell."""
    if use.per_cpu_ns is None:
        return None
    measured = topology.by_socket(enumerate(use.per_cpu_ns))
    return _proportional(use.total_ns, measured) if any(measured) else None


def _place(
    topology: Topology,
    wants: Sequence[tuple[int, frozenset[int] | None]],
    known: list[list[int] | None],
    capacity: Sequence[int],
) -> list[list[int]]:
    """Return amounts by unit, then socket; `known` is filled in where a cpuset reaches one socket only."""
    if len(capacity) == 1:
        return [[amount] for amount, _ in wants]
    places = list(known)
    for position, (amount, cpuset) in enumerate(wants):
        if cpuset is not None and places[position] is None:
            places[position] = _pinned(amount, topology.reach(cpuset))
    settled = [place for place in places if place is not None]
    taken = [sum(column) for column in zip(*settled, strict=True)] or [0] * len(capacity)
    left = [max(0, room - used) for room, used in zip(capacity, taken, strict=True)]
    everywhere = left if any(left) else topology.cpus_by_socket
    for position, (amount, cpuset) in enumerate(wants):
        if places[position] is None:
            weights = everywhere if cpuset is None else _within(topology.reach(cpuset), left)
            places[position] = _proportional(amount, weights)
    return [place for place in places if place is not None]


def _pinned(amount: int, reach: Sequence[int]) -> list[int] | None:
    """Return `amount` on the one socket that `reach` touches; None where it touches several."""
    if sum(1 for cpus in reach if cpus) != 1:
        return None
    return [amount if cpus else 0 for cpus in reach]


def _within(reach: Sequence[int], left: Sequence[int]) -> Sequence[int]:
    """Return what is left of the sockets within reach, else how many CPUs of each are."""
    weights = [room if cpus else 0 for room, cpus in zip(left, reach, strict=True)]
    return weights if any(weights) else reach


def _proportional(amount: int, weights: Sequence[int]) -> list[int]:
    """Return `amount` cut at the running sums of `weights`: exact in sum, each piece within 1."""
    if not amount:
        return [0] * len(weights)
    whole = sum(weights)
    pieces = []
    seen = cut = 0
    for weight in weights:
        seen += weight
        here = amount * seen // whole
        pieces.append(here - cut)
        cut = here
    return pieces
