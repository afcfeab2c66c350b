"""What resource managers say, written down: units, accounts, nodes, and how far each manager was read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, delete, select, update

from kwhere.core.managed import Accounts, ManagerAllocation, ManagerNode, ManagerUnit
from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.claims import ClaimCounts, ClaimTurn, claim_units
from kwhere.database.engine import writing
from kwhere.database.grid import to_ns
from kwhere.database.identities import ensure_accounts, ensure_cluster, search_text
from kwhere.database.sums import RunNames

_UNIT_KEY = ("cluster_id", "manager", "unit", "run", "scope_node_id")
_UNIT_MERGES = {
    **dict.fromkeys(("name", "user_id", "project_id", "labels", "search", "state"), Merge.NEW),
    **dict.fromkeys(("submitted_ns", "started_ns", "ended_ns"), Merge.NEW),
    **dict.fromkeys(("queue", "user_group", "placed_nodes"), Merge.NEW),
    **dict.fromkeys(("allocated_cpus", "allocated_memory_bytes", "allocated_gpus", "allocated_nodes"), Merge.NEW),
}
_LONGEST = {"unit": 512, "run": 600}
_ACCOUNT_LENGTH = 255
_STATE_LENGTH = 32
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class ManagerState:
    """How far a manager was read; None: not yet."""

    cluster_id: int
    good_until_ns: int | None
    facts_ns: int | None


def manager_state(engine: Engine, cluster: str, manager: str) -> ManagerState:
    """Return how far a manager was read; its cluster is made when first named."""
    states = schema.manager_states.c
    with writing(engine).begin() as connection:
        cluster_id = ensure_cluster(connection, cluster)
        bulk.upsert(connection, schema.manager_states, ("cluster_id", "manager"), {}, [(cluster_id, manager)])
        query = select(states.good_until_ns, states.facts_ns).where(
            states.cluster_id == cluster_id, states.manager == manager
        )
        good_ns, facts_ns = connection.execute(query).one()
    return ManagerState(cluster_id, good_ns, facts_ns)


def note_good(engine: Engine, turn: ClaimTurn, until_ns: int) -> None:
    """Note that all before `until_ns` was read and written."""
    _note(engine, turn, {"good_until_ns": until_ns, "error": None, "error_since_ns": None})


def note_error(engine: Engine, turn: ClaimTurn, error: str) -> None:
    """Note why a manager could not be read, and since when."""
    states = schema.manager_states
    _note(engine, turn, {"error": error[:1000]})
    first = (states.c.cluster_id == turn.cluster_id) & (states.c.manager == turn.manager)
    with writing(engine).begin() as connection:
        connection.execute(
            update(states).where(first, states.c.error_since_ns.is_(None)).values(error_since_ns=turn.now_ns)
        )


def _note(engine: Engine, turn: ClaimTurn, values: Mapping[str, object]) -> None:
    states = schema.manager_states
    with writing(engine).begin() as connection:
        connection.execute(
            update(states)
            .where(states.c.cluster_id == turn.cluster_id, states.c.manager == turn.manager)
            .values(**values)
        )


def write_units(engine: Engine, turn: ClaimTurn, units: Sequence[ManagerUnit]) -> ClaimCounts:
    """Write a batch of a manager's runs in one transaction, and give them the runs of nodes that are theirs."""
    # Of two records of one run the later in the answer stands.
    latest = {(unit.unit, unit.run): unit for unit in units if _is_storable(unit)}
    if not latest:
        return ClaimCounts()
    with writing(engine).begin() as connection:
        users = ensure_accounts(connection, schema.users, turn.cluster_id, _seen(latest.values(), "user", turn))
        projects = ensure_accounts(
            connection, schema.projects, turn.cluster_id, _seen(latest.values(), "project", turn)
        )
        rows = [_row(turn, unit, users, projects) for unit in latest.values()]
        bulk.upsert(connection, schema.units, _UNIT_KEY, _UNIT_MERGES, rows)
        return claim_units(connection, turn, {unit for unit, _ in latest})


