"""GPUs of units, looked up for a page at once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select

from kwhere.database import schema
from kwhere.database.gpu_records import GpuHold, GpuTotals, UnitGpu
from kwhere.database.grid import from_ns
from kwhere.database.reading.figures import Row, whole
from kwhere.database.reading.site import Moment


def unit_gpus(moment: Moment, chunks: Iterable[Sequence[int]]) -> Mapping[int, list[UnitGpu]]:
    """Return the GPUs of units by unit, by node, index and instance."""
    gpus, runs, totals, nodes = schema.run_gpus.c, schema.unit_runs.c, schema.run_totals.c, schema.nodes.c
    query = (
        select(
            runs.unit_id,
            nodes.name.label("node"),
            runs.ended_ns,
            totals.newest_end_ns.label("run_end_ns"),
            *(column for column in gpus if column.name != "unit_run_id"),
        )
        .join(schema.unit_runs, runs.id == gpus.unit_run_id)
        .join(schema.run_totals, totals.unit_run_id == gpus.unit_run_id)
        .join(schema.nodes, nodes.id == runs.node_id)
        .order_by(nodes.name, gpus.gpu_index, gpus.device, gpus.profile, gpus.instance)
    )
    found: dict[int, list[UnitGpu]] = defaultdict(list)
    for chunk in chunks:
        for row in moment.connection.execute(query.where(runs.unit_id.in_(chunk))):
            found[row.unit_id].append(_gpu(row._mapping))
    return found


def gpu_holds(moment: Moment, cluster: str, node: str) -> tuple[GpuHold, ...]:
    """Return who holds GPUs of a node as of its newest slot, by device and instance."""
    gpus, runs, totals, nodes, units = (
        table.c for table in (schema.run_gpus, schema.unit_runs, schema.run_totals, schema.nodes, schema.units)
    )
    query = (
        select(
            units.manager,
            units.unit,
            units.run,
            units.name,
            schema.users.c.name.label("user_name"),
            nodes.name.label("node"),
            runs.ended_ns,
            totals.newest_end_ns.label("run_end_ns"),
            *(column for column in gpus if column.name != "unit_run_id"),
        )
        .join(schema.unit_runs, runs.id == gpus.unit_run_id)
        .join(schema.run_totals, totals.unit_run_id == gpus.unit_run_id)
        .join(schema.nodes, nodes.id == runs.node_id)
        .join(schema.clusters, schema.clusters.c.id == nodes.cluster_id)
        .join(schema.units, units.id == runs.unit_id)
        .outerjoin(schema.users, schema.users.c.id == units.user_id)
        .where(schema.clusters.c.name == cluster, nodes.name == node, runs.ended_ns.is_(None))
        .where(gpus.newest_end_ns >= totals.newest_end_ns, *moment.sight.units())
        .order_by(gpus.gpu_index, gpus.device, gpus.profile, gpus.instance, units.manager, units.unit)
    )
    return tuple(
        GpuHold(row.manager, row.unit, row.run, row.name, row.user_name, _gpu(row._mapping))
        for row in moment.connection.execute(query)
    )


def gpu_totals(figures: Row) -> GpuTotals:
    """Return the sums of a row under the ledger's names."""
    names = ("allocated_ns", "unknown_ns", "busy_ns", "held_idle_ns", "held_idle_uj", "memory_peak_bytes")
    return GpuTotals(*(whole(figures.get(f"gpu_{name}")) for name in names))


def _gpu(row: Row) -> UnitGpu:
    is_held = row["ended_ns"] is None and row["newest_end_ns"] >= row["run_end_ns"]
    idle_ns = row["idle_since_ns"] if is_held else None
    return UnitGpu(
        node=row["node"],
        device=row["device"],
        instance=row["instance"],
        index=row["gpu_index"],
        model=row["model"],
        profile=row["profile"],
        source=row["source"],
        first_at=from_ns(row["first_start_ns"]),
        last_at=from_ns(row["newest_end_ns"]),
        is_held=is_held,
        idle_since=None if idle_ns is None else from_ns(idle_ns),
        held_ns=row["held_ns"] or 0,
        allocated_ns=row["allocated_ns"] or 0,
        place_ns=row["place_ns"] or 0,
        unknown_ns=row["unknown_ns"] or 0,
        busy_ns=row["busy_ns"],
        held_idle_ns=row["held_idle_ns"],
        energy_uj=row["energy_uj"],
        held_idle_uj=row["held_idle_uj"],
        memory_peak_bytes=row["memory_peak_bytes"],
        memory_total_bytes=row["memory_total_bytes"],
    )
