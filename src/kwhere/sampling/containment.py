"""Which reading lies in which: a tree by path over live units and the directories above them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import TrackedUnit

NodeId = UnitKey | str
"""A unit by its key, a plain directory by its path."""


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above `path`, nearest first, the root `/` last."""
    while path not in ("", "/"):
        path = path.rsplit("/", 1)[0] or "/"
        yield path


@dataclass(frozen=True, slots=True)
class Containment:
    """Children of every node that has any, and where a path belongs. A unit that is also a parent is one node."""

    by_path: Mapping[str, NodeId]
    children: Mapping[NodeId, tuple[NodeId, ...]]
    """Deepest containers first, so that a container's own children are always settled before it."""

    def container_of(self, path: str | None) -> NodeId | None:
        """Return the nearest node above `path`; None where nothing above it is read."""
        if path is None:
            return None
        return next((self.by_path[above] for above in ancestors(path) if above in self.by_path), None)


def contain(units: Mapping[UnitKey, TrackedUnit], parents: Sequence[str]) -> Containment:
    """Return the tree over `units` that have a cgroup and the directories `parents`."""
    by_path: dict[str, NodeId] = {path: path for path in parents}
    by_path |= {unit.cgroup: key for key, unit in units.items() if unit.cgroup is not None}
    tree = Containment(by_path, {})
    found: dict[NodeId, list[NodeId]] = {}
    for path, node in by_path.items():
        outer = units[node].outer if isinstance(node, UnitKey) else None
        container = tree.container_of(path)
        if container is None and outer in units:
            container = outer
        if container is not None:
            found.setdefault(container, []).append(node)
    depth = {node: path.count("/") if path != "/" else 0 for path, node in by_path.items()}
    ordered = sorted(found, key=lambda node: -depth.get(node, 0))
    return Containment(by_path, {node: tuple(found[node]) for node in ordered})
