"""One unit: its record, its earlier runs, its power over time."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Table, func, select

from kwhere.core.errors import NotFound
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import from_ns
from kwhere.database.node_states import SLOT_SECONDS
from kwhere.database.power_records import BucketPower
from kwhere.database.reading.bucket_spans import Seen, seen_spans
from kwhere.database.reading.figures import energies, sums, total_uj, whole
from kwhere.database.reading.host_names import named_nodes
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_filters import cluster_ids
from kwhere.database.reading.unit_records import UNIT_COLUMNS, records_of, unit_join
from kwhere.database.reading.usage_tables import bucket_ns_of, tables_for
from kwhere.database.records import UnitRecord
from kwhere.database.schema import SUM_COLUMNS

_units = schema.units.c


def find_unit(
    moment: Moment, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
) -> UnitRecord:
    """Return a unit's record; without `run` that of its newest. Raises NotFound."""
    rows = _rows(moment, _wanted(moment, cluster, manager, unit, run, node), 1)
    if not rows:
        shown = f"{manager} unit {unit}" + (f", run {run}" if run else "")
        raise NotFound(f"{shown}: none in cluster {cluster}")
    record = records_of(moment, [rows[0]._mapping])[0]
    return replace(record, emissions_until=_emissions_until(moment, rows[0].id))


def _emissions_until(moment: Moment, unit_id: int) -> datetime | None:
    """Return up to when a unit's grams are known: they follow its energy by a pass; None: no gram is."""
    runs, totals, marks, hours = schema.unit_runs.c, schema.run_totals.c, schema.touched.c, schema.emissions_hour.c
    its = select(runs.id, runs.node_id, totals.newest_end_ns).join(schema.run_totals, totals.unit_run_id == runs.id)
    rows = moment.connection.execute(its.where(runs.unit_id == unit_id)).all()
    if not rows:
        return None
    newest_ns = max(row.newest_end_ns for row in rows)
    computed = select(func.max(hours.computed_ns)).where(hours.unit_run_id.in_([row.id for row in rows]))
    computed_ns = moment.connection.execute(computed).scalar_one()
    waits = select(marks.start_ns).where(
        marks.width == "hour", marks.node_id.in_({row.node_id for row in rows}), marks.start_ns < newest_ns
    )
    if computed_ns is None or moment.connection.execute(waits.limit(1)).first() is None:
        return None if computed_ns is None else from_ns(newest_ns)
    return from_ns(min(computed_ns, newest_ns))


def earlier_runs(moment: Moment, cluster: str, manager: str, unit: str, limit: int) -> tuple[UnitRecord, ...]:
    """Return records of all runs of a unit, newest first."""
    rows = _rows(moment, _wanted(moment, cluster, manager, unit), limit)
    return tuple(records_of(moment, [row._mapping for row in rows]))


def _wanted(
    moment: Moment, cluster: str, manager: str, unit: str, run: str | None = None, node: str | None = None
) -> list[ColumnElement[bool]]:
    found = [schema.clusters.c.name == cluster, _units.manager == manager, _units.unit == unit]
    if run is not None:
        found.append(_units.run == run)
    if node is not None:
        runs = schema.unit_runs.c
        node_ids = named_nodes(moment.connection, node, cluster_ids(moment.connection, cluster))
        on_node = select(runs.unit_id).where(runs.node_id.in_(node_ids), runs.unit_id.is_not(None), runs.unit == unit)
        found.append(_units.id.in_(on_node))
    return found


def _rows(moment: Moment, wanted: list[ColumnElement[bool]], limit: int) -> list[Row[Any]]:
    query: Select[Any] = select(*UNIT_COLUMNS).select_from(unit_join()).where(*wanted, *moment.sight.units())
    newest = query.order_by(_units.started_ns.desc(), _units.id.desc()).limit(limit)
    return list(moment.connection.execute(newest))


def unit_power(
    moment: Moment, cluster: str, manager: str, unit: str, run: str, span: Span, node: str | None = None
) -> tuple[BucketPower, ...]:
    """Return the unit's energy over all its nodes in the time it was seen in each bucket, in order. Raises NotFound."""
    rows = _rows(moment, _wanted(moment, cluster, manager, unit, run, node), 1)
    if not rows:
        raise NotFound(f"{manager} unit {unit}, run {run}: none in cluster {cluster}")
    tables = tables_for(moment, span)
    usage, runs = tables.usage, schema.unit_runs.c
    run_ids = select(runs.id).where(runs.unit_id == rows[0].id)
    query = (
        select(usage.c.start_ns, *sums(usage, SUM_COLUMNS))
        .where(usage.c.unit_run_id.in_(run_ids), usage.c.start_ns >= tables.start_ns, usage.c.start_ns < tables.end_ns)
        .group_by(usage.c.start_ns)
        .order_by(usage.c.start_ns)
    )
    found = moment.connection.execute(query).all()
    edges = [(row.start_ns, _bucket_end(moment, usage, row.start_ns)) for row in found]
    first_ns, last_ns, slot_ns = _seen(moment, rows[0].id)
    least_ns = min(slot_ns, bucket_ns_of(usage))
    return tuple(
        _bucket(seen, [found[at] for at in seen.buckets]) for seen in seen_spans(edges, (first_ns, last_ns), least_ns)
    )


def _bucket_end(moment: Moment, usage: Table, start_ns: int) -> int:
    return moment.grid.day_end(start_ns) if usage is schema.usage_day else start_ns + bucket_ns_of(usage)


def _seen(moment: Moment, unit_id: int) -> tuple[int, int, int]:
    """Return from when to when agents measured a unit, UTC ns, and the longest of their slots."""
    runs, totals, nodes = schema.unit_runs.c, schema.run_totals.c, schema.nodes.c
    query = (
        select(runs.started_ns, runs.ended_ns, totals.newest_end_ns, nodes.first_start_ns, nodes.slot_seconds)
        .join(schema.run_totals, totals.unit_run_id == runs.id)
        .join(schema.nodes, nodes.id == runs.node_id)
        .where(runs.unit_id == unit_id)
    )
    found = moment.connection.execute(query).all()
    return (
        min((max(row.started_ns, row.first_start_ns or 0) for row in found), default=0),
        max((row.ended_ns or row.newest_end_ns for row in found), default=0),
        max((row.slot_seconds or SLOT_SECONDS for row in found), default=SLOT_SECONDS) * NANOSECONDS_PER_SECOND,
    )


def _bucket(seen: Seen, rows: Sequence[Row[Any]]) -> BucketPower:
    figures = {name: _added(row._mapping[name] for row in rows) for name in SUM_COLUMNS}
    energy = energies(figures)
    user, system = whole(figures["cpu_user_ns"]), whole(figures["cpu_system_ns"])
    return BucketPower(
        span=Span(from_ns(seen.start_ns), from_ns(seen.end_ns)),
        energy_uj=energy,
        energy_total_uj=total_uj(energy),
        cpu_ns=None if user is None and system is None else (user or 0) + (system or 0),
        cpu_allocated_ns=whole(figures["cpu_allocated_ns"]),
    )


def _added(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
