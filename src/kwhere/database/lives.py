"""When runs and units begin, end and come back."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, or_, select, text

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import schema
from kwhere.database.chunks import chunks
from kwhere.database.ended_owners import settle_owners_of_runs
from kwhere.database.identities import ENDED, RUNNING, Resolved
from kwhere.database.sums import SlotSums

_SCAN_GONE = text(
    "SELECT r.id FROM unit_runs r JOIN run_totals t ON t.unit_run_id = r.id"
    " WHERE r.node_id = :node_id AND r.ended_ns IS NULL AND r.kind = 'unit' AND t.newest_end_ns < :newest_end_ns"
)
_END_RUN = text(
    "UPDATE unit_runs SET ended_ns = (SELECT t.newest_end_ns FROM run_totals t WHERE t.unit_run_id = unit_runs.id)"
    " WHERE id = :run_id AND kind = 'unit'"
)
_END_EARLIER = text(
    "UPDATE unit_runs SET ended_ns = :told_ns WHERE id = :run_id AND :told_ns BETWEEN started_ns AND ended_ns"
)
END_LABELS = ("slurm_end", "directory_end")
"""The first that is there; UTC seconds since 1970."""
_END_UNIT = text(
    "UPDATE units SET state = :ended, ended_ns ="
    " (SELECT max(r.ended_ns) FROM unit_runs r WHERE r.unit_id = units.id)"
    " WHERE id = (SELECT r.unit_id FROM unit_runs r WHERE r.id = :run_id) AND scope_node_id <> 0"
    " AND NOT EXISTS (SELECT 1 FROM unit_runs o WHERE o.unit_id = units.id AND o.ended_ns IS NULL)"
)
_WAKE_RUN = text("UPDATE unit_runs SET ended_ns = NULL WHERE id = :run_id AND ended_ns IS NOT NULL")
_WAKE_UNIT = text(
    "UPDATE units SET state = :running, ended_ns = NULL"
    " WHERE id = (SELECT r.unit_id FROM unit_runs r WHERE r.id = :run_id)"
    " AND scope_node_id <> 0 AND ended_ns IS NOT NULL"
)
_SET_METHODS = text(
    "UPDATE unit_runs SET methods = :methods WHERE node_id = :node_id AND ended_ns IS NULL"
    " AND (methods IS NULL OR methods <> :methods)"
)


def follow(connection: Connection, node_id: int, runs: Resolved, newest: SlotSums) -> None:
    """Wake the runs that are back and end those that the newest slot no longer names.

    A unit ends with its last run; units that a manager has claimed it begins and ends itself.
    """
    woken = sorted(runs.news)
    _each(connection, _WAKE_RUN, woken)
    _each(connection, _WAKE_UNIT.bindparams(bindparam("running", RUNNING)), woken)
    if woken:
        connection.execute(_SET_METHODS, {"node_id": node_id, "methods": newest.methods})
    gone = sorted(runs.gone) if runs.gone is not None else _scan(connection, node_id, newest.end_ns)
    _each(connection, _END_RUN, gone)
    told = _told_ends(connection, gone)
    if told:
        connection.execute(_END_EARLIER, told)
    _each(connection, _END_UNIT.bindparams(bindparam("ended", ENDED)), gone)
    settle_owners_of_runs(connection, [*woken, *gone])


def _told_ends(connection: Connection, run_ids: Sequence[int]) -> list[dict[str, int]]:
    """Return the ends that nodes know to the second: a slot only says when a run was seen last."""
    runs, units = schema.unit_runs, schema.units
    query = (
        select(runs.c.id, units.c.labels)
        .join(units, units.c.id == runs.c.unit_id)
        .where(
            units.c.scope_node_id != 0,
            or_(*(units.c.labels.contains(f'"{label}"', autoescape=True) for label in END_LABELS)),
        )
    )
    found: list[dict[str, int]] = []
    for some in chunks(run_ids):
        for run_id, labels in connection.execute(query.where(runs.c.id.in_(some))):
            known = json.loads(labels)
            told = str(next((known[label] for label in END_LABELS if label in known), ""))
            if told.isdecimal() and len(told) <= 10:
                found.append({"run_id": run_id, "told_ns": int(told) * NANOSECONDS_PER_SECOND})
    return found


def _scan(connection: Connection, node_id: int, newest_end_ns: int) -> Sequence[int]:
    found = connection.execute(_SCAN_GONE, {"node_id": node_id, "newest_end_ns": newest_end_ns})
    return found.scalars().all()


def _each(connection: Connection, statement: object, run_ids: Sequence[int]) -> None:
    if run_ids:
        connection.execute(statement, [{"run_id": run_id} for run_id in run_ids])  # type: ignore[call-overload]
