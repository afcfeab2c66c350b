"""One look at a manager that pushes: what changed since it was heard last, or all it knows."""

import structlog
from sqlalchemy import Engine

from kwhere.database.claims import ClaimCounts, ClaimTurn
from kwhere.database.grid import to_ns
from kwhere.database.managed_units import write_units
from kwhere.database.manager_states import ManagerState, note_cursor
from kwhere.database.vanished import Living, end_vanished
from kwhere.resource_managers.resource_manager import WatchingManager

BATCH = 1000

log = structlog.get_logger(__name__)


def hear(
    engine: Engine, source: WatchingManager, turn: ClaimTurn, state: ManagerState, cursor: str | None
) -> ClaimCounts:
    """Write what changed since `cursor`, then keep the new one: what is cut off in between is heard again.

    Where all was listed anew, units that are missing have gone while nobody listened. Raises KwhereError.
    """
    changes = source.watch(cursor)
    counts = ClaimCounts()
    for at in range(0, len(changes.units), BATCH):
        counts = counts.plus(write_units(engine, turn, changes.units[at : at + BATCH]))
    if changes.is_relisted:
        runs = {(unit.unit, unit.run) for unit in changes.units}
        seen_ns = {unit: to_ns(at) for unit, at in changes.seen.items()}
        living = Living(turn.now_ns, state.heard_ns, runs=runs, seen_ns=seen_ns)
        gone = end_vanished(engine, turn, living, changes.unread)
        if gone:
            log.info("units are gone that nobody saw end", cluster=source.cluster, manager=source.name, count=gone)
    note_cursor(engine, turn, changes.cursor, turn.now_ns)
    return counts
