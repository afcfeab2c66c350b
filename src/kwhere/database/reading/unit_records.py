"""Rows of units made into records: their runs, nodes, methods and emissions looked up for a page at once."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import FromClause, func, select

from kwhere.core.quantities import seconds
from kwhere.core.terms import Component, Flag, Method
from kwhere.database import schema
from kwhere.database.chunks import chunks
from kwhere.database.flags import from_bits, to_bits
from kwhere.database.gpu_records import UnitGpu, by_kind
from kwhere.database.grid import from_ns
from kwhere.database.lives import END_LABELS
from kwhere.database.node_names import HostBook
from kwhere.database.power_records import PartEnergy
from kwhere.database.reading.figures import Row, energies, methods, total_uj
from kwhere.database.reading.optional_figures import embodied_of, unit_figures
from kwhere.database.reading.site import Moment
from kwhere.database.reading.unit_gpus import gpu_totals, unit_gpus
from kwhere.database.records import ComponentMethod, NodeRun, UnitEmissions, UnitRecord
from kwhere.database.schema import PEAK_COLUMNS, SUM_COLUMNS

_units, _totals = schema.units.c, schema.unit_totals.c
_LOST = to_bits([Flag.LOST])
Holes = Mapping[int, Sequence[tuple[int, int]]]
"""By node: spans of which slots were lost."""
UNIT_COLUMNS = (
    _units.id,
    schema.clusters.c.name.label("cluster"),
    _units.manager,
    _units.unit,
    _units.run,
    _units.name,
    schema.users.c.name.label("user_name"),
    schema.projects.c.name.label("project_name"),
    _units.labels,
    _units.state,
    _units.submitted_ns,
    _units.started_ns,
    _units.ended_ns,
    _units.queue,
    _units.user_group,
    _units.placed_nodes,
    _units.allocated_cpus,
    _units.allocated_memory_bytes,
    _units.allocated_gpus,
    _units.elapsed_ns,
    _units.is_reported,
    _units.scope_node_id,
    _totals.power_uw,
    _totals.power_until_ns,
)


def unit_join() -> FromClause:
    """Return units with their totals where there are some, cluster, user and project."""
    return (
        schema.units.outerjoin(schema.unit_totals, _units.id == _totals.unit_id)
        .join(schema.clusters, schema.clusters.c.id == _units.cluster_id)
        .outerjoin(schema.users, schema.users.c.id == _units.user_id)
        .outerjoin(schema.projects, schema.projects.c.id == _units.project_id)
    )


def records_of(moment: Moment, rows: Sequence[Row]) -> list[UnitRecord]:
    """Return the records of rows of `UNIT_COLUMNS`, in order."""
    ids = [row["id"] for row in rows]
    runs, emissions, figures = _runs(moment, ids), _emissions(moment, ids), unit_figures(moment, ids)
    gpus = unit_gpus(moment, chunks(ids))
    holes = _holes(moment, {run["node_id"] for found in runs.values() for run in found})
    return [
        replace(
            _record(moment, row, runs[row["id"]], emissions[row["id"]], gpus.get(row["id"], ()), holes),
            figures=tuple(figures.get(row["id"], ())),
            embodied=embodied_of(moment.site, runs[row["id"]]),
        )
        for row in rows
    ]


def _holes(moment: Moment, node_ids: Collection[int]) -> Holes:
    """Return what was lost of nodes, as spans in UTC ns; where the end is not known it is that of the discovery."""
    lost = schema.lost.c
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for chunk in chunks(sorted(node_ids)):
        for row in moment.connection.execute(select(schema.lost).where(lost.node_id.in_(chunk))):
            found[row.node_id].append((row.start_ns or 0, row.end_ns or row.recorded_ns))
    return found


def _has_lost(run: Row, holes: Holes) -> bool:
    """Return whether the run lived while slots of its node were lost."""
    end_ns = run["ended_ns"] or run["newest_end_ns"]
    # A run that ends where the hole begins may have gone on within it.
    return any(run["started_ns"] < end and end_ns >= start for start, end in holes.get(run["node_id"], ()))


def _runs(moment: Moment, ids: Sequence[int]) -> Mapping[int, list[Row]]:
    unit_runs, totals, nodes = schema.unit_runs.c, schema.run_totals.c, schema.nodes.c
    query = (
        select(
            unit_runs.unit_id,
            unit_runs.node_id,
            nodes.name.label("node"),
            nodes.cpus.label("node_cpus"),
            func.coalesce(nodes.first_start_ns, unit_runs.started_ns).label("node_first_start_ns"),
            unit_runs.run,
            unit_runs.node_name,
            unit_runs.methods,
            unit_runs.started_ns,
            unit_runs.ended_ns,
            *(column for column in totals if column.name != "unit_run_id"),
        )
        .select_from(schema.unit_runs)
        .join(schema.run_totals, totals.unit_run_id == unit_runs.id)
        .join(schema.nodes, nodes.id == unit_runs.node_id)
        .order_by(nodes.name, unit_runs.run)
    )
    found: dict[int, list[Row]] = defaultdict(list)
    for chunk in chunks(ids):
        for row in moment.connection.execute(query.where(unit_runs.unit_id.in_(chunk))):
            found[row.unit_id].append(row._mapping)
    return found


def _emissions(moment: Moment, ids: Sequence[int]) -> Mapping[int, list[UnitEmissions]]:
    grams, sources = schema.unit_emissions.c, schema.factor_sources.c
    query = (
        select(
            grams.unit_id,
            sources.reporting,
            sources.provider,
            sources.zone,
            sources.basis,
            sources.scope,
            sources.system,
            grams.quality,
            grams.grams,
        )
        .join(schema.factor_sources, sources.id == grams.source_id)
        .order_by(sources.id)
    )
    found: dict[int, list[UnitEmissions]] = defaultdict(list)
    for chunk in chunks(ids):
        for row in moment.connection.execute(query.where(grams.unit_id.in_(chunk))):
            unit_id, reporting, provider, zone, basis, scope, system, quality, value = row
            item = UnitEmissions(provider, zone, basis, scope, system, quality, value, reporting)
            found[unit_id].append(item)
    return found


@dataclass(frozen=True, slots=True)
class _Sums:
    """Figures of all runs of a unit."""

    figures: Mapping[str, int | None]

    @classmethod
    def of(cls, runs: Sequence[Row]) -> "_Sums":
        figures: dict[str, int | None] = {}
        for name in SUM_COLUMNS:
            known = [run[name] for run in runs if run[name] is not None]
            figures[name] = sum(known) if known else None
        for name in PEAK_COLUMNS:
            figures[name] = max((run[name] for run in runs if run[name] is not None), default=None)
        return cls(figures)

    @property
    def cpu_ns(self) -> int | None:
        user, system = self.figures["cpu_user_ns"], self.figures["cpu_system_ns"]
        return None if user is None and system is None else (user or 0) + (system or 0)


def _record(
    moment: Moment,
    row: Row,
    runs: Sequence[Row],
    emissions: Sequence[UnitEmissions],
    gpus: Sequence[UnitGpu],
    holes: Holes,
) -> UnitRecord:
    sums = _Sums.of(runs)
    figures, energy = sums.figures, energies(sums.figures)
    flags = 0
    for run in runs:
        flags |= run["flags"] | (_LOST if _has_lost(run, holes) else 0)
    known = _methods(runs)
    ended_ns = row["ended_ns"]
    newest_ns = max((run["newest_end_ns"] for run in runs), default=row["started_ns"])
    seen_ns = max(1, (ended_ns or newest_ns) - min(map(_seen_from, runs), default=row["started_ns"]))
    reporting = [item.grams for item in emissions if item.reporting]
    return UnitRecord(
        cluster=row["cluster"],
        manager=row["manager"],
        unit=row["unit"],
        run=row["run"],
        name=row["name"],
        user=row["user_name"],
        project=row["project_name"],
        state=row["state"],
        nodes=_nodes_of(row, runs),
        submitted_at=None if row["submitted_ns"] is None else from_ns(row["submitted_ns"]),
        started_at=from_ns(row["started_ns"]),
        ended_at=None if ended_ns is None else from_ns(ended_ns),
        cpus_allocated=_either(row["allocated_cpus"], _per_time(figures["cpu_allocated_ns"], seen_ns)),
        memory_allocated_bytes=_either(
            row["allocated_memory_bytes"], _memory(figures["memory_allocated_kib_seconds"], seen_ns)
        ),
        gpus_allocated=_gpu_kinds(row, by_kind(gpus)) or _gpus(figures["gpu_allocated_ns"], seen_ns),
        queue=row["queue"],
        group=row["user_group"],
        elapsed_ns=row["elapsed_ns"],
        is_reported=row["is_reported"],
        is_managed=row["scope_node_id"] == 0,
        nodes_unreported=_unreported(row, runs),
        power_uw=_power_now(row, moment),
        cpu_user_ns=figures["cpu_user_ns"],
        cpu_system_ns=figures["cpu_system_ns"],
        cpu_efficiency_ratio=_ratio(sums.cpu_ns, _given_cpu_ns(row, runs)),
        memory_peak_bytes=figures["memory_peak_bytes"],
        gpu_busy_ns=figures["gpu_busy_ns"],
        io_read_bytes=figures["io_read_bytes"],
        io_write_bytes=figures["io_write_bytes"],
        network_receive_bytes=figures["network_receive_bytes"],
        network_transmit_bytes=figures["network_transmit_bytes"],
        throttled_ns=figures["throttled_ns"],
        energy_uj=energy,
        energy_total_uj=total_uj(energy),
        emissions_grams=sum(reporting) if reporting else None,
        emissions=tuple(emissions),
        method=_method(energy, known),
        quality=from_bits(flags) | ({Flag.UNREPORTED} if not row["is_reported"] else set()),
        labels=_labels(row["labels"]),
        node_runs=tuple(_node_run(moment, run) for run in runs),
        methods=known,
        gpu=gpu_totals(figures),
        gpus=tuple(gpus),
    )


_Number = TypeVar("_Number", int, float)


def _labels(written: str | None) -> Mapping[str, str]:
    """Return what stands in labels, without the end that a node noted: that is the unit's end."""
    found: Mapping[str, str] = json.loads(written) if written else {}
    return {name: word for name, word in found.items() if name not in END_LABELS}


