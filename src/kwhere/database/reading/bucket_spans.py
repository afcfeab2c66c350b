"""Which time the energy of each of a unit's buckets is of: it was there for a part of the first and the last. Pure."""

from collections.abc import Sequence
from typing import NamedTuple


class Seen(NamedTuple):
    """A time in which a unit was measured, UTC ns, and the buckets whose energy is of it, by their place."""

    start_ns: int
    end_ns: int
    buckets: tuple[int, ...]


def seen_spans(buckets: Sequence[tuple[int, int]], seen: tuple[int, int], least_ns: int) -> list[Seen]:
    """Return the times that a unit's buckets, which are in order and lie apart, are of; each bucket is in one of them.

    `seen` is from when to when it was measured. A slot that crosses the edge of a bucket leaves energy on both sides
    of it, also where the unit began or ended close by: of less than `least_ns` a bucket is its neighbour's.
    """
    cut = [(max(start_ns, seen[0]), min(end_ns, seen[1])) for start_ns, end_ns in buckets]
    whole = [at for at, (start_ns, end_ns) in enumerate(cut) if end_ns - start_ns >= least_ns]
    if not whole:
        return _together(buckets, cut)
    first, last = whole[0], whole[-1]
    found = [Seen(*cut[at], (at,)) for at in range(first, last + 1)]
    found[0] = _joined(found[0], cut[:first], range(first))
    found[-1] = _joined(found[-1], cut[last + 1 :], range(last + 1, len(cut)))
    return found


def _together(buckets: Sequence[tuple[int, int]], cut: Sequence[tuple[int, int]]) -> list[Seen]:
    if not buckets:
        return []
    within = [(start_ns, end_ns) for start_ns, end_ns in cut if end_ns > start_ns] or buckets
    return [Seen(within[0][0], within[-1][1], tuple(range(len(buckets))))]


def _joined(seen: Seen, edges: Sequence[tuple[int, int]], places: Sequence[int]) -> Seen:
    """Return a time with the edges that touch it."""
    start_ns, end_ns = seen.start_ns, seen.end_ns
    for edge_start_ns, edge_end_ns in edges:
        if edge_end_ns > edge_start_ns and edge_end_ns == start_ns:
            start_ns = edge_start_ns
        elif edge_end_ns > edge_start_ns and edge_start_ns == end_ns:
            end_ns = edge_end_ns
    return Seen(start_ns, end_ns, tuple(sorted((*seen.buckets, *places))))
