"""Usage summed by user, project, manager, cluster, node, day, week or month within a span."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    select,
)

from kwhere.core.terms import EntryKind
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.emissions import EMISSIONS
from kwhere.database.grid import from_ns
from kwhere.database.periods import PERIODS, Period
from kwhere.database.reading.account_usage import AccountUsage
from kwhere.database.reading.completeness import overall
from kwhere.database.reading.figures import energies, total_uj, whole
from kwhere.database.reading.host_names import named_nodes
from kwhere.database.reading.optional_figures import kinds_of
from kwhere.database.reading.site import Moment, left_out_of
from kwhere.database.reading.unit_filters import cluster_ids
from kwhere.database.reading.unit_gpus import gpu_totals
from kwhere.database.reading.unit_usage import UnitUsage
from kwhere.database.reading.usage_tables import Tables, day_tables, tables_for
from kwhere.database.records import SiteFigure, UnitEmissions, UsageBy, UsageReport, UsageRow
from kwhere.database.site_figures import FIGURES, WHOLE

_runs, _units, _nodes, _clusters = schema.unit_runs.c, schema.units.c, schema.nodes.c, schema.clusters.c
_Key = tuple[Any, ...]


class UsageFilter:
    """What usage is narrowed to; None is everything."""

    def __init__(
        self,
        cluster: str | None = None,
        user: str | None = None,
        project: str | None = None,
        manager: str | None = None,
        node: str | None = None,
    ) -> None:
        self.cluster = cluster
        self.user = user
        self.project = project
        self.manager = manager
        self.node = node

    def conditions(self, moment: Moment) -> list[ColumnElement[bool]]:
        """Return what each row of usage fulfils."""
        found: list[ColumnElement[bool]] = []
        if self.cluster is not None:
            found.append(_nodes.cluster_id.in_(cluster_ids(moment.connection, self.cluster)))
        if self.node is not None:
            within = cluster_ids(moment.connection, self.cluster)
            found.append(_nodes.id.in_(named_nodes(moment.connection, self.node, within)))
        if self.user is not None:
            found.append(schema.users.c.name == self.user)
        if self.project is not None:
            found.append(schema.projects.c.name == self.project)
        if self.manager is not None:
            found.append(_runs.manager == self.manager)
        left_out = self.left_out(moment)
        if left_out:
            found.append(_nodes.id.not_in(sorted(left_out)))
        return [*found, *moment.sight.units()]

    def left_out(self, moment: Moment) -> frozenset[int]:
        """Return ids of guests that sums leave out; one that is asked for by name is not."""
        if self.node is not None:
            return frozenset()
        within = None if self.cluster is None else cluster_ids(moment.connection, self.cluster)
        return left_out_of(moment, within)


def usage_report(moment: Moment, by: UsageBy, span: Span, narrowed: UsageFilter) -> UsageReport:
    """Return the rows of a report, largest first; days, weeks and months in order, whole ones."""
    tables = day_tables(moment, span, by) if by in PERIODS else tables_for(moment, span)
    source = _source(moment, by, tables, narrowed)
    beside = _Beside(_emissions(moment, source), _figures(moment, source))
    cut = {period.start_ns: period for period in tables.periods} if by in PERIODS else {}
    rows = [_row(cut, row, beside) for row in source.energy()]
    if by in PERIODS:
        rows.sort(key=lambda row: (row.key or "", row.kind))
    else:
        rows.sort(key=lambda row: (-row.energy_total_uj, row.key or "", row.cluster or "", row.kind))
    ids = None if narrowed.cluster is None and narrowed.node is None else _node_ids(moment, narrowed)
    cover = overall(moment, tables.node, tables.span, ids)
    return UsageReport(by, tables.span, tuple(rows), cover.completeness_ratio, cover.measured_ratio)


def _source(moment: Moment, by: UsageBy, tables: Tables, narrowed: UsageFilter) -> UnitUsage | AccountUsage:
    """Return what sums are read from: whole days of accounts where nothing finer is asked for."""
    is_coarse = tables.usage is schema.usage_day and by is not UsageBy.NODE and narrowed.node is None
    if is_coarse and moment.sight.everything:
        return AccountUsage(moment, by, tables, narrowed, narrowed.left_out(moment))
    return UnitUsage(moment, by, tables, narrowed.conditions(moment))


def _node_ids(moment: Moment, narrowed: UsageFilter) -> list[int]:
    within = cluster_ids(moment.connection, narrowed.cluster)
    if narrowed.node is not None:
        return named_nodes(moment.connection, narrowed.node, within)
    query = select(_nodes.id).where(_nodes.cluster_id.in_(within))
    left_out = narrowed.left_out(moment)
    return [node_id for node_id in moment.connection.execute(query).scalars() if node_id not in left_out]


class _Beside(NamedTuple):
    """What stands beside energy, by key, cluster and kind of the row."""

    emissions: Mapping[_Key, Sequence[UnitEmissions]]
    figures: Mapping[_Key, Sequence[SiteFigure]]


def _emissions(moment: Moment, source: UnitUsage | AccountUsage) -> Mapping[_Key, Sequence[UnitEmissions]]:
    sources = {row.id: row for row in moment.connection.execute(select(*schema.factor_sources.c))}
    rows: dict[_Key, list[UnitEmissions]] = defaultdict(list)
    for row in source.amounts("emissions") if sources else ():
        its = sources[row.its]
        words = (its.provider, its.zone, its.basis, its.scope, its.system, EMISSIONS.qualities[row.rank])
        rows[row.key, row.cluster, row.kind].append(UnitEmissions(*words, row.amount, its.reporting))
    return rows


def _figures(moment: Moment, source: UnitUsage | AccountUsage) -> Mapping[_Key, Sequence[SiteFigure]]:
    kinds = kinds_of(moment)
    rows: dict[_Key, list[SiteFigure]] = defaultdict(list)
    for row in source.amounts("figures") if kinds else ():
        figure = SiteFigure(*kinds[row.its], row.amount, FIGURES.qualities[row.rank] == WHOLE)
        rows[row.key, row.cluster, row.kind].append(figure)
    return rows


def _row(cut: Mapping[int, Period], row: Any, beside: _Beside) -> UsageRow:
    figures = row._mapping
    energy = energies(figures)
    user, system = whole(figures["cpu_user_ns"]), whole(figures["cpu_system_ns"])
    period = cut.get(row.key)
    its = (row.key, row.cluster, row.kind)
    emissions = tuple(beside.emissions.get(its, ()))
    reporting = [item.grams for item in emissions if item.reporting]
    return UsageRow(
        key=period.key if period else (row.key or None),
        cluster=row.cluster,
        kind=EntryKind(row.kind),
        units=int(row.units),  # a sum of integers is a decimal to PostgreSQL
        energy_uj=energy,
        energy_total_uj=total_uj(energy),
        cpu_ns=None if user is None and system is None else (user or 0) + (system or 0),
        cpu_allocated_ns=whole(figures["cpu_allocated_ns"]),
        gpu_busy_ns=whole(figures["gpu_busy_ns"]),
        emissions_grams=sum(reporting) if reporting else None,
        emissions=emissions,
        figures=tuple(beside.figures.get(its, ())),
        gpu=gpu_totals(figures),
        span=Span(from_ns(period.start_ns), from_ns(period.end_ns)) if period else None,
    )
