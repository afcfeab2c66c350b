"""What the read side returns of the database itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kwhere.database.records import NodeState


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """Whether the account is in order."""

    revision: str
    dialect: str
    nodes_by_state: Mapping[NodeState, int]
    stopped_journals: int
    quarantined_slots: int
    lost_records: int
    oldest_touched_hour_at: datetime | None
    """Oldest hour that waits for a rollup; None if all are done."""
