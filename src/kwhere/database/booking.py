"""The write path: a page's sums into slots, 5-minute usage, lifetime totals and node figures, in one transaction."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select, text, update

from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.grid import Grid
from kwhere.database.identities import ENDED, RUNNING, NodeRow, RunRegistry
from kwhere.database.schema import BALANCE_COLUMNS, FIGURE_COLUMNS, PEAK_COLUMN, SUM_COLUMNS
from kwhere.database.sums import PageSums, RunKey, RunSums, SlotSums

_FIGURE_MERGES = {name: Merge.LARGER if name == PEAK_COLUMN else Merge.ADD for name in FIGURE_COLUMNS}
_USAGE_MERGES = {"node_id": Merge.KEEP, "flags": Merge.BITS, **_FIGURE_MERGES}
_NODE_MERGES = dict.fromkeys(("accounted_ns", "measured_uj", *BALANCE_COLUMNS), Merge.ADD)
_ENERGIES = 8
_CPU = (SUM_COLUMNS.index("cpu_user_ns"), SUM_COLUMNS.index("cpu_system_ns"))
_TOTAL_COLUMNS = (
    "unit_run_id",
    "newest_end_ns",
    "power_uw",
    "power_until_ns",
    "flags",
    "energy_uj",
    "cpu_ns",
    *FIGURE_COLUMNS,
)


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
    ids = registry.resolve(connection, booking.node, sums.runs)
    _add_usage(connection, booking, sums, ids)
    _add_totals(connection, sums, ids)
    connection.execute(_SET_METHODS, {"node_id": booking.node.id, "methods": newest.methods})
    _add_node(connection, booking, sums)
    if is_newest:
        _end_runs(connection, booking.node.id, newest.end_ns)
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
        ("epoch", "seq", "node_id", "start_ns", "end_ns", "reason", "line", "recorded_ns"),
        [
            (
                booking.epoch,
                held.seq,
                booking.node.id,
                held.start_ns,
                held.end_ns,
                held.reason,
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
    for key, run in sums.runs.items():
        for start_ns, values in run.buckets.items():
            if start_ns >= booking.buckets_from_ns:
                recent.append((ids[key], start_ns, booking.node.id, run.flags, *values))
            else:
                hour_ns = booking.grid.hour_start(start_ns)
                old.append((ids[key], hour_ns, booking.node.id, run.flags, *values))
    bulk.upsert(connection, schema.usage_5m, ("unit_run_id", "start_ns"), _USAGE_MERGES, recent)
    for row in old:  # one by one: several buckets may fall into one hour
        bulk.upsert(connection, schema.usage_hour, ("unit_run_id", "start_ns"), _USAGE_MERGES, [row])


def _add_totals(connection: Connection, sums: PageSums, ids: Mapping[RunKey, int]) -> None:
    rows = [_total_row(ids[key], run) for key, run in sums.runs.items()]
    bulk.update(
        connection,
        schema.unit_runs,
        _TOTAL_COLUMNS,
        _total_changes("unit_runs"),
        "unit_runs.id = v.unit_run_id",
        rows,
    )
    bulk.update(
        connection,
        schema.units,
        _TOTAL_COLUMNS,
        {
            **_total_changes("units"),
            "energy_uj": "units.energy_uj + v.energy_uj",
            "cpu_ns": "units.cpu_ns + v.cpu_ns",
            "state": f"CASE WHEN v.newest_end_ns > units.newest_end_ns THEN '{RUNNING}' ELSE units.state END",
        },
        "units.id = r.unit_id",
        rows,
        join=" JOIN unit_runs r ON r.id = v.unit_run_id",
    )


def _total_row(run_id: int, run: RunSums) -> tuple[object, ...]:
    total = run.total
    energy_uj = sum(value for value in total[:_ENERGIES] if value)
    cpu_ns = (total[_CPU[0]] or 0) + (total[_CPU[1]] or 0)
    return (run_id, run.end_ns, run.power_uw, run.power_until_ns, run.flags, energy_uj, cpu_ns, *total)


def _total_changes(table: str) -> dict[str, str]:
    changes = {name: rule.value.format(old=f"{table}.{name}", new=f"v.{name}") for name, rule in _FIGURE_MERGES.items()}
    for name in ("power_uw", "power_until_ns"):
        changes[name] = f"CASE WHEN v.newest_end_ns >= {table}.newest_end_ns THEN v.{name} ELSE {table}.{name} END"
    changes["ended_ns"] = f"CASE WHEN v.newest_end_ns > {table}.newest_end_ns THEN NULL ELSE {table}.ended_ns END"
    changes["newest_end_ns"] = Merge.LARGER.value.format(old=f"{table}.newest_end_ns", new="v.newest_end_ns")
    changes["flags"] = Merge.BITS.value.format(old=f"{table}.flags", new="v.flags")
    return changes


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
    touch(connection, node_id, "hour", hours, "slots")


def touch(connection: Connection, node_id: int, width: str, starts: set[int], cause: str) -> None:
    """Mark hours or days of a node as to be computed anew."""
    bulk.upsert(
        connection,
        schema.touched,
        ("width", "node_id", "start_ns"),
        {"version": Merge.COUNT_UP, "cause": Merge.NEW},
        [(width, node_id, start_ns, 1, cause) for start_ns in sorted(starts)],
    )


_SET_METHODS = text(
    "UPDATE unit_runs SET methods = :methods WHERE node_id = :node_id AND ended_ns IS NULL"
    " AND (methods IS NULL OR methods <> :methods)"
)
_END_RUNS = text(
    "UPDATE unit_runs SET ended_ns = newest_end_ns WHERE node_id = :node_id AND ended_ns IS NULL AND kind = 'unit'"
    " AND newest_end_ns < :newest_end_ns RETURNING unit_id"
)
_END_UNIT = text(
    "UPDATE units SET ended_ns = newest_end_ns, state = :ended WHERE id = :unit_id AND ended_ns IS NULL"
    " AND scope_node_id <> 0"
    " AND NOT EXISTS (SELECT 1 FROM unit_runs r WHERE r.unit_id = units.id AND r.ended_ns IS NULL)"
)


def _end_runs(connection: Connection, node_id: int, newest_end_ns: int) -> None:
    """End the runs that the newest slot no longer names, and their units; a manager's own units it ends itself."""
    ended = connection.execute(_END_RUNS, {"node_id": node_id, "newest_end_ns": newest_end_ns}).scalars().all()
    rows = [{"unit_id": unit_id, "ended": ENDED} for unit_id in sorted({row for row in ended if row is not None})]
    if rows:
        connection.execute(_END_UNIT, rows)


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
            **balance,
        )
    )
