"""Rows that name things: clusters, nodes, accounts, units and their runs. Found, or made when first seen."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Table, select, text

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import EntryKind
from kwhere.database import bulk, schema
from kwhere.database.account_marks import mark_units
from kwhere.database.bulk import Merge
from kwhere.database.chunks import chunks
from kwhere.database.ended_owners import settle_owners
from kwhere.database.sums import RunKey, RunNames, RunSums

"""Words per IN list: both databases take more, and their planners like fewer."""
_SEEN_NS = 3600 * NANOSECONDS_PER_SECOND
"""An account's last sight is kept to the hour."""
PROCESS_MANAGER = "process"
"""Manager of process groups, one run of each per boot."""
RUNNING = "running"
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the write path knows it."""

    id: int
    cluster_id: int


def ensure_cluster(connection: Connection, name: str) -> int:
    """Return the id of a cluster; it is made when first named."""
    bulk.upsert(connection, schema.clusters, ("name",), {}, [(name,)])
    query = select(schema.clusters.c.id).where(schema.clusters.c.name == name)
    cluster_id: int = connection.execute(query).scalar_one()
    return cluster_id


def ensure_node(connection: Connection, cluster: str, name: str) -> NodeRow:
    """Return the row of a node; it and its cluster are made when first named."""
    cluster_id = ensure_cluster(connection, cluster)
    nodes = schema.nodes
    bulk.upsert(connection, nodes, ("cluster_id", "name"), {}, [(cluster_id, name)])
    found = select(nodes.c.id).where(nodes.c.cluster_id == cluster_id, nodes.c.name == name)
    return NodeRow(connection.execute(found).scalar_one(), cluster_id)


def ensure_accounts(
    connection: Connection, table: Table, cluster_id: int, seen: Mapping[str, int]
) -> Mapping[str, int]:
    """Return ids by name; `seen` are the names with the newest moment, UTC ns."""
    if not seen:
        return {}
    # In order of name: two servers that book at once then never wait for each other crosswise. Accounts that are known
    # are not locked, or the pages of a job's thousand nodes would wait for each other.
    rows = [(cluster_id, name, seen_ns) for name, seen_ns in sorted(seen.items())]
    bulk.upsert(connection, table, ("cluster_id", "name"), {"last_seen_ns": Merge.KEEP}, rows)
    same = f"{table.name}.cluster_id = v.cluster_id AND {table.name}.name = v.name"
    stale = f"{table.name}.last_seen_ns < v.last_seen_ns - {_SEEN_NS}"
    columns = ("cluster_id", "name", "last_seen_ns")
    bulk.update(connection, table, columns, {"last_seen_ns": "v.last_seen_ns"}, f"{same} AND {stale}", rows)
    found: dict[str, int] = {}
    for names in chunks(sorted(seen)):
        query = select(table.c.name, table.c.id).where(table.c.cluster_id == cluster_id, table.c.name.in_(names))
        found.update((name, row_id) for name, row_id in connection.execute(query))
    return found


def _newest(runs: Mapping[RunKey, RunSums], field: str) -> dict[str, int]:
    seen: dict[str, int] = {}
    for run in runs.values():
        word = getattr(run.names, field)
        if word:
            seen[word] = max(seen.get(word, 0), run.end_ns)
    return seen


def started_ns(key: RunKey, first_start_ns: int) -> int:
    """Return when a run began: the seconds in its name, else its first slot's start.

    The name of a process group's run has the machine's boot in it, which says nothing of the group.
    """
    if key.manager == PROCESS_MANAGER:
        return first_start_ns
    seconds = key.run.removeprefix(f"{key.unit}@").split(".", 1)[0] if key.run != key.unit else ""
    return int(seconds) * NANOSECONDS_PER_SECOND if seconds.isdecimal() and len(seconds) <= 10 else first_start_ns


@dataclass(frozen=True, slots=True)
class Resolved:
    """The rows of a page's runs."""

    ids: Mapping[RunKey, int]
    news: Collection[int]
    """Ids of runs that the page before did not name: new ones, and such that came back."""
    gone: Collection[int] | None
    """Ids of runs that only the page before named; None: not known."""


