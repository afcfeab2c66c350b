"""Runs on nodes become parts of their manager's unit: usage stays where it is, the owner and the sums change."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Select, bindparam, delete, func, or_, select, text, update

from kwhere.core.terms import EntryKind, Flag
from kwhere.database import schema
from kwhere.database.account_marks import mark_runs
from kwhere.database.claim_rules import CLAIMED, PATIENCE_NS, UNVERIFIED, Candidate, OpenRun, Verdict, judge
from kwhere.database.derived import sum_units
from kwhere.database.emissions import EMISSIONS
from kwhere.database.ended_owners import settle_owners
from kwhere.database.engine import POSTGRESQL, writing
from kwhere.database.flags import to_bits
from kwhere.database.site_figures import FIGURES
from kwhere.database.totals import sum_unit_totals

BATCH = 500
_runs, _units, _nodes, _totals = schema.unit_runs.c, schema.units.c, schema.nodes.c, schema.run_totals.c
_UNVERIFIED_BIT = to_bits([Flag.UNVERIFIED])


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """What a look at open runs came to; what was unverified before does not count again."""

    claimed: int = 0
    unverified: int = 0
    unclaimed: int = 0

    def plus(self, other: "ClaimCounts") -> "ClaimCounts":
        """Return the sum."""
        return ClaimCounts(
            self.claimed + other.claimed, self.unverified + other.unverified, self.unclaimed + other.unclaimed
        )


@dataclass(frozen=True, slots=True)
class ClaimTurn:
    """Whose runs are looked at, and when."""

    cluster_id: int
    manager: str
    now_ns: int


def claim_waiting(engine: Engine, turn: ClaimTurn, goes_on: Callable[[], bool]) -> ClaimCounts:
    """Look at every open run that is still waited for, in batches, each a transaction of its own."""
    is_recent = or_(_runs.unclaimed_since_ns.is_(None), _runs.unclaimed_since_ns > turn.now_ns - PATIENCE_NS)
    # One that nobody has judged yet is looked at once more when its time is over.
    return _in_batches(engine, turn, or_(_runs.claim.is_(None), is_recent), goes_on)


def claim_units(connection: Connection, turn: ClaimTurn, units: Collection[str]) -> ClaimCounts:
    """Look at open runs of these units, however old: their manager has just spoken of them."""
    counts = ClaimCounts()
    words = sorted(set(units))
    for at in range(0, len(words), BATCH):
        named = _runs.unit.in_(words[at : at + BATCH])
        counts = counts.plus(_settle(connection, turn, _open_runs(connection, turn, named, 0, None)))
    return counts


def oldest_waiting(engine: Engine, turn: ClaimTurn) -> int | None:
    """Return when the oldest run was created that is waited for; None: none waits."""
    since_ns = turn.now_ns - PATIENCE_NS
    query = (
        select(func.min(_runs.started_ns))
        .join(schema.nodes, _nodes.id == _runs.node_id)
        .where(
            _nodes.cluster_id == turn.cluster_id,
            _runs.manager == turn.manager,
            _runs.kind == str(EntryKind.UNIT),
            or_(_runs.claim.is_(None), _runs.claim != CLAIMED),
            or_(_runs.unclaimed_since_ns.is_(None), _runs.unclaimed_since_ns > since_ns),
            _runs.started_ns > since_ns - PATIENCE_NS,
        )
    )
    with engine.connect() as connection:
        found: int | None = connection.execute(query).scalar_one()
    return found


def _in_batches(
    engine: Engine, turn: ClaimTurn, which: ColumnElement[bool], goes_on: Callable[[], bool]
) -> ClaimCounts:
    counts, after = ClaimCounts(), 0
    while goes_on():
        with writing(engine).begin() as connection:
            found = _open_runs(connection, turn, which, after, BATCH)
            counts = counts.plus(_settle(connection, turn, found))
        if len(found) < BATCH:
            break
        after = found[-1].id
    return counts


def _open_runs(
    connection: Connection, turn: ClaimTurn, which: ColumnElement[bool], after: int, limit: int | None
) -> list[OpenRun]:
    query: Select[Any] = (
        select(
            _runs.id,
            _runs.unit,
            _runs.run,
            _runs.node_name,
            _nodes.name,
            _runs.started_ns,
            _runs.unclaimed_since_ns,
            _runs.claim,
        )
        .join(schema.nodes, _nodes.id == _runs.node_id)
        .where(
            _nodes.cluster_id == turn.cluster_id,
            _runs.manager == turn.manager,
            _runs.kind == str(EntryKind.UNIT),
            or_(_runs.claim.is_(None), _runs.claim != CLAIMED),
            _runs.id > after,
            which,
        )
        .order_by(_runs.id)
    )
    return [
        OpenRun(run_id, unit, run, (node_name,) if node_name else (node,), started_ns, since_ns, claim == UNVERIFIED)
        for run_id, unit, run, node_name, node, started_ns, since_ns, claim in connection.execute(query.limit(limit))
    ]


def _settle(connection: Connection, turn: ClaimTurn, runs: Sequence[OpenRun]) -> ClaimCounts:
    if not runs:
        return ClaimCounts()
    candidates = _candidates(connection, turn, {run.unit for run in runs})
    verdicts = [(run, judge(run, candidates.get(run.unit, ()), turn.now_ns)) for run in runs]
    claimed = [(run, verdict) for run, verdict in verdicts if verdict.claim == CLAIMED]
    unverified = [run for run, verdict in verdicts if verdict.claim == UNVERIFIED and not run.is_doubted]
    unclaimed = [run for run, verdict in verdicts if verdict.claim is None]
    _lock_nodes(connection, [run.id for run in (*unverified, *(run for run, _ in claimed))])
    _claim(connection, claimed)
    _refuse(connection, unverified)
    _note_wait(connection, turn.now_ns, [*unverified, *unclaimed])
    return ClaimCounts(len(claimed), len(unverified), len(unclaimed))


def _candidates(connection: Connection, turn: ClaimTurn, units: Collection[str]) -> dict[str, list[Candidate]]:
    query = select(_units.id, _units.unit, _units.run, _units.started_ns, _units.ended_ns, _units.placed_nodes).where(
        _units.cluster_id == turn.cluster_id,
        _units.manager == turn.manager,
        _units.scope_node_id == 0,
        _units.unit.in_(sorted(units)),
    )
    found: dict[str, list[Candidate]] = defaultdict(list)
    for unit_id, unit, run, started_ns, ended_ns, nodes in connection.execute(query):
        placed = None if nodes is None else tuple(json.loads(nodes))
        found[unit].append(Candidate(unit_id, unit, run, started_ns, ended_ns, placed))
    return found


def _lock_nodes(connection: Connection, run_ids: Sequence[int]) -> None:
    """Keep pages of these nodes from being booked meanwhile: a page begins with its node's row.

    SQLite has one writer anyhow.
    """
    if run_ids and connection.dialect.name == POSTGRESQL:
        nodes = select(_runs.node_id).where(_runs.id.in_(run_ids))
        connection.execute(select(_nodes.id).where(_nodes.id.in_(nodes)).order_by(_nodes.id).with_for_update())


_MOVE = text("UPDATE unit_runs SET unit_id = :unit_id, claim = :claim WHERE id = :run_id")
_VERIFY = text(
    "UPDATE run_totals SET flags = flags - :bit WHERE unit_run_id = :run_id AND (flags & :bit) = :bit"
).bindparams(bindparam("bit", _UNVERIFIED_BIT))
_DOUBT = text("UPDATE run_totals SET flags = flags | :bit WHERE unit_run_id = :run_id").bindparams(
    bindparam("bit", _UNVERIFIED_BIT)
)


def _claim(connection: Connection, claimed: Sequence[tuple[OpenRun, Verdict]]) -> None:
    if not claimed:
        return
    run_ids = [run.id for run, _ in claimed]
    before = _unit_ids(connection, run_ids)
    connection.execute(
        _MOVE, [{"run_id": run.id, "unit_id": verdict.unit_id, "claim": verdict.claim} for run, verdict in claimed]
    )
    mark_runs(connection, run_ids)
    connection.execute(_VERIFY, [{"run_id": run_id} for run_id in run_ids])
    _drop_empty(connection, before)
    owners = sorted({verdict.unit_id for _, verdict in claimed if verdict.unit_id is not None})
    connection.execute(
        update(schema.units).where(_units.id.in_(owners), _units.is_reported.is_(False)).values(is_reported=True)
    )
    _begin_with_runs(connection, owners)
    sum_unit_totals(connection, owners)
    for book in (EMISSIONS, FIGURES):
        sum_units(connection, book, owners)


def _begin_with_runs(connection: Connection, owners: Sequence[int]) -> None:
    """A unit whose id is unique for ever ran before its manager saw it where a node says so."""
    first = select(func.min(_runs.started_ns)).where(_runs.unit_id == _units.id).scalar_subquery()
    late = update(schema.units).where(_units.id.in_(owners), _units.run == _units.unit, first < _units.started_ns)
    connection.execute(late.values(started_ns=first))


def _unit_ids(connection: Connection, run_ids: Sequence[int]) -> list[int]:
    query = select(_runs.unit_id).where(_runs.id.in_(run_ids), _runs.unit_id.is_not(None)).distinct()
    return [unit_id for unit_id in connection.execute(query).scalars() if unit_id is not None]


def _drop_empty(connection: Connection, unit_ids: Iterable[int]) -> None:
    """A node's own unit has that node's run alone: without it nothing is left of it."""
    ids = sorted(unit_ids)
    kept = select(_runs.unit_id).where(_runs.unit_id.in_(ids))
    empty = [*connection.execute(select(_units.id).where(_units.id.in_(ids), _units.id.not_in(kept))).scalars()]
    for table in (schema.unit_totals, schema.unit_emissions, schema.unit_figures):
        connection.execute(delete(table).where(table.c.unit_id.in_(empty)))
    connection.execute(delete(schema.units).where(_units.id.in_(empty)))


def _refuse(connection: Connection, runs: Sequence[OpenRun]) -> None:
    """Charge them to nobody, whatever their node says."""
    if not runs:
        return
    ids = [run.id for run in runs]
    connection.execute(update(schema.unit_runs).where(_runs.id.in_(ids)).values(claim=UNVERIFIED))
    mark_runs(connection, ids)
    connection.execute(_DOUBT, [{"run_id": run_id} for run_id in ids])
    nobody = {"user_id": None, "project_id": None, "search": func.lower(_units.unit)}
    unit_ids = _unit_ids(connection, ids)
    connection.execute(update(schema.units).where(_units.id.in_(unit_ids), _units.scope_node_id != 0).values(nobody))
    settle_owners(connection, unit_ids)


def _note_wait(connection: Connection, now_ns: int, runs: Sequence[OpenRun]) -> None:
    new = [run.id for run in runs if run.unclaimed_since_ns is None]
    if new:
        connection.execute(update(schema.unit_runs).where(_runs.id.in_(new)).values(unclaimed_since_ns=now_ns))
