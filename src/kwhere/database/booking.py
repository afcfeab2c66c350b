"""The write path: a page's sums into slots, 5-minute usage, lifetime totals and node figures, in one transaction."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from sqlalchemy import Connection, case, select, update

from kwhere.database import bulk, lives, schema
from kwhere.database.bulk import Merge
from kwhere.database.grid import Grid
from kwhere.database.identities import NodeRow, RunRegistry
from kwhere.database.schema import BALANCE_COLUMNS
from kwhere.database.sums import PageSums, RunKey, SlotSums
from kwhere.database.totals import add_totals, measured_merges

_USAGE_MERGES = {"node_id": Merge.KEEP, "flags": Merge.BITS}
SLOTS = "slots"
"""The cause that outweighs the others (factor, pue, cost): only then has usage itself changed."""
_NODE_MERGES = dict.fromkeys(("accounted_ns", "measured_uj", *BALANCE_COLUMNS), Merge.ADD)


@dataclass(frozen=True, slots=True)
class Booking:
    """Where and when a page is booked."""

    node: NodeRow
    epoch: str
    now_ns: int
    grid: Grid
    buckets_from_ns: int
    """Older 5-minute buckets are gone: what falls there is added to its hour."""


def book(connection: Connection, booking: Booking, sums: PageSums, registry: RunRegistry) -> None:
    """Add a page to the account. The cursor is advanced by the caller in the same transaction."""
    _keep_slots(connection, booking, sums)
    if not sums.slots:
        return
    newest = sums.slots[-1]
    is_newest = newest.end_ns >= (_newest_end(connection, booking.node.id) or 0)
    runs = registry.resolve(connection, booking.node, sums.runs, newest.end_ns)
    _add_usage(connection, booking, sums, runs.ids)
    add_totals(connection, sums, runs.ids)
    _add_node(connection, booking, sums)
    if is_newest:
        lives.follow(connection, booking.node.id, runs, newest)
    else:
        registry.forget(booking.node.id)
    _describe_node(connection, booking.node.id, sums, newest if is_newest else None)


def _keep_slots(connection: Connection, booking: Booking, sums: PageSums) -> None:
    bulk.insert(
        connection,
        schema.slots,
        ("epoch", "seq", "node_id", "start_ns", "end_ns", "digest", "flags", "line", "controls", *BALANCE_COLUMNS),
        [
            (
                booking.epoch,
                slot.seq,
                booking.node.id,
                slot.start_ns,
                slot.end_ns,
                slot.digest,
                slot.flags,
                zlib.compress(slot.line, 1),
                slot.controls,
                *slot.balance,
            )
            for slot in sums.slots
        ],
    )
    bulk.insert(
        connection,
        schema.quarantine,
        ("epoch", "seq", "node_id", "start_ns", "end_ns", "reason", "residual_uj", "line", "recorded_ns"),
        [
            (
                booking.epoch,
                held.seq,
                booking.node.id,
                held.start_ns,
                held.end_ns,
                held.reason,
                held.residual_uj,
                zlib.compress(held.line, 1),
                booking.now_ns,
            )
            for held in sums.held_back
        ],
    )


def _newest_end(connection: Connection, node_id: int) -> int | None:
    query = select(schema.nodes.c.newest_end_ns).where(schema.nodes.c.id == node_id)
    newest_ns: int | None = connection.execute(query).scalar_one()
    return newest_ns


def _add_usage(connection: Connection, booking: Booking, sums: PageSums, ids: Mapping[RunKey, int]) -> None:
    recent: list[bulk.Row] = []
    old: list[bulk.Row] = []
    merges = {**_USAGE_MERGES, **measured_merges(sums.measured)}
    for key, run in sums.runs.items():
        for start_ns, values in run.buckets.items():
            if start_ns >= booking.buckets_from_ns:
                recent.append((ids[key], start_ns, booking.node.id, run.flags, *compress(values, sums.measured)))
            else:
                hour_ns = booking.grid.hour_start(start_ns)
                old.append((ids[key], hour_ns, booking.node.id, run.flags, *compress(values, sums.measured)))
    bulk.upsert(connection, schema.usage_5m, ("unit_run_id", "start_ns"), merges, recent)
    for row in old:  # one by one: several buckets may fall into one hour
        bulk.upsert(connection, schema.usage_hour, ("unit_run_id", "start_ns"), merges, [row])


def _add_node(connection: Connection, booking: Booking, sums: PageSums) -> None:
    node_id, grid = booking.node.id, booking.grid
    hours: set[int] = set()
    recent: list[bulk.Row] = []
    old: list[bulk.Row] = []
    for start_ns, bucket in sums.buckets.items():
        hour_ns = grid.hour_start(start_ns)
        hours.add(hour_ns)
        figures = (bucket.accounted_ns, bucket.measured_uj, *bucket.balance)
        if start_ns >= booking.buckets_from_ns:
            recent.append((node_id, start_ns, *figures))
        else:
            old.append((node_id, hour_ns, *figures))
    bulk.upsert(connection, schema.node_5m, ("node_id", "start_ns"), _NODE_MERGES, recent)
    for row in old:
        bulk.upsert(connection, schema.node_hour, ("node_id", "start_ns"), _NODE_MERGES, [row])
    touch(connection, node_id, "hour", hours, SLOTS)


def touch(connection: Connection, node_id: int, width: str, starts: set[int], cause: str) -> None:
    """Mark hours or days of a node as to be computed anew."""
    touch_all(connection, width, [(node_id, start_ns, cause) for start_ns in sorted(starts)])


def touch_all(connection: Connection, width: str, marks: Sequence[tuple[int, int, str]]) -> None:
    """Mark hours or days of nodes, each once, as (node, start, cause)."""
    assert all(cause <= SLOTS for _, _, cause in marks)  # of two causes the later by the alphabet stays
    bulk.upsert(
        connection,
        schema.touched,
        ("width", "node_id", "start_ns"),
        {"version": Merge.COUNT_UP, "cause": Merge.LARGER},
        [(width, node_id, start_ns, 1, cause) for node_id, start_ns, cause in marks],
    )


def _describe_node(connection: Connection, node_id: int, sums: PageSums, newest: SlotSums | None) -> None:
    nodes = schema.nodes
    first_ns = min(slot.start_ns for slot in sums.slots)
    connection.execute(
        update(nodes)
        .where(nodes.c.id == node_id, nodes.c.first_start_ns.is_(None) | (nodes.c.first_start_ns > first_ns))
        .values(first_start_ns=first_ns)
    )
    if newest is None:
        return
    balance = dict(zip(BALANCE_COLUMNS, newest.balance, strict=True))
    connection.execute(
        update(nodes)
        .where(nodes.c.id == node_id)
        .values(
            newest_end_ns=newest.end_ns,
            newest_slot_ns=newest.end_ns - newest.start_ns,
            methods=newest.methods,
            # Who reports after it was retired is back.
            retired_ns=case((nodes.c.retired_ns >= newest.end_ns, nodes.c.retired_ns), else_=None),
            **balance,
        )
    )
