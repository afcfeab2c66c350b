"""Users, projects and clusters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, case, func, null, select

from kwhere.database import schema
from kwhere.database.account_records import (
    AccountPage,
    AccountQuery,
    AccountRecord,
    AccountSort,
    ClusterRecord,
)
from kwhere.database.grid import HOUR_NS, from_ns
from kwhere.database.reading.figures import energy_total, shares
from kwhere.database.reading.keyset import Order, take_page
from kwhere.database.reading.node_list import NODE_COLUMNS, state_of_row
from kwhere.database.reading.seen_figures import seen_clusters
from kwhere.database.reading.site import Moment, left_out_nodes, left_out_of, reporting_sources, zones_by_cluster
from kwhere.database.reading.unit_filters import ESCAPE, RUNS, cluster_ids, escaped
from kwhere.database.records import NodeState

MOST = 1000
_units, _totals, _clusters = schema.units.c, schema.unit_totals.c, schema.clusters.c
_runs = schema.unit_runs.c


@dataclass(frozen=True, slots=True)
class _Held:
    """A part of an owner's lifetime totals."""

    energy_uj: int = 0
    grams: float = 0.0


_NOTHING = _Held()


def list_users(moment: Moment, query: AccountQuery) -> AccountPage:
    """Return one page of users. Raises BadCursor."""
    return _list(moment, schema.users, "user_id", query, moment.sight.users())


def list_projects(moment: Moment, query: AccountQuery) -> AccountPage:
    """Return one page of projects. Raises BadCursor."""
    return _list(moment, schema.projects, "project_id", query, moment.sight.projects())


def _list(
    moment: Moment, table: Table, owner: str, query: AccountQuery, seen: Sequence[ColumnElement[bool]]
) -> AccountPage:
    limit, words = max(1, min(query.limit, MOST)), table.c
    described = (words.description, words.parent) if owner == "project_id" else (null().label("description"),)
    statement = (
        select(words.id, _clusters.name.label("cluster"), words.name, words.last_seen_ns, *described)
        .join(schema.clusters, _clusters.id == words.cluster_id)
        .where(*seen, *_conditions(table, query))
    )
    # By name: cluster by cluster.
    column = _clusters.name if query.sort is AccountSort.NAME else _last_seen(moment, table, owner)
    order = Order(str(query.sort), column, (_clusters.name, words.name), query.descending)
    rows, after = take_page(moment.connection, statement, order, query.after, limit)
    ids = [row.id for row in rows]
    sums, grams = _sums(moment, owner, ids), _grams(moment, owner, ids)
    guests = _in_guests(moment, owner, ids, query.cluster)
    items = [_record(moment, row, sums.get(row.id), grams.get(row.id), guests.get(row.id, _NOTHING)) for row in rows]
    return AccountPage(tuple(items), after)


def _last_seen(moment: Moment, table: Table, owner: str) -> ColumnElement[int]:
    """Return when an account was seen last, to the hour, as an expression; what is not seen does not move it."""
    if moment.sight.everything:
        return table.c.last_seen_ns
    newest = func.coalesce(func.max(_totals.newest_end_ns), 0)
    units = schema.units.join(schema.unit_totals, _totals.unit_id == _units.id)
    query = select(newest - newest % HOUR_NS).select_from(units).where(_units[owner] == table.c.id)
    return query.where(*moment.sight.units()).correlate(table).scalar_subquery()