def _either(said: _Number | None, seen: _Number | None) -> _Number | None:
    """Return what the manager says it gave, else what nodes saw given."""
    return seen if said is None else said


def _gpu_kinds(row: Row, seen: Mapping[str, float]) -> Mapping[str, float]:
    """Return GPUs by model as the manager has them; nodes know the model where it only counts."""
    said: dict[str, float] = json.loads(row["allocated_gpus"]) if row["allocated_gpus"] else {}
    return seen if seen and set(said) <= {"gpu"} else said


def _nodes_of(row: Row, runs: Sequence[Row]) -> tuple[str, ...]:
    """Return the nodes that account for it; before any does, those its manager placed it on."""
    seen = tuple(dict.fromkeys(run["node"] for run in runs))
    return seen or tuple(json.loads(row["placed_nodes"] or "[]"))


def _unreported(row: Row, runs: Sequence[Row]) -> tuple[str, ...]:
    placed: Sequence[str] = json.loads(row["placed_nodes"] or "[]")
    seen = HostBook({(0, name) for run in runs for name in (run["node"], run["node_name"]) if name})
    return tuple(name for name in placed if not seen.hosts(0, name))


def _power_now(row: Row, moment: Moment) -> int | None:
    """Return the power over the newest slot; None for what has ended or was not heard of for too long."""
    is_now = row["ended_ns"] is None and (row["power_until_ns"] or 0) > moment.now_ns
    power_uw: int | None = row["power_uw"] if is_now else None
    return power_uw


