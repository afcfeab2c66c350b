"""What each unit used and held over a span: the weights by which a domain's energy is split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kwhere.core.unit import UnitKey


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one span by socket, then by position in `keys` (sorted). Spans add up."""

    keys: tuple[UnitKey, ...]
    span_ns: int
    used_ns: list[list[int]]
    """CPU time."""
    system_ns: list[int]
    """CPU time of `system`, by socket."""
    cpus_held: list[list[int]]
    """Allocated milli-CPUs x ns existed."""
    cpu_capacity: list[int]
    """Online milli-CPUs x ns, by socket."""
    memory_held: list[list[int]]
    """Allocated bytes, else resident anonymous bytes, x ns existed."""
    memory_capacity: list[int]
    """Bytes of memory x ns, by socket."""
    lived_ns: list[int]

    def over_all_sockets(self) -> "Weights":
        """Return the same span with the whole node as one socket."""
        if len(self.system_ns) == 1:
            return self
        return replace(
            self,
            used_ns=_summed(self.used_ns),
            system_ns=[sum(self.system_ns)],
            cpus_held=_summed(self.cpus_held),
            cpu_capacity=[sum(self.cpu_capacity)],
            memory_held=_summed(self.memory_held),
            memory_capacity=[sum(self.memory_capacity)],
        )


def _summed(by_socket: Sequence[Sequence[int]]) -> list[list[int]]:
    return [[sum(column) for column in zip(*by_socket, strict=True)]]


def merge(first: Weights, second: Weights) -> Weights:
    """Return the weights of two spans that follow one another; a unit may be missing in either."""
    same = first.keys is second.keys or first.keys == second.keys
    keys = first.keys if same else tuple(sorted({*first.keys, *second.keys}))
    left = _identity if same else _aligner(first.keys, keys)
    right = _identity if same else _aligner(second.keys, keys)

    def rows(one: list[list[int]], other: list[list[int]]) -> list[list[int]]:
        return [_added(left(a), right(b)) for a, b in zip(one, other, strict=True)]

    return Weights(
        keys=keys,
        span_ns=first.span_ns + second.span_ns,
        used_ns=rows(first.used_ns, second.used_ns),
        system_ns=_added(first.system_ns, second.system_ns),
        cpus_held=rows(first.cpus_held, second.cpus_held),
        cpu_capacity=_added(first.cpu_capacity, second.cpu_capacity),
        memory_held=rows(first.memory_held, second.memory_held),
        memory_capacity=_added(first.memory_capacity, second.memory_capacity),
        lived_ns=_added(left(first.lived_ns), right(second.lived_ns)),
    )


def _identity(row: list[int]) -> list[int]:
    return row


def _aligner(keys: Sequence[UnitKey], target: Sequence[UnitKey]) -> Callable[[list[int]], list[int]]:
    index = {key: i for i, key in enumerate(keys)}
    places = [index.get(key) for key in target]
    return lambda row: [0 if place is None else row[place] for place in places]


def _added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


class SpanWeights:
    """Weights gathered since a domain's last fresh reading. One step's weights are shared, not copied."""

    def __init__(self) -> None:
        self._gathered: Weights | None = None

    def add(self, step: Weights) -> None:
        """Take one whole step in."""
        self._gathered = step if self._gathered is None else merge(self._gathered, step)

    def take(self) -> Weights | None:
        """Return everything since the last call, and start anew."""
        gathered, self._gathered = self._gathered, None
        return gathered