def _conditions(table: Table, query: AccountQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.cluster is not None:
        found.append(_clusters.name == query.cluster)
    if query.name is not None:
        found.append(table.c.name == query.name)
    if query.q:
        found.append(func.lower(table.c.name).like(f"%{escaped(query.q.lower())}%", escape=ESCAPE))
    if query.parent is not None:
        found.append(table.c.parent == query.parent)
    return found


def _sums(moment: Moment, owner: str, ids: Sequence[int]) -> dict[int, Any]:
    column = _units[owner]
    query = (
        select(
            column,
            func.count().label("units"),
            func.sum(case((RUNS, 1), else_=0)).label("running"),
            func.sum(_totals.energy_uj).label("energy_uj"),
            func.max(_totals.newest_end_ns).label("newest_end_ns"),
        )
        .select_from(schema.units)
        .outerjoin(schema.unit_totals, _totals.unit_id == _units.id)
        .where(column.in_(list(ids)), *moment.sight.units())
        .group_by(column)
    )
    return {row[0]: row for row in moment.connection.execute(query)}


def _grams(moment: Moment, owner: str, ids: Sequence[int]) -> dict[int, float]:
    """Return the reported grams of those owners' units; who has none is absent.

    Asked by themselves: joined to the sums, every unit's grams would have to be added up first, whoever's they are.
    """
    grams, column = schema.unit_emissions.c, _units[owner]
    query = (
        select(column, func.sum(grams.grams))
        .select_from(schema.units.join(schema.unit_emissions, grams.unit_id == _units.id))
        .where(column.in_(list(ids)), grams.source_id.in_(sorted(reporting_sources(moment.connection))))
        .where(*moment.sight.units())
        .group_by(column)
    )
    return {row[0]: row[1] for row in moment.connection.execute(query)}


def _in_guests(moment: Moment, owner: str, ids: Sequence[int], cluster: str | None) -> dict[int, _Held]:
    """Return what those owners' units used within guests: their hosts' rows hold it, under the machine's owner."""
    within = None if cluster is None else cluster_ids(moment.connection, cluster)
    left_out = sorted(left_out_of(moment, within))
    if not left_out:
        return {}
    days, column = schema.emissions_day.c, _units[owner]
    of_owner = (column.in_(list(ids)), _runs.node_id.in_(left_out), *moment.sight.units())
    runs = schema.unit_runs.join(schema.units, _units.id == _runs.unit_id)
    energy = func.sum(energy_total(schema.run_totals)).label("energy_uj")
    totals = runs.join(schema.run_totals, schema.run_totals.c.unit_run_id == _runs.id)
    emitted = runs.join(schema.emissions_day, days.unit_run_id == _runs.id)
    sources = sorted(reporting_sources(moment.connection))
    grams = select(column, func.sum(days.grams)).select_from(emitted).where(days.source_id.in_(sources), *of_owner)
    grams_of: dict[int, float] = {row[0]: row[1] for row in moment.connection.execute(grams.group_by(column))}
    query = select(column, energy).select_from(totals).where(*of_owner).group_by(column)
    return {row[0]: _Held(int(row[1]), grams_of.get(row[0], 0.0)) for row in moment.connection.execute(query)}


def _record(moment: Moment, row: Any, sums: Any, grams: float | None, in_guests: _Held) -> AccountRecord:
    return AccountRecord(
        cluster=row.cluster,
        name=row.name,
        units=0 if sums is None else sums.units,
        units_running=0 if sums is None else int(sums.running),
        energy_total_uj=0 if sums is None else int(sums.energy_uj or 0) - in_guests.energy_uj,
        emissions_grams=None if grams is None else max(0.0, grams - in_guests.grams),
        last_seen_at=from_ns(seen_ns) if (seen_ns := _last_seen_ns(moment, row, sums)) else None,
        description=row.description,
        parent=row._mapping.get("parent"),
    )


def _last_seen_ns(moment: Moment, row: Any, sums: Any) -> int:
    """Return when it was seen last, to the hour, 0: never; by who does not see all of it, within what they see."""
    if moment.sight.everything or sums is None:
        return int(row.last_seen_ns)
    return int(sums.newest_end_ns or 0) // HOUR_NS * HOUR_NS


def list_clusters(moment: Moment) -> tuple[ClusterRecord, ...]:
    """Return all clusters by name; to who does not see everything theirs."""
    if not moment.sight.everything:
        return seen_clusters(moment)
    nodes = schema.nodes
    zones = zones_by_cluster(moment.connection, moment.site)
    left_out = {cluster_id: left_out_nodes(moment.connection, {cluster_id}) for cluster_id in zones}
    live = select(_units.cluster_id, func.count()).where(RUNS).group_by(_units.cluster_id)
    running: dict[int, int] = {row[0]: row[1] for row in moment.connection.execute(live)}
    states: dict[int, Counter[NodeState]] = {}
    power: dict[int, float] = {}
    for row in moment.connection.execute(select(*NODE_COLUMNS, nodes.c.newest_slot_ns)):
        state = state_of_row(row, moment.now_ns)
        states.setdefault(row.cluster_id, Counter())[state] += 1
        if state is NodeState.UP and row.newest_slot_ns and row.id not in left_out[row.cluster_id]:
            energy_uj = sum(part.total_uj for part in shares(row._mapping).values())
            power[row.cluster_id] = power.get(row.cluster_id, 0.0) + energy_uj * 1e9 / row.newest_slot_ns
    rows = moment.connection.execute(select(_clusters.id, _clusters.name).order_by(_clusters.name))
    return tuple(
        ClusterRecord(
            cluster=row.name,
            nodes=sum(states.get(row.id, Counter()).values()),
            nodes_by_state=dict(states.get(row.id, Counter())),
            units_running=running.get(row.id, 0),
            power_uw=int(power[row.id]) if row.id in power else None,
            zone=zones.get(row.id),
        )
        for row in rows
    )
