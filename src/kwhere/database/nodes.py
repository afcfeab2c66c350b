"""What is noted of a node at each pull, and what a person decides of one."""

from dataclasses import dataclass, fields

from sqlalchemy import Connection, Engine, select, update

from kwhere.core.errors import NotFound
from kwhere.database import audit, cursors, schema
from kwhere.database.account_marks import Mark, mark
from kwhere.database.engine import writing
from kwhere.database.storable import ERROR_LENGTH, cut

_nodes = schema.nodes


@dataclass(frozen=True, slots=True)
class PullFacts:
    """What an answer says of a node."""

    pull_ns: int
    pull_seconds: float
    clock_offset_ns: int | None
    parent: str | None
    slot_seconds: int
    cpus: int
    version: str
    idle_policy: str


def record_pull(connection: Connection, node_id: int, facts: PullFacts) -> None:
    """Note an answer; clears the last error."""
    values = {item.name: getattr(facts, item.name) for item in fields(PullFacts)}
    _mark_new_guest(connection, node_id, facts.parent)
    connection.execute(update(_nodes).where(_nodes.c.id == node_id).values(**values, error=None, error_since_ns=None))


def _mark_new_guest(connection: Connection, node_id: int, parent: str | None) -> None:
    """A node that has become a guest, or is none any more, is counted apart in sums of accounts."""
    columns = _nodes.c
    changed = columns.parent.is_not(None) if parent is None else columns.parent.is_(None)
    query = select(columns.cluster_id, columns.first_start_ns, columns.newest_end_ns).where(
        columns.id == node_id, columns.newest_end_ns.is_not(None), changed
    )
    mark(connection, [Mark(*row) for row in connection.execute(query)])


def record_failure(connection: Connection, node_id: int, error: str, now_ns: int) -> bool:
    """Note why a pull failed; return whether that is news."""
    held = connection.execute(select(_nodes.c.error).where(_nodes.c.id == node_id)).scalar_one_or_none()
    kept = cut(error, ERROR_LENGTH)
    if held == kept:
        return False
    changed = update(_nodes).where(_nodes.c.id == node_id)
    connection.execute(changed.values(error=kept, error_since_ns=now_ns))
    return True


def record_target_failure(engine: Engine, target: str, error: str, now_ns: int) -> None:
    """Note why a pull of `target` failed at the node that was last read there, if any was."""
    held = schema.cursors.c
    query = select(held.node_id).where(held.target == target).order_by(held.opened_ns.desc()).limit(1)
    with writing(engine).begin() as connection:
        node_id = connection.execute(query).scalar_one_or_none()
        if node_id is not None:
            record_failure(connection, node_id, error, now_ns)


def retire(engine: Engine, cluster: str, node: str, now_ns: int, *, by: str) -> None:
    """Stop expecting a node: completeness counts it up to now. Raises NotFound."""
    with writing(engine).begin() as connection:
        node_id = _find(connection, cluster, node)
        connection.execute(update(_nodes).where(_nodes.c.id == node_id).values(retired_ns=now_ns, retired_by=None))
        audit.record(connection, now_ns, by, "retire node", f"{cluster}/{node}")


def resume(engine: Engine, cluster: str, node: str, now_ns: int, *, by: str) -> int:
    """Read the node's stopped journals again, whose chain is not checked where it broke; return how many. NotFound."""
    with writing(engine).begin() as connection:
        held = schema.cursors.c
        stopped = select(held.epoch, held.stopped).where(
            held.node_id == _find(connection, cluster, node), held.stopped.is_not(None)
        )
        reasons = {row.epoch: row.stopped for row in connection.execute(stopped)}
        for epoch in reasons:
            cursors.resume(connection, epoch)
        if reasons:
            audit.record(connection, now_ns, by, "resume journal", f"{cluster}/{node}", reasons)
    return len(reasons)


def _find(connection: Connection, cluster: str, node: str) -> int:
    query = (
        select(_nodes.c.id)
        .join(schema.clusters, schema.clusters.c.id == _nodes.c.cluster_id)
        .where(schema.clusters.c.name == cluster, _nodes.c.name == node)
    )
    node_id: int | None = connection.execute(query).scalar_one_or_none()
    if node_id is None:
        raise NotFound(f"node {node} of cluster {cluster}: there is none")
    return node_id


def node_of_target(connection: Connection, target: str) -> str | None:
    """Return the name of the node whose ledger was last read at a target; None before its first page."""
    held = schema.cursors
    query = (
        select(_nodes.c.name)
        .join(held, held.c.node_id == _nodes.c.id)
        .where(held.c.target == target)
        .order_by(held.c.opened_ns.desc())
        .limit(1)
    )
    return connection.execute(query).scalar_one_or_none()
