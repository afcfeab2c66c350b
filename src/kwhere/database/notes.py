"""Which ended units were written about in their manager's own records, and which are to be."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, func, literal, select

from kwhere.database import bulk, schema
from kwhere.database.audit import record
from kwhere.database.bulk import Merge
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns
from kwhere.ledger.pages import ENERGY_COLUMN_NAMES

ACTOR = "server"
_units, _notes, _runs = schema.units.c, schema.written_notes.c, schema.unit_runs.c
_SLURMD = re.compile(r"@[0-9]+\.(?P<node>.+)")
_TEXT_LENGTH = 1000


class Outcome(StrEnum):
    """What became of a unit's note; only `waiting` and `failed` are looked at again."""

    WRITTEN = "written"
    LEFT = "left"
    EXCLUDED = "excluded"
    SUPERSEDED = "superseded"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NotableUnit:
    """An ended unit of a manager of which nothing is decided yet."""

    id: int
    unit: str
    run: str
    shown: str
    started_at: datetime
    ended_ns: int
    project: str | None
    placed: tuple[str, ...] | None
    """Where its manager placed it; None: it does not say."""
    attempts: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a unit's note."""

    unit: NotableUnit
    outcome: Outcome
    text: str | None = None
    """What stands there since."""
    before: str | None = None
    """What stood there, where it was changed: then it is audited."""
    error: str | None = None
    next_ns: int | None = None


def notable_units(
    engine: Engine, cluster_id: int, manager: str, ended: tuple[int, int], now_ns: int, limit: int
) -> list[NotableUnit]:
    """Return units that ended within [start, end) UTC ns and of which nothing is decided, or whose time has come.

    Of `limit` half at most are such that were looked at before: they must not keep out the others.
    """
    due = _query(cluster_id, manager).where(_notes.next_ns.is_not(None), _notes.next_ns <= now_ns)
    fresh = _query(cluster_id, manager).where(
        _notes.unit_id.is_(None), _units.ended_ns >= ended[0], _units.ended_ns < ended[1]
    )
    with engine.connect() as connection:
        rows = [*connection.execute(due.order_by(_notes.next_ns, _units.id).limit(limit // 2))]
        rows += connection.execute(fresh.order_by(_units.ended_ns, _units.id).limit(limit - len(rows)))
    return [_notable(row) for row in rows]


def _query(cluster_id: int, manager: str) -> Select[Any]:
    return (
        select(
            _units.id,
            _units.unit,
            _units.run,
            _units.labels,
            _units.started_ns,
            _units.ended_ns,
            _units.placed_nodes,
            schema.projects.c.name.label("project"),
            _notes.attempts,
        )
        .outerjoin(schema.written_notes, _notes.unit_id == _units.id)
        .outerjoin(schema.projects, schema.projects.c.id == _units.project_id)
        .where(
            _units.cluster_id == cluster_id,
            _units.manager == manager,
            _units.scope_node_id == 0,
            _units.ended_ns.is_not(None),
        )
    )


def _notable(row: Any) -> NotableUnit:
    labels = json.loads(row.labels) if row.labels else {}
    return NotableUnit(
        id=row.id,
        unit=row.unit,
        run=row.run,
        shown=str(labels.get("job") or row.unit),
        started_at=from_ns(row.started_ns),
        ended_ns=row.ended_ns,
        project=row.project,
        placed=None if row.placed_nodes is None else tuple(json.loads(row.placed_nodes)),
        attempts=row.attempts or 0,
    )


def is_accounted(engine: Engine, unit: NotableUnit) -> bool:
    """Return whether every node of a unit has reported all of it, and its energy and emissions are summed up."""
    nodes = schema.nodes.c
    runs = select(_runs.id, _runs.run, _runs.ended_ns, nodes.name, nodes.newest_end_ns).join(
        schema.nodes, nodes.id == _runs.node_id
    )
    with engine.connect() as connection:
        rows = connection.execute(runs.where(_runs.unit_id == unit.id)).all()
        if not rows or any(row.ended_ns is None or (row.newest_end_ns or 0) < unit.ended_ns for row in rows):
            return False
        # Several slurmd on one host are nodes of their own to their manager.
        seen = {(row.name, found["node"] if (found := _SLURMD.search(row.run)) else "") for row in rows}
        if unit.placed is not None and len(seen) < len(unit.placed):
            return False
        ids = [row.id for row in rows]
        return _energy(connection, schema.run_totals, ids) == _energy(connection, schema.usage_hour, ids)


def _energy(connection: Connection, table: Table, run_ids: Sequence[int]) -> int:
    """Return what stands in a table of some runs, microjoules. Emissions are made of hours, with them."""
    one = sum((func.coalesce(table.c[name], 0) for name in ENERGY_COLUMN_NAMES), start=literal(0))
    found = connection.execute(select(func.sum(one)).where(table.c.unit_run_id.in_(run_ids))).scalar_one()
    return int(found or 0)


def write_decisions(engine: Engine, subject: str, decisions: Sequence[Decision], now_ns: int) -> None:
    """Keep what became of units; what was changed outside is audited under `subject`, in the same transaction."""
    columns = ("outcome", "text", "error", "attempts", "changed_ns", "next_ns")
    rows: list[bulk.Row] = [
        (
            each.unit.id,
            str(each.outcome),
            each.text,
            None if each.error is None else each.error[:_TEXT_LENGTH],
            each.unit.attempts + (each.outcome is Outcome.FAILED),
            now_ns,
            each.next_ns,
        )
        for each in decisions
    ]
    with writing(engine).begin() as connection:
        bulk.upsert(connection, schema.written_notes, ("unit_id",), dict.fromkeys(columns, Merge.NEW), rows)
        for each in decisions:
            if each.before is not None:
                detail = {"text": each.text, "before": each.before}
                record(connection, now_ns, ACTOR, "unit.note", f"{subject}/{each.unit.run}", detail)
