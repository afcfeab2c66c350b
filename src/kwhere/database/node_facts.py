"""Which rows of the inventory are a node's, and what they say together. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the inventory says of a node; None: nobody says."""

    rack: str | None = None
    type: str | None = None
    power_limit_watts: float | None = None
    meter: str | None = None
    retired_ns: int | None = None


NO_FACTS = NodeFacts()
FACT_NAMES = tuple(each.name for each in fields(NodeFacts))


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A row of the inventory."""

    position: int
    """Of its source."""
    cluster: str
    """Empty: of every cluster."""
    node: str
    facts: NodeFacts


def facts_of(cluster: str, node: str, listed: Sequence[ListedNode]) -> NodeFacts:
    """Return what rows that share the node's short name say of it: the first source that says a thing counts.

    A row is the node's where names are the same, or where one of them is the other up to its first dot and no other
    row of that source could be meant. Within a source a row of the node's own cluster counts before one of every
    cluster.
    """
    if len(listed) == 1 and listed[0].node == node and listed[0].cluster in ("", cluster):
        return listed[0].facts  # so it is with nearly all
    ours: list[ListedNode] = []
    for position in sorted({row.position for row in listed}):
        rows = [row for row in listed if row.position == position and row.cluster in ("", cluster)]
        exact = [row for row in rows if row.node.lower() == node.lower()]
        chosen = exact or _alike(node, rows)
        ours += sorted(chosen, key=lambda row: not row.cluster)
    return NodeFacts(*(_first(ours, name) for name in FACT_NAMES))


def _alike(node: str, rows: Sequence[ListedNode]) -> list[ListedNode]:
    found = [row for row in rows if ("." in row.node) != ("." in node)]
    return found if len({row.node.lower() for row in found}) == 1 else []


def _first(rows: Sequence[ListedNode], name: str) -> Any:
    return next((value for row in rows if (value := getattr(row.facts, name)) is not None), None)