class RunRegistry:
    """Ids of the unit runs that nodes reported last. Kept per process; call `forget` after a roll-back."""

    def __init__(self) -> None:
        self._known: dict[int, dict[RunKey, tuple[int, RunNames]]] = {}

    def forget(self, node_id: int) -> None:
        """Drop what is held of a node: what was written may not have stayed."""
        self._known.pop(node_id, None)

    def resolve(
        self, connection: Connection, node: NodeRow, runs: Mapping[RunKey, RunSums], newest_end_ns: int
    ) -> Resolved:
        """Return the row of each run; rows and units are made and renamed where that is news.

        Only runs of the slot that ends at `newest_end_ns` are remembered as alive.
        """
        before = self._known.get(node.id)
        known = before or {}
        changed = {key: run for key, run in runs.items() if key not in known or known[key][1] != run.names}
        found = _register(connection, node, changed) if changed else {}
        ids = {key: found[key] if key in found else known[key][0] for key in runs}
        alive = {key: (ids[key], run.names) for key, run in runs.items() if run.end_ns == newest_end_ns}
        self._known[node.id] = alive
        gone = None if before is None else [row_id for key, (row_id, _) in before.items() if key not in alive]
        if gone is not None:
            gone += [row_id for key, row_id in ids.items() if key not in alive and key not in known]
        return Resolved(ids, [row_id for key, row_id in ids.items() if key not in known], gone)


def _register(connection: Connection, node: NodeRow, runs: Mapping[RunKey, RunSums]) -> dict[RunKey, int]:
    user_ids = ensure_accounts(connection, schema.users, node.cluster_id, _newest(runs, "user"))
    project_ids = ensure_accounts(connection, schema.projects, node.cluster_id, _newest(runs, "project"))
    theirs = _claimed(connection, node.id, runs)
    rows = [
        _unit_row(node, key, run, user_ids, project_ids)
        for key, run in runs.items()
        if key.kind == EntryKind.UNIT and key not in theirs
    ]
    bulk.upsert(connection, schema.units, _UNIT_KEY, _UNIT_MERGES, rows)
    bulk.upsert(
        connection, schema.unit_runs, _RUN_KEY, _RUN_MERGES, [_run_row(node, key, run) for key, run in runs.items()]
    )
    connection.execute(_LINK, {"node_id": node.id, "cluster_id": node.cluster_id})
    if rows:
        _rename(connection, node, runs, user_ids, project_ids)
    return _find(connection, node.id, runs)


def _claimed(connection: Connection, node_id: int, runs: Mapping[RunKey, RunSums]) -> set[RunKey]:
    """Return those that are part of a manager's unit: this node's own unit of them is gone."""
    table = schema.unit_runs
    found: set[RunKey] = set()
    for words in chunks(sorted({key.run for key in runs})):
        query = select(table.c.kind, table.c.manager, table.c.unit, table.c.run).where(
            table.c.node_id == node_id, table.c.run.in_(words), table.c.claim == "claimed"
        )
        found.update(RunKey(*row) for row in connection.execute(query))
    return found


_UNIT_KEY = ("cluster_id", "manager", "unit", "run", "scope_node_id")
_UNIT_MERGES = dict.fromkeys(("name", "user_id", "project_id", "labels", "search", "state", "started_ns"), Merge.KEEP)
_RUN_KEY = ("node_id", "run", "unit", "manager", "kind")
_RUN_MERGES = dict.fromkeys(("node_name", "started_ns"), Merge.KEEP)
_LINK = text(
    "UPDATE unit_runs SET unit_id = (SELECT u.id FROM units u WHERE u.cluster_id = :cluster_id"
    " AND u.manager = unit_runs.manager AND u.unit = unit_runs.unit AND u.run = unit_runs.run"
    " AND u.scope_node_id = unit_runs.node_id)"
    " WHERE node_id = :node_id AND ended_ns IS NULL AND unit_id IS NULL AND kind = 'unit'"
)


