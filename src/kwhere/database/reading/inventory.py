"""What the inventory says of nodes and racks, and the directory of people; several sources are read as one."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, case, func, select

from kwhere.database import schema
from kwhere.database.inventory_records import PersonRecord, RackRecord
from kwhere.database.node_facts import FACT_NAMES, ListedNode, NodeFacts, facts_of
from kwhere.database.node_names import short_name
from kwhere.database.node_states import NodeTimes, state_of
from kwhere.database.reading.figures import balance_total
from kwhere.database.reading.site import Moment, left_out_nodes
from kwhere.database.records import NodeState

Key = tuple[str, str]
"""Cluster and name."""
_MOST_NAMED = 500
_sources, _listed = schema.inventory_sources.c, schema.inventory_nodes.c
_racks, _people = schema.inventory_racks.c, schema.directory_people.c
_nodes, _clusters, _users = schema.nodes.c, schema.clusters.c, schema.users.c


def facts_by_node(connection: Connection, nodes: Collection[Key]) -> Mapping[Key, NodeFacts]:
    """Return what the inventory says of each of these nodes."""
    query = select(
        _sources.position, _listed.cluster, _listed.node, _listed.short, *(_listed[name] for name in FACT_NAMES)
    ).join(schema.inventory_sources, _sources.source == _listed.source)
    shorts = {short_name(node) for _, node in nodes}
    if len(shorts) <= _MOST_NAMED:
        query = query.where(_listed.short.in_(sorted(shorts)))
    rows: dict[str, list[ListedNode]] = defaultdict(list)
    for position, cluster, node, short, *facts in connection.execute(query):
        rows[short].append(ListedNode(position, cluster, node, NodeFacts(*facts)))
    return {(cluster, node): facts_of(cluster, node, rows.get(short_name(node), ())) for cluster, node in nodes}


def list_racks(moment: Moment, cluster: str | None = None) -> tuple[RackRecord, ...]:
    """Return the racks that have nodes here, by cluster and name. Raises NotPermitted."""
    moment.sight.demand_site("racks")
    query = select(
        *(_nodes[name] for name in ("id", "name", "newest_slot_ns", *NodeTimes._fields)),
        _clusters.name.label("cluster"),
        _energy_uj().label("energy_uj"),
    ).join(schema.clusters, _clusters.id == _nodes.cluster_id)
    if cluster is not None:
        query = query.where(_clusters.name == cluster)
    rows = moment.connection.execute(query).all()
    facts = facts_by_node(moment.connection, [(row.cluster, row.name) for row in rows])
    left_out, limits = left_out_nodes(moment.connection), _rack_limits(moment.connection)
    members: dict[Key, list[tuple[Any, NodeFacts]]] = defaultdict(list)
    for row in rows:
        found = facts[row.cluster, row.name]
        if found.rack is not None and row.id not in left_out:
            members[row.cluster, found.rack].append((row, found))
    return tuple(
        _rack(moment, key, held, limits.get(key, limits.get(("", key[1])))) for key, held in sorted(members.items())
    )


def _rack(moment: Moment, key: Key, held: list[tuple[Any, NodeFacts]], limit: float | None) -> RackRecord:
    states = [
        state_of(NodeTimes(*(getattr(row, name) for name in NodeTimes._fields)), moment.now_ns) for row, _ in held
    ]
    here = [(row, facts, state) for (row, facts), state in zip(held, states, strict=True)]
    expected = [each for each in here if each[2] is not NodeState.RETIRED]
    powers = [_power_uw(row) for row, _, state in expected if state is NodeState.UP]
    known = [power for power in powers if power is not None]
    own = [facts.power_limit_watts for _, facts, _ in expected]
    told = [watts for watts in own if watts is not None]
    is_summed = limit is None and bool(told) and len(told) == len(own)
    return RackRecord(
        *key,
        nodes=len(expected),
        up=sum(state is NodeState.UP for _, _, state in expected),
        power_uw=sum(known) if known else None,
        limit_watts=sum(told) if is_summed else limit,
        is_limit_summed=is_summed,
    )


def _energy_uj() -> ColumnElement[int]:
    """Return the energy of a node's newest slot; null where no component was measured."""
    columns = [_nodes[name] for name in schema.BALANCE_COLUMNS]
    return case((func.coalesce(*columns).is_not(None), balance_total(schema.nodes)))


def _power_uw(row: Row[Any]) -> int | None:
    if row.energy_uj is None or not row.newest_slot_ns:
        return None
    return int(row.energy_uj * 1_000_000_000 // row.newest_slot_ns)


def _rack_limits(connection: Connection) -> dict[Key, float]:
    query = (
        select(_racks.cluster, _racks.rack, _racks.power_limit_watts)
        .join(schema.inventory_sources, _sources.source == _racks.source)
        .where(_racks.power_limit_watts.is_not(None))
        .order_by(_sources.position)
    )
    found: dict[Key, float] = {}
    for row in connection.execute(query):
        found.setdefault((row.cluster, row.rack), row.power_limit_watts)
    return found


def find_people(moment: Moment, user: str, cluster: str | None = None) -> Mapping[str, PersonRecord]:
    """Return what the directory says of a user, by cluster; only of those the asker may know about: all, or oneself."""
    query = (
        select(_users.id, _clusters.name.label("cluster"))
        .join(schema.clusters, _clusters.id == _users.cluster_id)
        .where(_users.name == user)
    )
    if cluster is not None:
        query = query.where(_clusters.name == cluster)
    sight = moment.sight
    clusters = [row.cluster for row in moment.connection.execute(query) if sight.everything or row.id in sight.user_ids]
    rows = moment.connection.execute(
        select(schema.directory_people)
        .join(schema.inventory_sources, _sources.source == _people.source)
        .where(_people.user_name == user)
        .order_by(_sources.position, _people.cluster.desc())
    ).all()
    said = {each: [row for row in rows if row.cluster in ("", each)] for each in clusters}
    return {each: _person(each, user, held) for each, held in said.items() if held}


def _person(cluster: str, user: str, rows: list[Row[Any]]) -> PersonRecord:
    """The first source that says a thing counts; who opted out anywhere is left alone."""

    def first(name: str) -> str | None:
        return next((value for row in rows if (value := getattr(row, name)) is not None), None)

    opted_out = any(row.opted_out for row in rows)
    return PersonRecord(cluster, user, first("full_name"), first("mail"), first("language"), opted_out)
