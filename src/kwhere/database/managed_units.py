"""What resource managers say, written down: units, accounts, nodes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, select, update

from kwhere.core.managed import GROUP_TAGS, Accounts, ManagerAllocation, ManagerNode, ManagerUnit
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import bulk, schema
from kwhere.database.account_marks import mark_units
from kwhere.database.bulk import Merge
from kwhere.database.claims import ClaimCounts, ClaimTurn, claim_units
from kwhere.database.ended_owners import settle_owners
from kwhere.database.engine import writing
from kwhere.database.grid import to_ns
from kwhere.database.identities import ensure_accounts, search_text
from kwhere.database.storable import ACCOUNT_LENGTH, MOST_COUNTED, STATE_LENGTH, TEXT_LENGTH, bounded, cut, fits
from kwhere.database.sums import RunNames
from kwhere.database.vanished import Living, settle

_UNIT_KEY = ("cluster_id", "manager", "unit", "run", "scope_node_id")
_UNIT_MERGES = {
    **dict.fromkeys(("name", "user_id", "project_id", "labels", "search", "state"), Merge.NEW),
    **dict.fromkeys(("submitted_ns", "started_ns", "ended_ns"), Merge.NEW),
    **dict.fromkeys(("queue", "user_group", "placed_nodes"), Merge.NEW),
    **dict.fromkeys(("allocated_cpus", "allocated_memory_bytes", "allocated_gpus", "allocated_nodes"), Merge.NEW),
    "job_group": Merge.NEW,
    "elapsed_ns": Merge.NEW,
    "is_reported": Merge.KEEP,
}
_UNKNOWN_START_MERGES = {**_UNIT_MERGES, "started_ns": Merge.SMALLER}
_LONGEST = {"unit": 512, "run": 600}


def write_units(
    engine: Engine, turn: ClaimTurn, units: Sequence[ManagerUnit], living: Living | None = None
) -> ClaimCounts:
    """Write a batch of a manager's runs in one transaction, and give them the runs of nodes that are theirs.

    With `living`, those that are said to run and are not among them are written as vanished.
    """
    # Of two records of one run the later in the answer stands.
    latest = {(unit.unit, unit.run): unit for unit in units if _is_storable(unit)}
    if not latest:
        return ClaimCounts()
    with writing(engine).begin() as connection:
        if living is not None:
            settled = settle(connection, turn, living, list(latest.values()))
            latest = dict(zip(latest, settled, strict=True))
        users = ensure_accounts(connection, schema.users, turn.cluster_id, _seen(latest.values(), "user", turn))
        projects = ensure_accounts(
            connection, schema.projects, turn.cluster_id, _seen(latest.values(), "project", turn)
        )
        for is_known, merges in ((True, _UNIT_MERGES), (False, _UNKNOWN_START_MERGES)):
            told = [unit for unit in latest.values() if unit.is_start_known is is_known]
            rows = [_row(turn, unit, users, projects) for unit in told]
            changed = _changed(connection, turn, rows)
            mark_units(connection, changed.owners)
            bulk.upsert(connection, schema.units, _UNIT_KEY, merges, rows)
            settle_owners(connection, changed.owners | changed.ends)
        return claim_units(connection, turn, {unit for unit, _ in latest})


class _Changed(NamedTuple):
    """Ids of units that are told otherwise than they were."""

    owners: set[int]
    """That had another user or project until now."""
    ends: set[int]
    """That lived until now, or had ended."""


def _changed(connection: Connection, turn: ClaimTurn, rows: Sequence[bulk.Row]) -> _Changed:
    units, found = schema.units.c, _Changed(set(), set())
    told = {(row[2], row[3]): (row[6], row[7], row[13] is None) for row in rows}
    held = select(units.id, units.unit, units.run, units.user_id, units.project_id, units.ended_ns).where(
        units.cluster_id == turn.cluster_id,
        units.manager == turn.manager,
        units.scope_node_id == 0,
        units.unit.in_(sorted({str(unit) for unit, _ in told})),
    )
    for row in connection.execute(held):
        user_id, project_id, lives = told.get((row.unit, row.run), (row.user_id, row.project_id, row.ended_ns is None))
        if (user_id, project_id) != (row.user_id, row.project_id):
            found.owners.add(row.id)
        if lives != (row.ended_ns is None):
            found.ends.add(row.id)
    return found


def _is_storable(unit: ManagerUnit) -> bool:
    """An id that is none cannot be a key, and no node reports it."""
    return all(fits(getattr(unit, field), most) for field, most in _LONGEST.items())


def _seen(units: Iterable[ManagerUnit], field: str, turn: ClaimTurn) -> dict[str, int]:
    seen: dict[str, int] = {}
    for unit in units:
        word = cut(getattr(unit, field), ACCOUNT_LENGTH)
        if word:
            at_ns = min(turn.now_ns, to_ns(unit.ended_at) if unit.ended_at else turn.now_ns)
            seen[word] = max(seen.get(word, 0), at_ns)
    return seen


def _row(turn: ClaimTurn, unit: ManagerUnit, users: Mapping[str, int], projects: Mapping[str, int]) -> bulk.Row:
    name = cut(unit.name, TEXT_LENGTH)
    user, project = (cut(word, ACCOUNT_LENGTH) for word in (unit.user, unit.project))
    given = unit.allocation
    tags = {cut(key, 255): cut(value, TEXT_LENGTH) for key, value in unit.tags.items()}
    return (
        *(turn.cluster_id, turn.manager, unit.unit, unit.run, 0),
        name,
        users.get(user or ""),
        projects.get(project or ""),
        json.dumps(tags, sort_keys=True) if tags else None,
        # People look for the id that their scheduler shows them.
        search_text(
            f"{unit.unit} {shown}" if (shown := unit.tags.get("job")) else unit.unit, RunNames(name, user, project)
        ),
        cut(unit.state, STATE_LENGTH) or "unknown",
        None if unit.submitted_at is None else to_ns(unit.submitted_at),
        to_ns(unit.started_at),
        None if unit.ended_at is None else to_ns(unit.ended_at),
        *(cut(unit.queue, 255), cut(unit.group, 255)),
        None if unit.nodes is None else json.dumps(unit.nodes),
        *(given.cpus, bounded(given.memory_bytes), json.dumps(dict(given.gpus), sort_keys=True)),
        bounded(given.nodes, MOST_COUNTED),
        cut(next((unit.tags[tag] for tag in GROUP_TAGS if tag in unit.tags), None), 255),
        None if unit.elapsed_seconds is None else bounded(int(unit.elapsed_seconds * NANOSECONDS_PER_SECOND)),
        False,  # a claim says otherwise
    )


def write_accounts(engine: Engine, turn: ClaimTurn, accounts: Accounts) -> None:
    """Replace what a manager says of accounts: who is no longer named is no longer a member."""
    names = {each.name for each in accounts.accounts} | {each.project for each in accounts.memberships}
    users = {each.user for each in accounts.memberships}
    table = schema.memberships
    with writing(engine).begin() as connection:
        # 0: listed is not seen at work.
        project_ids = ensure_accounts(
            connection, schema.projects, turn.cluster_id, dict.fromkeys(filter(fits, names), 0)
        )
        user_ids = ensure_accounts(connection, schema.users, turn.cluster_id, dict.fromkeys(filter(fits, users), 0))
        described = {
            each.name: (cut(each.description, TEXT_LENGTH), cut(each.parent, 255)) for each in accounts.accounts
        }
        bulk.update(
            connection,
            schema.projects,
            ("id", "description", "parent"),
            {"description": "v.description", "parent": "v.parent"},
            "projects.id = v.id",
            [(project_ids[name], *words) for name, words in sorted(described.items()) if name in project_ids],
        )
        ours = select(schema.users.c.id).where(schema.users.c.cluster_id == turn.cluster_id)
        connection.execute(delete(table).where(table.c.manager == turn.manager, table.c.user_id.in_(ours)))
        rows: list[bulk.Row] = [
            (user_ids[each.user], project_ids[each.project], turn.manager)
            for each in sorted(set(accounts.memberships))
            if each.user in user_ids and each.project in project_ids
        ]
        bulk.insert(connection, table, ("user_id", "project_id", "manager"), rows)


def write_nodes(engine: Engine, turn: ClaimTurn, nodes: Sequence[ManagerNode]) -> None:
    """Replace what a manager says of its nodes, and note that its facts are fresh."""
    table, states = schema.manager_nodes, schema.manager_states
    rows = {node.name: _node_row(turn, node) for node in nodes if fits(node.name)}
    columns = [column.name for column in table.columns]
    with writing(engine).begin() as connection:
        mine = (table.c.cluster_id == turn.cluster_id) & (table.c.manager == turn.manager)
        connection.execute(delete(table).where(mine))
        bulk.insert(connection, table, columns, list(rows.values()))
        connection.execute(
            update(states)
            .where(states.c.cluster_id == turn.cluster_id, states.c.manager == turn.manager)
            .values(facts_ns=turn.now_ns)
        )


def _node_row(turn: ClaimTurn, node: ManagerNode) -> bulk.Row:
    given = node.allocated or ManagerAllocation()
    return (
        *(turn.cluster_id, turn.manager, node.name, cut(node.state, 64) or "unknown", node.is_schedulable),
        *(cut(node.reason, TEXT_LENGTH), cut(node.type, TEXT_LENGTH), node.cpus, bounded(node.memory_bytes)),
        json.dumps(dict(node.gpus), sort_keys=True),
        *(given.cpus, bounded(given.memory_bytes)),
        None if node.allocated is None else json.dumps(dict(given.gpus), sort_keys=True),
        *(json.dumps(node.queues), turn.now_ns),
    )
