"""The first screen in figures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import BUCKET_NS, from_ns, to_ns
from kwhere.database.power_records import ComponentShares
from kwhere.database.reading.completeness import aligned, overall
from kwhere.database.reading.figures import methods, shares
from kwhere.database.reading.node_list import NODE_COLUMNS, state_of_row
from kwhere.database.reading.seen_figures import seen_overview
from kwhere.database.reading.site import Moment, left_out_nodes, reporting_sources
from kwhere.database.reading.unit_filters import RUNS
from kwhere.database.reading.unit_list import list_units
from kwhere.database.records import ComponentMethod, NodeState, Overview, UnitQuery, UnitSort

_units = schema.units.c


def overview(moment: Moment, top: int, cluster: str | None = None) -> Overview:
    """Return power now, today's energy and grams, how complete and how measured, and the largest units now."""
    if not moment.sight.everything:
        return seen_overview(moment, _today(moment), top, cluster)
    rows = _node_rows(moment, cluster)
    within = None if cluster is None else {row.cluster_id for row in rows}
    left_out = left_out_nodes(moment.connection, within)
    counted = [row for row in rows if row.id not in left_out]
    up = [row for row in counted if state_of_row(row, moment.now_ns) is NodeState.UP and row.newest_slot_ns]
    power = _power(up)
    today = _today(moment)
    ids = [row.id for row in counted]
    cover = overall(moment, schema.node_5m, aligned(today), None if cluster is None else ids)
    return Overview(
        at=from_ns(moment.now_ns),
        power_uw=sum(part.total_uj for part in power.values()) if power else None,
        power_now=power,
        today=today,
        energy_today_uj=int(cover.energy_uj),
        emissions_today_grams=_grams(moment, today, ids),
        measured_ratio=cover.measured_ratio,
        completeness_ratio=cover.completeness_ratio,
        nodes_by_state=dict(Counter(state_of_row(row, moment.now_ns) for row in rows)),
        units_running=_running(moment, rows),
        top_units=list_units(moment, UnitQuery(cluster=cluster, sort=UnitSort.POWER_WATTS, limit=top)).items,
        methods=_methods(up),
        residual_uj=_residual(moment, today, ids),
    )


def _node_rows(moment: Moment, cluster: str | None) -> Sequence[Any]:
    query = select(*NODE_COLUMNS).join(schema.clusters, schema.clusters.c.id == schema.nodes.c.cluster_id)
    if cluster is not None:
        query = query.where(schema.clusters.c.name == cluster)
    return moment.connection.execute(query).all()


def _today(moment: Moment) -> Span:
    start_ns = moment.grid.day_start(moment.now_ns)
    return Span(from_ns(start_ns), from_ns(max(moment.now_ns, start_ns + BUCKET_NS)))


def _power(rows: Sequence[Any]) -> dict[Component, ComponentShares]:
    found: dict[Component, list[int]] = {}
    for row in rows:
        for component, part in shares(row._mapping).items():
            held = found.setdefault(component, [0, 0, 0, 0])
            values = (part.units_dynamic_uj, part.units_idle_uj, part.system_uj, part.unallocated_uj)
            for at, energy_uj in enumerate(values):
                held[at] += energy_uj * 1_000_000_000 // row.newest_slot_ns
    return {component: ComponentShares(*found[component]) for component in Component if component in found}


def _methods(rows: Sequence[Any]) -> tuple[ComponentMethod, ...]:
    """Methods in use, each once, in the order of components."""
    found: dict[ComponentMethod, None] = {}
    for row in rows:
        found.update(dict.fromkeys(methods(row.methods)))
    order: Mapping[Component, int] = {component: at for at, component in enumerate(Component)}
    return tuple(sorted(found, key=lambda item: (order[item.component], item.method, item.source)))


def _grams(moment: Moment, today: Span, ids: Sequence[int]) -> float | None:
    table = schema.emissions_hour
    sources = reporting_sources(moment.connection)
    query = select(func.sum(table.c.grams)).where(
        table.c.node_id.in_(list(ids)), table.c.start_ns >= to_ns(today.start), table.c.source_id.in_(sorted(sources))
    )
    grams: float | None = moment.connection.execute(query).scalar_one()
    return grams


def _running(moment: Moment, rows: Sequence[Any]) -> int:
    clusters = sorted({row.cluster_id for row in rows})
    query = select(func.count()).select_from(schema.units)
    return int(moment.connection.execute(query.where(RUNS, _units.cluster_id.in_(clusters))).scalar_one())


def _residual(moment: Moment, today: Span, ids: Sequence[int]) -> int:
    """Slots that do not balance are never booked: what they are off by stands in quarantine."""
    held = schema.quarantine.c
    query = select(func.sum(held.residual_uj)).where(
        held.node_id.in_(list(ids)), held.end_ns >= to_ns(today.start), held.residual_uj > 0
    )
    return int(moment.connection.execute(query).scalar_one() or 0)
