"""Overview, power and clusters of one who does not see everything: sums over the units that they see, nothing else."""

from collections.abc import Collection, Mapping

from sqlalchemy import Table, func, select

from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.account_records import ClusterRecord
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.power_records import ComponentShares, PowerPoint
from kwhere.database.reading.completeness import aligned, overall
from kwhere.database.reading.figures import Row, energies, sums
from kwhere.database.reading.site import Moment, left_out_of, zones_by_cluster
from kwhere.database.reading.unit_filters import IS_AWAKE, cluster_ids
from kwhere.database.reading.unit_list import list_units
from kwhere.database.reading.usage import UsageFilter, usage_report
from kwhere.database.reading.usage_tables import bucket_ns_of, tables_for
from kwhere.database.records import ComponentMethod, Overview, UnitQuery, UnitSort, UsageBy

_units, _totals, _runs, _clusters = schema.units.c, schema.unit_totals.c, schema.unit_runs.c, schema.clusters.c


def seen_overview(moment: Moment, today: Span, top: int, cluster: str | None) -> Overview:
    """Return power now and today's energy and grams of the units that the asker sees, and the largest of them."""
    report = usage_report(moment, UsageBy.CLUSTER, today, UsageFilter(cluster=cluster))
    grams = [row.emissions_grams for row in report.rows if row.emissions_grams is not None]
    running, powered, power_uw = _running(moment, cluster)
    units = list_units(moment, UnitQuery(cluster=cluster, sort=UnitSort.POWER_WATTS, limit=top)).items
    methods: dict[ComponentMethod, None] = dict.fromkeys(method for unit in units for method in unit.methods)
    return Overview(
        at=from_ns(moment.now_ns),
        power_uw=power_uw if powered or not running else None,
        power_now={},
        today=today,
        energy_today_uj=sum(row.energy_total_uj for row in report.rows),
        emissions_today_grams=sum(grams) if grams else None,
        measured_ratio=None,
        completeness_ratio=overall(moment, schema.node_5m, aligned(today)).completeness_ratio,
        nodes_by_state={},
        units_running=running,
        top_units=units,
        methods=tuple(methods),
        residual_uj=0,
        is_of_site=False,
    )


def _running(moment: Moment, cluster: str | None) -> tuple[int, int, int]:
    """Return how many seen units run, of how many the power now is known, and its sum in microwatts."""
    within = cluster_ids(moment.connection, cluster)
    live = select(_units.id).where(_units.ended_ns.is_(None), _units.cluster_id.in_(within), *moment.sight.units())
    known = select(func.count(), func.sum(_totals.power_uw)).where(
        _totals.unit_id.in_(live), _totals.power_until_ns > moment.now_ns
    )
    awake = select(func.count()).select_from(live.where(IS_AWAKE).subquery())
    running = moment.connection.execute(awake).scalar_one()
    powered, power_uw = moment.connection.execute(known).one()
    return int(running), int(powered), int(power_uw or 0)


def seen_power(moment: Moment, span: Span, step_seconds: float, cluster: str | None) -> tuple[PowerPoint, ...]:
    """Return the seen units' energy by component and part per step, at the finest in buckets of 5 minutes."""
    tables = tables_for(moment, span)
    left_out = left_out_of(moment, None if cluster is None else cluster_ids(moment.connection, cluster))
    return _points(moment, tables.usage, tables.span, step_seconds, cluster, left_out)


def _points(
    moment: Moment, table: Table, span: Span, step_seconds: float, cluster: str | None, left_out: Collection[int]
) -> tuple[PowerPoint, ...]:
    width_ns, start = bucket_ns_of(table), table.c.start_ns
    step_ns = max(width_ns, int(step_seconds * 1e9) // width_ns * width_ns)
    bucket = start - (start - to_ns(span.start)) % step_ns
    names = [f"{component}_{part}_uj" for component in Component for part in ("dynamic", "idle")]
    query = (
        select(bucket.label("start_ns"), *sums(table, names))
        .select_from(table.join(schema.unit_runs, _runs.id == table.c.unit_run_id))
        .join(schema.units, _units.id == _runs.unit_id)
        .where(start >= to_ns(span.start), start < to_ns(span.end), *moment.sight.units())
        .group_by(bucket)
        .order_by(bucket)
    )
    if cluster is not None:
        query = query.where(_units.cluster_id.in_(cluster_ids(moment.connection, cluster)))
    if left_out:
        query = query.where(table.c.node_id.not_in(sorted(left_out)))
    return tuple(_point(row.start_ns, row._mapping, step_ns, moment.now_ns) for row in moment.connection.execute(query))


def _point(start_ns: int, row: Row, step_ns: int, now_ns: int) -> PowerPoint:
    shares = {
        component: ComponentShares(part.dynamic_uj or 0, part.idle_uj or 0, 0, 0)
        for component, part in energies(row).items()
    }
    seconds = max(0, min(step_ns, now_ns - start_ns)) / 1e9
    return PowerPoint(Span(from_ns(start_ns), from_ns(start_ns + step_ns)), shares, seconds)


def seen_clusters(moment: Moment) -> tuple[ClusterRecord, ...]:
    """Return the clusters in which the asker has an account; nodes are left out, power is that of the seen units."""
    zones = zones_by_cluster(moment.connection, moment.site)
    query = select(_clusters.id, _clusters.name).where(_clusters.id.in_(sorted(own_clusters(moment))))
    found = []
    for row in moment.connection.execute(query.order_by(_clusters.name)).all():
        running, powered, power_uw = _running(moment, row.name)
        known = power_uw if powered or not running else None
        found.append(ClusterRecord(row.name, None, {}, running, known, zones.get(row.id)))
    return tuple(found)


def own_clusters(moment: Moment) -> set[int]:
    """Return ids of the clusters in which the asker has an account."""
    ids: Mapping[Table, frozenset[int]] = {
        schema.users: moment.sight.user_ids,
        schema.projects: moment.sight.project_ids,
    }
    return {
        cluster_id
        for table, owned in ids.items()
        if owned
        for cluster_id in moment.connection.execute(
            select(table.c.cluster_id).where(table.c.id.in_(sorted(owned)))
        ).scalars()
    }