def _unit_row(
    node: NodeRow, key: RunKey, run: RunSums, user_ids: Mapping[str, int], project_ids: Mapping[str, int]
) -> tuple[object, ...]:
    names = run.names
    return (
        node.cluster_id,
        key.manager,
        key.unit,
        key.run,
        node.id,
        names.name,
        user_ids.get(names.user or ""),
        project_ids.get(names.project or ""),
        _labels(names),
        search_text(key.unit, names),
        RUNNING,
        started_ns(key, run.start_ns),
    )


def _run_row(node: NodeRow, key: RunKey, run: RunSums) -> tuple[object, ...]:
    began_ns = started_ns(key, run.start_ns)
    return (node.id, key.run, key.unit, key.manager, key.kind, run.names.node_name, began_ns)


def search_text(unit: str, names: RunNames) -> str:
    """Return what a search looks through: id, name, user and project in lower case."""
    return "\n".join(word.lower() for word in (unit, names.name, names.user, names.project) if word)


def _labels(names: RunNames) -> str | None:
    return json.dumps(names.labels, sort_keys=True) if names.labels else None


def _rename(
    connection: Connection,
    node: NodeRow,
    runs: Mapping[RunKey, RunSums],
    user_ids: Mapping[str, int],
    project_ids: Mapping[str, int],
) -> None:
    """Write names that a node learned later; names once known stay where it forgets them."""
    rows: list[bulk.Row] = []
    moved: list[int] = []
    for unit_id, key, held in _held_names(connection, node.id, runs):
        names = runs[key].names.after(held)
        if names._replace(node_name=None, labels=names.labels or None) == held:
            continue
        owners = (user_ids.get(names.user or ""), project_ids.get(names.project or ""))
        rows.append((unit_id, names.name, *owners, _labels(names), search_text(key.unit, names)))
        if (names.user, names.project) != (held.user, held.project):
            moved.append(unit_id)
    mark_units(connection, moved)
    bulk.update(
        connection,
        schema.units,
        ("id", "name", "user_id", "project_id", "labels", "search"),
        {
            "name": "v.name",
            "user_id": "coalesce(v.user_id, units.user_id)",
            "project_id": "coalesce(v.project_id, units.project_id)",
            "labels": "v.labels",
            "search": "v.search",
        },
        "units.id = v.id AND units.scope_node_id <> 0",
        rows,
    )
    settle_owners(connection, moved)


def _held_names(
    connection: Connection, node_id: int, runs: Mapping[RunKey, RunSums]
) -> Iterable[tuple[int, RunKey, RunNames]]:
    units, unit_runs, users, projects = schema.units, schema.unit_runs, schema.users, schema.projects
    query = (
        select(
            units.c.id,
            unit_runs.c.manager,
            unit_runs.c.unit,
            unit_runs.c.run,
            units.c.name,
            users.c.name,
            projects.c.name,
            units.c.labels,
        )
        .select_from(unit_runs)
        .join(units, units.c.id == unit_runs.c.unit_id)
        .outerjoin(users, users.c.id == units.c.user_id)
        .outerjoin(projects, projects.c.id == units.c.project_id)
        # What a manager has judged is no longer its node's to name.
        .where(unit_runs.c.node_id == node_id, unit_runs.c.claim.is_(None))
    )
    for words in chunks(sorted({key.run for key in runs})):
        for row in connection.execute(query.where(unit_runs.c.run.in_(words))):
            unit_id, manager, unit, run, name, user, project, labels = row
            key = RunKey(str(EntryKind.UNIT), manager, unit, run)
            if key in runs:
                yield unit_id, key, RunNames(name, user, project, None, json.loads(labels) if labels else None)


def _find(connection: Connection, node_id: int, runs: Mapping[RunKey, RunSums]) -> dict[RunKey, int]:
    table = schema.unit_runs
    columns = (table.c.id, table.c.kind, table.c.manager, table.c.unit, table.c.run)
    found: dict[RunKey, int] = {}
    for words in chunks(sorted({key.run for key in runs})):
        query = select(*columns).where(table.c.node_id == node_id, table.c.run.in_(words))
        for row_id, kind, manager, unit, run in connection.execute(query):
            found[RunKey(kind, manager, unit, run)] = row_id
    return found
