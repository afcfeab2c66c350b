"""Nodes that the inventory says are retired are expected no longer; who still reports is not believed to be."""

from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from kwhere.database import audit, schema
from kwhere.database.node_states import LOST_NS
from kwhere.database.reading.inventory import facts_by_node

BY = "inventory"
_nodes = schema.nodes.c


@dataclass(frozen=True, slots=True)
class NodeNow:
    """What is known of a node, UTC ns."""

    newest_end_ns: int | None
    pull_ns: int | None
    retired_ns: int | None
    retired_by: str | None


def apply_retirements(connection: Connection, now_ns: int) -> None:
    """Note at each node what the inventory says of its retirement, and take back what it says no longer."""
    columns = (_nodes.id, _nodes.name, *(_nodes[name] for name in NodeNow.__slots__))
    clusters = schema.clusters.c
    query = select(*columns, clusters.name.label("cluster")).join(schema.clusters, clusters.id == _nodes.cluster_id)
    rows = connection.execute(query).all()
    facts = facts_by_node(connection, [(row.cluster, row.name) for row in rows])
    for row in rows:
        now = NodeNow(row.newest_end_ns, row.pull_ns, row.retired_ns, row.retired_by)
        wanted = judge(now, facts[row.cluster, row.name].retired_ns, now_ns)
        if wanted != (now.retired_ns, now.retired_by):
            changed = update(schema.nodes).where(_nodes.id == row.id)
            connection.execute(changed.values(retired_ns=wanted[0], retired_by=wanted[1]))
            action = "take node back" if wanted[0] is None else "retire node"
            audit.record(connection, now_ns, BY, action, f"{row.cluster}/{row.name}")


def judge(node: NodeNow, listed_ns: int | None, now_ns: int) -> tuple[int | None, str | None]:
    """Return since when a node is retired, and who says so (None: a person). Pure.

    A person's word stands. A node that reports after the day that is listed is at work until it falls silent.
    """
    if node.retired_ns is not None and node.retired_by is None:
        return node.retired_ns, None
    if listed_ns is None or listed_ns > now_ns:
        return None, None
    newest_ns = node.newest_end_ns or 0
    reports = node.pull_ns is not None and now_ns - node.pull_ns <= LOST_NS and newest_ns > listed_ns
    if reports and node.retired_ns is None:
        return None, None
    return max(listed_ns, newest_ns), BY
