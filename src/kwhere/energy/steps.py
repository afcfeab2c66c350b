"""Values that are in force from a time on, until the next one: PUE, tariffs, water."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Steps(Generic[T]):
    """A step function of time; before its first start there is none. Starts are UTC ns and rise."""

    starts_ns: tuple[int, ...] = ()
    values: tuple[T, ...] = ()

    def __post_init__(self) -> None:
        if len(self.starts_ns) != len(self.values):
            raise ValueError(f"steps: expected a value per start, found {len(self.starts_ns)} and {len(self.values)}")
        if any(one >= other for one, other in zip(self.starts_ns, self.starts_ns[1:], strict=False)):
            raise ValueError("steps: expected starts that rise")

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, T]]) -> "Steps[T]":
        """Return the steps of (start, value) pairs in time order. Raises ValueError for two with one start."""
        ordered = sorted(pairs, key=lambda pair: pair[0])
        return cls(tuple(start for start, _ in ordered), tuple(value for _, value in ordered))

    def at(self, moment_ns: int) -> T | None:
        """Return the value in force at `moment_ns`; None before the first start."""
        place = bisect_right(self.starts_ns, moment_ns)
        return self.values[place - 1] if place else None

    def pairs(self) -> Iterator[tuple[int, T]]:
        """Yield (start, value) in time order."""
        return zip(self.starts_ns, self.values, strict=True)

    def over(self, later: "Steps[T]") -> "Steps[T]":
        """Return these steps up to the first start of `later`, then those: the dated ones win from their first day."""
        if not later.starts_ns:
            return self
        first_ns = later.starts_ns[0]
        kept = [(start, value) for start, value in self.pairs() if start < first_ns]
        return Steps.of([*kept, *later.pairs()])


def changed_spans(before: Steps[T], after: Steps[T], end_ns: int) -> list[tuple[int, int]]:
    """Return the spans up to `end_ns`, UTC ns, in which the two differ; neighbours are joined."""
    edges = sorted({start for start in (*before.starts_ns, *after.starts_ns) if start < end_ns})
    found: list[tuple[int, int]] = []
    for start, end in pairwise([*edges, end_ns]):
        if before.at(start) == after.at(start):
            continue
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
