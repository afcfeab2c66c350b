"""Lifetime totals of runs, and of units what lists are sorted by."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

from sqlalchemy import Connection, delete, func, literal, select, update

from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.ended_owners import settle_owners
from kwhere.database.engine import POSTGRESQL
from kwhere.database.schema import FIGURE_COLUMNS, PEAK_COLUMNS, SUM_COLUMNS
from kwhere.database.sums import GpuSums, PageSums, RunKey, RunSums, Values
from kwhere.ledger.gpu_uses import SUM_NAMES as GPU_SUMS
from kwhere.ledger.pages import ENERGY_COLUMN_NAMES

_FIGURE_MERGES = {name: Merge.LARGER if name in PEAK_COLUMNS else Merge.ADD for name in FIGURE_COLUMNS}
_RUN_MERGES = {
    # Of two slots the newer has the power; this stands before newest_end_ns, but every rule sees the old row.
    "power_uw": Merge.NEWER,
    "power_until_ns": Merge.NEWER,
    "newest_end_ns": Merge.LARGER,
    "flags": Merge.BITS,
}
_UNIT_COLUMNS = ("power_uw", "power_until_ns", "newest_end_ns", "energy_uj", "cpu_ns", "gpu_busy_ns")
_UNIT_MERGES = {
    "power_uw": Merge.NEWER,
    "power_until_ns": Merge.NEWER,
    "newest_end_ns": Merge.LARGER,
    "energy_uj": Merge.ADD,
    "cpu_ns": Merge.ADD,
    "gpu_busy_ns": Merge.ADD,
}
_GPU_MERGES = {
    **dict.fromkeys(("gpu_index", "model", "profile", "source", "idle_since_ns"), Merge.NEWER),
    "memory_total_bytes": Merge.UNLESS_NULL,
    "memory_peak_bytes": Merge.LARGER,
    **dict.fromkeys(GPU_SUMS, Merge.ADD),
    "first_start_ns": Merge.SMALLER,
    "newest_end_ns": Merge.LARGER,
}
_ENERGIES = len(ENERGY_COLUMN_NAMES)
_USER, _SYSTEM, _GPU = (SUM_COLUMNS.index(name) for name in ("cpu_user_ns", "cpu_system_ns", "gpu_busy_ns"))


def measured_merges(measured: Iterable[bool]) -> dict[str, Merge]:
    """Return how the figures merge that a page has; the others stay as they are."""
    return dict(compress(_FIGURE_MERGES.items(), measured))


def add_totals(connection: Connection, sums: PageSums, ids: Mapping[RunKey, int]) -> None:
    """Add a page to the lifetime totals of its runs and their units."""
    merges = {**_RUN_MERGES, **measured_merges(sums.measured)}
    run_rows: list[bulk.Row] = []
    unit_rows: list[bulk.Row] = []
    for key, run in sums.runs.items():
        total = run.total or ()
        head = (run.power_uw, run.power_until_ns, run.end_ns)
        run_rows.append((ids[key], *head, run.flags, *compress(total, sums.measured)))
        if key.kind == "unit":
            unit_rows.append(_unit_row(ids[key], run, total))
    bulk.upsert(connection, schema.run_totals, ("unit_run_id",), merges, run_rows)
    gpu_rows = [_gpu_row(ids[key], held) for key, run in sums.runs.items() for held in run.gpus.values()]
    bulk.upsert(connection, schema.run_gpus, ("unit_run_id", "device", "instance"), _GPU_MERGES, gpu_rows)
    _add_to_units(connection, unit_rows)


def _gpu_row(run_id: int, held: GpuSums) -> bulk.Row:
    use = held.use
    return (
        *(run_id, use.device, use.instance, use.index, use.model, use.profile, use.source, use.idle_since_ns),
        *(use.memory_total_bytes, use.memory_peak_bytes, *(getattr(use, name) for name in GPU_SUMS)),
        *(held.start_ns, held.end_ns),
    )


def _unit_row(run_id: int, run: RunSums, total: Values) -> bulk.Row:
    energy_uj = sum(filter(None, total[:_ENERGIES]))
    cpu_ns = (total[_USER] or 0) + (total[_SYSTEM] or 0)
    return (run.power_uw, run.power_until_ns, run.end_ns, energy_uj, cpu_ns, total[_GPU], run_id)


def _add_to_units(connection: Connection, rows: list[bulk.Row]) -> None:
    """The unit of a run is looked up here, in the same transaction: a manager may have claimed it meanwhile."""
    if not rows:
        return
    columns = ("unit_id", *_UNIT_COLUMNS)
    conflict = bulk.conflict(schema.unit_totals, ("unit_id",), _UNIT_MERGES)
    target = f"INSERT INTO unit_totals ({', '.join(columns)}) "
    if connection.dialect.name == POSTGRESQL:
        sums = ", ".join(f"{'max' if name in _NEWEST else 'sum'}(v.{name})" for name in _UNIT_COLUMNS)
        source = (
            f"SELECT r.unit_id, {sums} FROM unnest({', '.join(['%s::bigint[]'] * 7)})"  # noqa: S608 - schema's names
            f" AS v ({', '.join(_UNIT_COLUMNS)}, run_id) JOIN unit_runs r ON r.id = v.run_id"
            # In order: pages of two nodes then never wait for each other crosswise.
            " WHERE r.unit_id IS NOT NULL GROUP BY r.unit_id ORDER BY r.unit_id"
        )
        connection.exec_driver_sql(target + source + conflict, bulk.arrays(rows, ["bigint"] * 7))
    else:
        source = "SELECT unit_id, ?, ?, ?, ?, ?, ? FROM unit_runs WHERE id = ? AND unit_id IS NOT NULL"
        connection.exec_driver_sql(target + source + conflict, rows)
    _sum_power(connection, [row[-1] for row in rows])


def _sum_power(connection: Connection, run_ids: Sequence[object]) -> None:
    """A manager's unit draws on several nodes: its power is the sum over its runs that are still heard of."""
    runs, totals, units = schema.unit_runs.c, schema.run_totals.c, schema.unit_totals
    here = select(runs.unit_id).where(runs.id.in_(run_ids), runs.claim == "claimed").distinct()
    found = [unit_id for unit_id in connection.execute(here).scalars() if unit_id is not None]
    if not found:
        return
    now = (
        select(func.sum(totals.power_uw))
        .join(schema.unit_runs, runs.id == totals.unit_run_id)
        .where(runs.unit_id == units.c.unit_id, runs.ended_ns.is_(None), totals.power_until_ns > units.c.newest_end_ns)
        .scalar_subquery()
    )
    connection.execute(update(units).where(units.c.unit_id.in_(found)).values(power_uw=now))


