"""Which units a list shows, and by which index they are best found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Connection, Select, and_, func, literal_column, or_, select, union_all

from kwhere.core.managed import AT_REST
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import to_ns
from kwhere.database.identities import RUNNING
from kwhere.database.reading.host_names import named_nodes
from kwhere.database.reading.job_filters import job_arms
from kwhere.database.records import UnitQuery
from kwhere.database.visibility import Sight

FEW = 10_000
"""So many units are sorted faster than a long index is walked for them."""
MANY = 100_000
"""Up to so many are sorted by a figure all the same: its index may hold them last of all, minutes away."""
_units = schema.units.c
ESCAPE = "\\"
IS_AWAKE: ColumnElement[bool] = _units.state.not_in(sorted(AT_REST))
"""Whether a unit that has not ended runs: it may be shut off."""
RUNS: ColumnElement[bool] = and_(_units.ended_ns.is_(None), IS_AWAKE)
_HAS_SHORT_NAME: ColumnElement[bool] = literal_column(f"length(units.name) <= {schema.NAME_INDEXED}", Boolean)
"""As `ix_units_name` has it."""


def cluster_ids(connection: Connection, name: str | None) -> list[int]:
    """Return the id of the cluster of that name, or those of all."""
    clusters = schema.clusters.c
    query = select(clusters.id).order_by(clusters.id)
    return list(connection.execute(query if name is None else query.where(clusters.name == name)).scalars())


def conditions(connection: Connection, query: UnitQuery) -> list[ColumnElement[bool]]:
    """Return what each unit of the list fulfils."""
    # A sum is no column of an index: which index serves is `candidates`' choice alone.
    owners = [(column + 0).in_(ids) for column, ids in asked_owners(connection, query)]
    found = [*_plain(connection, query), *owners]
    if query.node is not None:
        found.append(_units.id.in_(_on_node(connection, query, query.node)))
    if query.span is not None:
        found.append(_within(query.span, running=query.running))
    return found


def _within(span: Span, *, running: bool) -> ColumnElement[bool]:
    is_live, began = _units.ended_ns.is_(None), _units.started_ns < to_ns(span.end)
    ended = and_(began, _units.ended_ns > to_ns(span.start))
    return or_(is_live if running else and_(is_live, began), ended)


def _plain(connection: Connection, query: UnitQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.cluster is not None:
        found.append(_units.cluster_id.in_(cluster_ids(connection, query.cluster)))
    if query.manager is not None:
        found.append(_units.manager == query.manager)
    if query.states:
        found.append(or_(*(_state(word) for word in query.states)))
    if query.queue is not None:
        found.append(_units.queue == query.queue)
    if query.jobs is not None:
        found.append(or_(*job_arms(connection, query.jobs, cluster_ids(connection, query.cluster))))
    if query.name is not None:
        found.append(_units.name == query.name)
    if query.q:
        found.append(_holds(query.q))
    return found


def _holds(words: str) -> ColumnElement[bool]:
    return _units.search.like(f"%{escaped(words.lower())}%", escape=ESCAPE)


def _state(state: str) -> ColumnElement[bool]:
    if state == "running":
        return RUNS
    if state == "ended":
        return _units.ended_ns.is_not(None)
    return _units.state == state


def escaped(words: str) -> str:
    """Return words as a pattern of LIKE that stands for them alone; `ESCAPE` is its escape."""
    return words.replace(ESCAPE, ESCAPE * 2).replace("%", f"{ESCAPE}%").replace("_", f"{ESCAPE}_")


def asked_owners(connection: Connection, query: UnitQuery) -> list[tuple[ColumnElement[int], list[int]]]:
    """Return the ids of the user and of the project that a query names, each with its column of `units`."""
    return [
        (column, _account_ids(connection, table, query.cluster, name))
        for column, table, name in (
            (_units.user_id, schema.users, query.user),
            (_units.project_id, schema.projects, query.project),
        )
        if name is not None
    ]


def _account_ids(connection: Connection, table: Any, cluster: str | None, name: str) -> list[int]:
    wanted = select(table.c.id).where(table.c.cluster_id.in_(cluster_ids(connection, cluster)), table.c.name == name)
    return list(connection.execute(wanted).scalars())


def _on_node(connection: Connection, query: UnitQuery, node: str) -> Select[tuple[int]]:
    runs, node_ids = schema.unit_runs.c, named_nodes(connection, node, cluster_ids(connection, query.cluster))
    wanted = select(runs.unit_id).where(runs.node_id.in_(node_ids), runs.unit_id.is_not(None))
    return wanted.where(runs.ended_ns.is_(None)) if query.states == (RUNNING,) else wanted


def candidates(
    connection: Connection, query: UnitQuery, sight: Sight, most: int = FEW
) -> Sequence[int] | Select[tuple[int]] | None:
    """Return the ids that the narrowest of the indexes holds, where it has `most` or fewer; None: none has so few."""
    few = _narrowest(connection, _narrowings(connection, query, sight), most)
    return _matches(connection, query.q) if few is None and query.q else few


def beside_owners(connection: Connection, query: UnitQuery, most: int) -> Select[tuple[int]] | None:
    """Return such ids by what a query asks beside owners, span and states."""
    return _narrowest(connection, _plain_narrowings(connection, replace(query, states=())), most)


def _narrowest(
    connection: Connection, narrowings: Sequence[Select[tuple[int]]], most: int
) -> Select[tuple[int]] | None:
    counted = [(count_up_to(connection, ids, most), at) for at, ids in enumerate(narrowings)]
    few = [(count, at) for count, at in counted if count <= most]
    return narrowings[min(few)[1]] if few else None


def _matches(connection: Connection, words: str) -> Sequence[int] | None:
    """Reading all units in their own order for a rare word costs a third of doing so in the order of the sort."""
    found = connection.execute(select(_units.id).where(_holds(words)).limit(FEW + 1)).scalars().all()
    return found if len(found) <= FEW else None


def count_up_to(connection: Connection, ids: Select[tuple[int]], most: int) -> int:
    """Return how many ids there are, at most one more than `most`."""
    bounded = ids.limit(most + 1).subquery()
    return int(connection.execute(select(func.count()).select_from(bounded)).scalar_one())


def _narrowings(connection: Connection, query: UnitQuery, sight: Sight) -> Sequence[Select[tuple[int]]]:
    ids = select(_units.id)
    found = [ids.where(column.in_(owner_ids)) for column, owner_ids in asked_owners(connection, query)]
    if not sight.everything:
        # Two arms, each by its index, as below.
        arms = union_all(*(ids.where(column.in_(owned)) for column, owned in sight.owners())).subquery()
        found.append(select(arms.c.id))
    if query.states == (RUNNING,):
        found.append(ids.where(_units.ended_ns.is_(None)))
    if query.span is not None:
        start_ns = to_ns(query.span.start)
        # Two arms, each by its index: an OR over both would be found by neither.
        arms = union_all(ids.where(_units.ended_ns.is_(None)), ids.where(_units.ended_ns > start_ns)).subquery()
        found.append(select(arms.c.id))
    return [*found, *_plain_narrowings(connection, query)]


def _plain_narrowings(connection: Connection, query: UnitQuery) -> Sequence[Select[tuple[int]]]:
    ids = select(_units.id)
    found: list[Select[tuple[int]]] = []
    if query.jobs is not None:
        named = job_arms(connection, query.jobs, cluster_ids(connection, query.cluster))
        arms = union_all(*(ids.where(arm) for arm in named)).subquery()
        found.append(select(arms.c.id))
    if query.name is not None and len(query.name) <= schema.NAME_INDEXED:
        found.append(ids.where(_units.name == query.name, _HAS_SHORT_NAME))
    if query.node is not None:
        found.append(_on_node(connection, query, query.node))
    if query.manager is not None:
        clusters = cluster_ids(connection, query.cluster)
        found.append(ids.where(_units.cluster_id.in_(clusters), _units.manager == query.manager))
    return found
