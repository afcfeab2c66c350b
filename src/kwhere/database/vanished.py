"""Units that their manager lost: purged, runaway, deleted while nobody listened.

Nobody saw them end. They end when they were last heard of, by an agent or by their manager, and their state says so:
`vanished`. Where an agent tells more of one later, its end moves there; where its manager tells of it again, its word
stands.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Engine, Select, select, update

from kwhere.core.managed import ManagerUnit
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import bulk, schema
from kwhere.database.chunks import chunks
from kwhere.database.claims import ClaimTurn
from kwhere.database.ended_owners import settle_owners
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns, to_ns

VANISHED = "vanished"
GRACE_NS = 300 * NANOSECONDS_PER_SECOND
"""A manager may list a unit a little later than it starts it."""
_FOLLOWED_NS = 14 * 86_400 * NANOSECONDS_PER_SECOND
"""So long an agent that was cut off may still tell of the past."""
_units, _totals = schema.units.c, schema.unit_totals.c


@dataclass(frozen=True, slots=True)
class Living:
    """What a manager knows as begun, and when it was asked."""

    asked_ns: int
    heard_ns: int | None
    """When it was asked before: what was open then lived then."""
    units: Collection[str] = ()
    runs: Collection[tuple[str, str]] | None = None
    """Unit and run of each, where the manager tells runs apart."""
    seen_ns: Mapping[str, int] = field(default_factory=dict)
    """When units were there last that it knew less of than `heard_ns` says."""

    def has_lost(self, unit: str, run: str, started_ns: int) -> bool:
        """Return whether a unit that is said to run is not among them."""
        if self.runs is not None:  # a list of one moment has no grace: nobody asks again
            return (unit, run) not in self.runs
        return started_ns <= self.asked_ns - GRACE_NS and unit not in self.units


def settle(
    connection: Connection, turn: ClaimTurn, living: Living, units: Sequence[ManagerUnit]
) -> Sequence[ManagerUnit]:
    """Return units with those ended that their manager still calls running although it no longer has them."""
    lost = [u for u in units if u.ended_at is None and living.has_lost(u.unit, u.run, to_ns(u.started_at))]
    if not lost:
        return units
    ends = _ends(connection, turn, living, {unit.unit for unit in lost})
    ended = {
        (unit.unit, unit.run): replace(
            unit, state=VANISHED, ended_at=from_ns(ends.get((unit.unit, unit.run), to_ns(unit.started_at)))
        )
        for unit in lost
    }
    return [ended.get((unit.unit, unit.run), unit) for unit in units]


def _ends(
    connection: Connection, turn: ClaimTurn, living: Living, units: Collection[str]
) -> Mapping[tuple[str, str], int]:
    """Return when units that are written already were last heard of."""
    found: dict[tuple[str, str], int] = {}
    for some in chunks(sorted(units)):
        query = _said(turn).where(_units.unit.in_(some))
        for row in connection.execute(query):
            # One that had vanished before was not heard of since.
            found[row.unit, row.run] = _last_ns(row.started_ns, row.newest_end_ns, row.ended_ns or living.heard_ns)
    return found


def _said(turn: ClaimTurn) -> Select[Any]:
    joined = schema.units.outerjoin(schema.unit_totals, _totals.unit_id == _units.id)
    return (
        select(_units.id, _units.unit, _units.run, _units.started_ns, _units.ended_ns, _totals.newest_end_ns)
        .select_from(joined)
        .where(_units.cluster_id == turn.cluster_id, _units.manager == turn.manager, _units.scope_node_id == 0)
    )


def _last_ns(started_ns: int, *heard: int | None) -> int:
    return max([started_ns, *(at_ns for at_ns in heard if at_ns is not None)])


def end_vanished(engine: Engine, turn: ClaimTurn, living: Living, unread: Collection[str] = ()) -> int:
    """End the units that are written as running and that their manager no longer has; return how many.

    `unread`: ids of units that are there and could not be read.
    """
    with writing(engine).begin() as connection:
        _follow(connection, turn)
        ended = [
            (
                row.id,
                VANISHED,
                _last_ns(row.started_ns, row.newest_end_ns, living.seen_ns.get(row.unit, living.heard_ns)),
            )
            for row in connection.execute(_said(turn).where(_units.ended_ns.is_(None)))
            if row.unit not in unread and living.has_lost(row.unit, row.run, row.started_ns)
        ]
        rows: list[bulk.Row] = [*ended]
        bulk.update(
            connection,
            schema.units,
            ("id", "state", "ended_ns"),
            {"state": "v.state", "ended_ns": "v.ended_ns"},
            "units.id = v.id AND units.ended_ns IS NULL",
            rows,
        )
        settle_owners(connection, [unit_id for unit_id, _, _ in ended])
    return len(rows)


def _follow(connection: Connection, turn: ClaimTurn) -> None:
    """Let the end of those that vanished move to what agents told since."""
    newest = select(_totals.newest_end_ns).where(_totals.unit_id == _units.id).scalar_subquery()
    connection.execute(
        update(schema.units)
        .where(
            _units.ended_ns > turn.now_ns - _FOLLOWED_NS,
            _units.cluster_id == turn.cluster_id,
            _units.manager == turn.manager,
            _units.state == VANISHED,
            _units.scope_node_id == 0,
            newest > _units.ended_ns,
        )
        .values(ended_ns=newest)
    )
