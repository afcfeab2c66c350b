"""What the account still holds of journals, as lines: for a server that sends them on."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, union_all

from kwhere.core.errors import SourceError
from kwhere.database import schema

_cursors = schema.cursors.c


@dataclass(frozen=True, slots=True)
class RelayedNode:
    """A node of the cluster that is sent on."""

    id: int
    name: str
    clock_offset_ns: int | None
    """Node's clock less ours."""
    slots: int
    """Sum of the seqs reached: it moves with each slot taken in."""
    epochs: int


@dataclass(frozen=True, slots=True)
class RelayedEpoch:
    """An epoch of which slots were taken in."""

    epoch: str
    seq: int
    """Newest slot taken in."""
    digest: str | None
    """Of that slot."""
    facts: str | None
    """JSON of `EpochFacts`; None where a release took it in that did not keep them."""


def find_nodes(connection: Connection, cluster: str) -> list[RelayedNode]:
    """Return the cluster's nodes that have a journal, by name."""
    nodes, clusters = schema.nodes.c, schema.clusters.c
    query = (
        select(nodes.id, nodes.name, nodes.clock_offset_ns, func.sum(_cursors.seq), func.count())
        .select_from(schema.nodes.join(schema.clusters).join(schema.cursors))
        .where(clusters.name == cluster)
        .group_by(nodes.id, nodes.name, nodes.clock_offset_ns)
        .order_by(nodes.name)
    )
    return [RelayedNode(row[0], row[1], row[2], int(row[3]), int(row[4])) for row in connection.execute(query)]


def find_epochs(connection: Connection, node_id: int) -> list[RelayedEpoch]:
    """Return a node's epochs in the order in which they were read."""
    columns = [_cursors[name] for name in RelayedEpoch.__slots__]
    query = (
        select(*columns)
        .where(_cursors.node_id == node_id, _cursors.newest_end_ns.is_not(None))
        .order_by(_cursors.opened_ns, _cursors.first_start_ns)
    )
    return [RelayedEpoch(**row._mapping) for row in connection.execute(query)]


def lines_after(connection: Connection, epoch: str, seq: int, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield seq and line of slots past `seq` that are held, in order; those in quarantine are part of the journal.

    Raises SourceError at one that is damaged.
    """
    held = union_all(
        *(
            select(table.c.seq, table.c.line)
            .where(table.c.epoch == epoch, table.c.seq > seq)
            .order_by(table.c.seq)
            .limit(limit)
            .subquery()
            .select()
            for table in (schema.slots, schema.quarantine)
        )
    ).subquery()
    for row in connection.execute(select(held.c.seq, held.c.line).order_by(held.c.seq).limit(limit)):
        try:
            line = zlib.decompress(row.line)
        except zlib.error as error:
            raise SourceError(f"slot {row.seq} of epoch {epoch}: what is kept of it is damaged: {error}") from error
        yield row.seq, line