def _is_storable(unit: ManagerUnit) -> bool:
    """An id longer than any real one cannot be a key, and no node reports it."""
    return all(0 < len(getattr(unit, field).encode()) <= most for field, most in _LONGEST.items())


def _seen(units: Iterable[ManagerUnit], field: str, turn: ClaimTurn) -> dict[str, int]:
    seen: dict[str, int] = {}
    for unit in units:
        word = _cut(getattr(unit, field), _ACCOUNT_LENGTH)
        if word:
            at_ns = min(turn.now_ns, to_ns(unit.ended_at) if unit.ended_at else turn.now_ns)
            seen[word] = max(seen.get(word, 0), at_ns)
    return seen


def _cut(word: str | None, most: int) -> str | None:
    """Return a word in at most so many bytes of UTF-8, without NUL, which PostgreSQL does not take."""
    if word is None:
        return None
    clean = word.replace("\0", "")
    return clean.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _row(turn: ClaimTurn, unit: ManagerUnit, users: Mapping[str, int], projects: Mapping[str, int]) -> bulk.Row:
    name = _cut(unit.name, 4096)
    user, project = (_cut(word, _ACCOUNT_LENGTH) for word in (unit.user, unit.project))
    given = unit.allocation
    tags = {_cut(key, 255): _cut(value, 4096) for key, value in unit.tags.items()}
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
        _cut(unit.state, _STATE_LENGTH) or "unknown",
        None if unit.submitted_at is None else to_ns(unit.submitted_at),
        to_ns(unit.started_at),
        None if unit.ended_at is None else to_ns(unit.ended_at),
        *(_cut(unit.queue, 255), _cut(unit.group, 255)),
        None if unit.nodes is None else json.dumps(unit.nodes),
        *(given.cpus, _bounded(given.memory_bytes), json.dumps(dict(given.gpus), sort_keys=True), given.nodes),
    )


def _bounded(value: int | None) -> int | None:
    return None if value is None else min(value, _LARGEST)


def write_accounts(engine: Engine, turn: ClaimTurn, accounts: Accounts) -> None:
    """Replace what a manager says of accounts: who is no longer named is no longer a member."""
    names = {each.name for each in accounts.accounts} | {each.project for each in accounts.memberships}
    users = {each.user for each in accounts.memberships}
    table = schema.memberships
    with writing(engine).begin() as connection:
        # 0: listed is not seen at work.
        project_ids = ensure_accounts(
            connection, schema.projects, turn.cluster_id, dict.fromkeys(filter(_fits, names), 0)
        )
        user_ids = ensure_accounts(connection, schema.users, turn.cluster_id, dict.fromkeys(filter(_fits, users), 0))
        described = {each.name: (_cut(each.description, 4096), _cut(each.parent, 255)) for each in accounts.accounts}
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


def _fits(word: str) -> bool:
    return 0 < len(word.encode("utf-8", "replace")) <= _ACCOUNT_LENGTH and "\0" not in word


def write_nodes(engine: Engine, turn: ClaimTurn, nodes: Sequence[ManagerNode]) -> None:
    """Replace what a manager says of its nodes, and note that its facts are fresh."""
    table, states = schema.manager_nodes, schema.manager_states
    rows = {node.name: _node_row(turn, node) for node in nodes if _fits(node.name)}
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
        *(turn.cluster_id, turn.manager, node.name, _cut(node.state, 64) or "unknown", node.is_schedulable),
        *(_cut(node.reason, 4096), _cut(node.type, 4096), node.cpus, _bounded(node.memory_bytes)),
        json.dumps(dict(node.gpus), sort_keys=True),
        *(given.cpus, _bounded(given.memory_bytes)),
        None if node.allocated is None else json.dumps(dict(given.gpus), sort_keys=True),
        *(json.dumps(node.queues), turn.now_ns),
    )
