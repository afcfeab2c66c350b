"""Which run of a manager a run on a node belongs to. Pure.

A node names its run after its creation, a manager after its own start; both clocks and both moments differ a little.
So the manager's span is widened by two minutes, and of several the one that starts nearest is meant. Where none of
them was placed on that node, somebody there pretends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.node_names import is_same_host

TOLERANCE_NS = 120 * NANOSECONDS_PER_SECOND
PATIENCE_NS = 7 * 86_400 * NANOSECONDS_PER_SECOND
"""How long a run that its manager does not know is asked for again."""
CLAIMED = "claimed"
UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run on a node that no manager has claimed."""

    id: int
    unit: str
    run: str
    node_names: tuple[str, ...]
    """What its node is called, or pretends to be."""
    created_ns: int
    unclaimed_since_ns: int | None
    is_doubted: bool = False
    """It was found to be nobody's before."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A manager's run of the same unit."""

    unit_id: int
    unit: str
    run: str
    started_ns: int
    ended_ns: int | None
    nodes: tuple[str, ...] | None
    """None: the manager does not say."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of an open run; both None: nothing yet."""

    unit_id: int | None = None
    claim: str | None = None


def judge(run: OpenRun, candidates: Sequence[Candidate], now_ns: int) -> Verdict:
    """Return whose the run is."""
    fitting = [each for each in candidates if _fits(run, each)]
    placed = [each for each in fitting if each.nodes is None or _is_among(run.node_names, each.nodes)]
    if placed:
        nearest = min(placed, key=lambda each: (abs(each.started_ns - run.created_ns), each.unit_id))
        return Verdict(nearest.unit_id, CLAIMED)
    if fitting:
        return Verdict(claim=UNVERIFIED)
    is_late = run.unclaimed_since_ns is not None and now_ns - run.unclaimed_since_ns >= PATIENCE_NS
    return Verdict(claim=UNVERIFIED) if is_late else Verdict()


def _fits(run: OpenRun, candidate: Candidate) -> bool:
    if candidate.run == candidate.unit == run.run:  # an id that is unique for ever needs no time
        return True
    # Its manager may have seen it late: nothing else of that id was there before.
    if candidate.run != candidate.unit and run.created_ns < candidate.started_ns - TOLERANCE_NS:
        return False
    return candidate.ended_ns is None or run.created_ns <= candidate.ended_ns + TOLERANCE_NS


def _is_among(ours: Iterable[str], theirs: Iterable[str]) -> bool:
    return any(is_same_host(our, their) for their in theirs for our in ours)