def _node_run(moment: Moment, run: Row) -> NodeRun:
    energy = energies(run)
    seen_ns = max(0, (run["ended_ns"] or run["newest_end_ns"]) - _seen_from(run))
    return NodeRun(
        node=run["node"],
        run=run["run"],
        started_at=from_ns(run["started_ns"]),
        ended_at=None if run["ended_ns"] is None else from_ns(run["ended_ns"]),
        energy_uj=energy,
        energy_total_uj=total_uj(energy),
        power_uw=_power_now(run, moment),
        cpu_ns=_Sums.of([run]).cpu_ns,
        cpu_allocated_ns=run["cpu_allocated_ns"],
        memory_peak_bytes=run["memory_peak_bytes"],
        memory_allocated_bytes=_memory(run["memory_allocated_kib_seconds"], max(1, seen_ns)),
        measured_seconds=seconds(seen_ns),
    )


def _seen_from(run: Row) -> int:
    """Return since when a run was measured, UTC ns: an agent may have come later than it."""
    return int(max(run["started_ns"], run["node_first_start_ns"]))


def _methods(runs: Sequence[Row]) -> tuple[ComponentMethod, ...]:
    """Methods of the run that was seen last; a component that it lacks from the others."""
    found: dict[Component, ComponentMethod] = {}
    for run in sorted(runs, key=lambda run: -int(run["newest_end_ns"])):
        for method in methods(run["methods"]):
            found.setdefault(method.component, method)
    return tuple(found[component] for component in Component if component in found)


def _method(energy: Mapping[Component, PartEnergy], known: Sequence[ComponentMethod]) -> Method | None:
    by_component = {item.component: item.method for item in known}
    if not energy:
        return None
    largest = max(energy, key=lambda component: total_uj({component: energy[component]}))
    return by_component.get(largest)


def _ratio(used: int | None, given: int | None) -> float | None:
    return None if used is None or not given else used / given


def _given_cpu_ns(row: Row, runs: Sequence[Row]) -> int | None:
    """Return the CPU time it was given as its nodes saw it; where one does not know, as its manager says at its end."""
    seen: list[int | None] = [run["cpu_allocated_ns"] for run in runs]
    if seen and None not in seen:
        return sum(each for each in seen if each is not None)
    cpus, elapsed_ns = row["allocated_cpus"], row["elapsed_ns"]
    is_said = cpus is not None and elapsed_ns is not None and row["ended_ns"] is not None and not _unreported(row, runs)
    return int(cpus * elapsed_ns) if is_said else None


def _per_time(given_ns: int | None, seen_ns: int) -> float | None:
    return None if given_ns is None else given_ns / seen_ns


def _memory(kib_seconds: int | None, seen_ns: int) -> int | None:
    return None if kib_seconds is None else int(kib_seconds * 1024 * 1e9 / seen_ns)


def _gpus(given_ns: int | None, seen_ns: int) -> Mapping[str, float]:
    """Return what is known of an agent that names no devices: mean GPUs over the unit's life."""
    return {"gpu": given_ns / seen_ns} if given_ns else {}
