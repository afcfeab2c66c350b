"""What waits in a manager's queue: written whole at each look, for what waits no longer has started or is gone."""

import json
from collections.abc import Iterable, Mapping

from sqlalchemy import Engine, delete, update

from kwhere.core.managed import WaitingUnit
from kwhere.database import bulk, schema
from kwhere.database.claims import ClaimTurn
from kwhere.database.engine import writing
from kwhere.database.grid import to_ns
from kwhere.database.identities import ensure_accounts
from kwhere.database.storable import ACCOUNT_LENGTH, MOST_COUNTED, STATE_LENGTH, TEXT_LENGTH, bounded, cut, fits

_COLUMNS = (
    *("cluster_id", "manager", "unit", "state", "name", "user_id", "project_id", "user_group", "queue", "reason"),
    *("labels", "submitted_ns", "expected_start_ns", "priority", "asked_cpus", "asked_memory_bytes", "asked_gpus"),
    *("asked_nodes", "tasks", "seen_ns"),
)
_LONGEST = 512


def write_queue(engine: Engine, turn: ClaimTurn, waiting: Iterable[WaitingUnit]) -> int:
    """Replace what a manager's queue holds, and note when it was read; return how many."""
    latest = {unit.unit: unit for unit in waiting if fits(unit.unit, _LONGEST)}
    table, states = schema.waiting_units, schema.manager_states
    with writing(engine).begin() as connection:
        users = ensure_accounts(connection, schema.users, turn.cluster_id, _named(latest, "user", turn))
        projects = ensure_accounts(connection, schema.projects, turn.cluster_id, _named(latest, "project", turn))
        mine = (table.c.cluster_id == turn.cluster_id) & (table.c.manager == turn.manager)
        connection.execute(delete(table).where(mine))
        bulk.insert(connection, table, _COLUMNS, [_row(turn, unit, users, projects) for unit in latest.values()])
        connection.execute(
            update(states)
            .where(states.c.cluster_id == turn.cluster_id, states.c.manager == turn.manager)
            .values(queue_ns=turn.now_ns)
        )
    return len(latest)


def _named(units: Mapping[str, WaitingUnit], field: str, turn: ClaimTurn) -> dict[str, int]:
    words = (cut(getattr(unit, field), ACCOUNT_LENGTH) for unit in units.values())
    return {word: turn.now_ns for word in words if word}


def _row(turn: ClaimTurn, unit: WaitingUnit, users: Mapping[str, int], projects: Mapping[str, int]) -> bulk.Row:
    asked = unit.asked
    tags = {cut(key, 255): cut(value, TEXT_LENGTH) for key, value in unit.tags.items()}
    return (
        *(turn.cluster_id, turn.manager, unit.unit, cut(unit.state, STATE_LENGTH) or "unknown"),
        cut(unit.name, TEXT_LENGTH),
        users.get(cut(unit.user, ACCOUNT_LENGTH) or ""),
        projects.get(cut(unit.project, ACCOUNT_LENGTH) or ""),
        *(cut(unit.group, 255), cut(unit.queue, 255), cut(unit.reason, TEXT_LENGTH)),
        json.dumps(tags, sort_keys=True) if tags else None,
        *(None if at is None else to_ns(at) for at in (unit.submitted_at, unit.expected_start_at)),
        *(unit.priority, asked.cpus, bounded(asked.memory_bytes), json.dumps(dict(asked.gpus), sort_keys=True)),
        *(bounded(asked.nodes, MOST_COUNTED), max(1, min(unit.tasks, MOST_COUNTED)), turn.now_ns),
    )
