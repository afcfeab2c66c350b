"""Whether a node's account is coming in. Pure."""

from typing import NamedTuple

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.records import NodeState

LOST_NS = 3600 * NANOSECONDS_PER_SECOND
UP_SLOTS = 3
SLOT_SECONDS = 60
PULL_SECONDS = 30.0
"""Where a node's row does not say."""


class NodeTimes(NamedTuple):
    """What a node's state follows from; the names are those of its row."""

    first_start_ns: int | None
    newest_end_ns: int | None
    slot_seconds: int | None
    pull_ns: int | None
    pull_seconds: float | None
    retired_ns: int | None


def state_of(times: NodeTimes, now_ns: int) -> NodeState:
    """Return up (newest slot ended at most 3 slots and a pull ago), late, lost (1 h without a pull) or retired."""
    if times.retired_ns is not None:
        return NodeState.RETIRED
    if times.pull_ns is None or now_ns - times.pull_ns > LOST_NS:
        return NodeState.LOST
    allowed_seconds = UP_SLOTS * (times.slot_seconds or SLOT_SECONDS) + (times.pull_seconds or PULL_SECONDS)
    if times.newest_end_ns is None or now_ns - times.newest_end_ns > allowed_seconds * NANOSECONDS_PER_SECOND:
        return NodeState.LATE
    return NodeState.UP
