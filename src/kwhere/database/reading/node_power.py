"""What a node draws now."""

from typing import Any

from kwhere.database.reading.figures import shares
from kwhere.database.records import NodeState


def node_power_uw(row: Any, state: NodeState) -> int | None:
    """Return the mean power over a node's newest slot; None unless it is up."""
    parts = shares(row._mapping)
    if state is not NodeState.UP or not parts or not row.newest_slot_ns:
        return None
    return int(sum(part.total_uj for part in parts.values()) * 1_000_000_000 // row.newest_slot_ns)