def sum_unit_totals(connection: Connection, unit_ids: Sequence[int]) -> None:
    """Make the totals of units anew from those of their runs."""
    runs, totals, units = schema.unit_runs.c, schema.run_totals.c, schema.unit_totals
    energy = sum((func.coalesce(totals[name], 0) for name in ENERGY_COLUMN_NAMES), literal(0))
    cpu = func.coalesce(totals.cpu_user_ns, 0) + func.coalesce(totals.cpu_system_ns, 0)
    query = (
        select(
            runs.unit_id,
            func.sum(totals.power_uw),
            func.max(totals.power_until_ns),
            func.max(totals.newest_end_ns),
            func.sum(energy),
            func.sum(cpu),
            func.sum(totals.gpu_busy_ns),
        )
        .join(schema.unit_runs, runs.id == totals.unit_run_id)
        .where(runs.unit_id.in_(unit_ids))
        .group_by(runs.unit_id)
    )
    rows: list[bulk.Row] = [
        tuple(None if value is None else int(value) for value in row) for row in connection.execute(query)
    ]
    connection.execute(delete(units).where(units.c.unit_id.in_(unit_ids)))
    bulk.insert(connection, units, ("unit_id", *_UNIT_COLUMNS), rows)
    settle_owners(connection, unit_ids)
    _sum_power(
        connection, [run_id for (run_id,) in connection.execute(select(runs.id).where(runs.unit_id.in_(unit_ids)))]
    )


_NEWEST = frozenset({"power_until_ns", "newest_end_ns"})
