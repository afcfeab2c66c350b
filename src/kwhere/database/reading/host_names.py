"""Nodes looked up by a name that a person or a manager gave, which may be the short one or the full one."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from kwhere.database import schema
from kwhere.database.node_names import HostBook, choose_hosts

_nodes = schema.nodes.c


def is_called(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Return whether a host of that name may be meant: as it is, shorter or longer; `choose_hosts` says which."""
    wanted = name.lower()
    shorter = [wanted[:at] for at, letter in enumerate(wanted) if letter == "." and at]
    lower = func.lower(column)
    return or_(lower.in_([wanted, *shorter]), lower.startswith(f"{wanted}.", autoescape=True))


def named_nodes(connection: Connection, name: str, within: Collection[int]) -> list[int]:
    """Return ids of the nodes of these clusters that a name means; of a short one there may be several."""
    query = select(_nodes.id, _nodes.cluster_id, _nodes.name).where(_nodes.cluster_id.in_(sorted(within)))
    by_cluster: dict[int, dict[str, int]] = defaultdict(dict)
    for row in connection.execute(query.where(is_called(_nodes.name, name))):
        by_cluster[row.cluster_id][row.name] = row.id
    return [ids[host] for _, ids in sorted(by_cluster.items()) for host in choose_hosts(name, ids)]


def host_book(connection: Connection, within: Collection[int]) -> HostBook:
    """Return the nodes of clusters that agents report, to look many names up in."""
    query: Any = select(_nodes.cluster_id, _nodes.name).where(_nodes.cluster_id.in_(sorted(within)))
    return HostBook([(row.cluster_id, row.name) for row in connection.execute(query)])
