"""A unit's charts: from the store of series where there is one, its power from the account where there is not."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.core.terms import Component, Part
from kwhere.core.timespan import Span
from kwhere.database.power_records import BucketPower
from kwhere.database.records import UnitRecord
from kwhere.reports.figures import utc_of
from kwhere.reports.sources import Sources
from kwhere.reports.store_words import not_kept, store_failure
from kwhere.reports.unit_gpus import gpu_places, named_gpus, worded_causes
from kwhere.series.charts import UNIT_CHARTS, Chart, ChartColumn, UnitRef, unit_chart
from kwhere.series.gpu_charts import GPU_CHARTS, gpu_chart
from kwhere.series.store import SeriesStore

UNIT_CHART_NAMES: tuple[str, ...] = (*UNIT_CHARTS, *GPU_CHARTS)
"""What can be asked for."""
CHART_TITLES: Mapping[str, str] = {
    **{name: spec.title for name, spec in UNIT_CHARTS.items()},
    **{name: spec.title for name, spec in GPU_CHARTS.items()},
}


def lifetime_of(record: UnitRecord, now: datetime) -> Span:
    """Return the span from a unit's start to its end, or to now; never empty."""
    end = record.ended_at or now
    return Span(record.started_at, max(end, record.started_at + timedelta(seconds=1)))


def seen_span(sources: Sources, record: UnitRecord, span: Span) -> Span | None:
    """Return the part of `span` that may be drawn; None: nothing of it.

    A GPU or a socket was somebody else's before and afterwards: who does not see everything sees a unit's own life.
    """
    if sources.principal.sees_everything:
        return span
    life = lifetime_of(record, utc_of(sources.clock.utc_ns()))
    start, end = max(span.start, life.start), min(span.end, life.end)
    return Span(start, end) if start < end else None


def unit_charts(
    sources: Sources, record: UnitRecord, names: Sequence[str], span: Span, step_seconds: float
) -> tuple[list[Chart], dict[str, str]]:
    """Return the charts of `names` that have data, and why the others have none."""
    charts: list[Chart] = []
    missing: dict[str, str] = {}
    seen = seen_span(sources, record, span)
    if seen is None:
        return charts, dict.fromkeys(names, "the unit did not live within this span")
    span = seen
    for name in names:
        chart, reason = _one_chart(sources, record, name, span, step_seconds)
        if chart is None:
            missing[name] = reason
        else:
            charts.append(chart)
    return charts, missing


def _one_chart(
    sources: Sources, record: UnitRecord, name: str, span: Span, step_seconds: float
) -> tuple[Chart | None, str]:
    chart, reason = _from_series(sources, record, name, span, step_seconds)
    if chart is None and name == "power":
        chart = _from_account(sources, record, span)
    return chart, reason


def _from_series(
    sources: Sources, record: UnitRecord, name: str, span: Span, step_seconds: float
) -> tuple[Chart | None, str]:
    if sources.series is None:
        return None, "no store of series is set up"
    try:
        chart = _drawn(sources.series, record, name, span, step_seconds)
    except NoData as error:
        return None, str(error)
    except (Unavailable, SourceError) as error:
        return None, store_failure(sources, error)
    if not any(value is not None for column in chart.columns for value in column.values):
        return None, not_kept(sources, record.cluster, span) or (
            "no samples in this span: the unit was shorter than two scrapes, or the node does not measure it"
        )
    return chart, ""


def _drawn(store: SeriesStore, record: UnitRecord, name: str, span: Span, step_seconds: float) -> Chart:
    if name in GPU_CHARTS:
        chart = gpu_chart(store, record.cluster, gpu_places(record.gpus), name, span, step_seconds)
        return worded_causes(chart) if GPU_CHARTS[name].by else chart
    ref = UnitRef(record.cluster, record.manager, record.unit, tuple((run.node, run.run) for run in record.node_runs))
    return named_gpus(unit_chart(store, ref, name, span, step_seconds), record.gpus)


def _from_account(sources: Sources, record: UnitRecord, span: Span) -> Chart | None:
    buckets = sources.account.unit_power(record.cluster, record.manager, record.unit, record.run, span)
    return power_chart(buckets) if buckets else None


def power_chart(buckets: Sequence[BucketPower]) -> Chart:
    """Return mean watts per component and part; as in all charts, a point ends the time it stands for.

    The area under it is the energy: where nothing was seen between two buckets there is a point without a value.
    """
    points = list(_points(buckets))
    columns: list[ChartColumn] = []
    for component in Component:
        for part in Part:
            values = tuple(None if bucket is None else _watts(bucket, component, part) for _, bucket in points)
            if any(value is not None for value in values):
                labels = {"component": str(component), "part": str(part)}
                columns.append(ChartColumn(f"{component} {part}", labels, (values[1], *values[1:])))
    step_seconds = max(bucket.span.seconds for bucket in buckets)
    return Chart("power", "Power", "watts", step_seconds, tuple(time_s for time_s, _ in points), tuple(columns))


def _points(buckets: Sequence[BucketPower]) -> Iterator[tuple[float, BucketPower | None]]:
    """Yield the time at which each point ends, and what it stands for; None: for nothing that was seen."""
    reached: datetime | None = None
    for bucket in buckets:
        if bucket.span.start != reached:
            yield bucket.span.start.timestamp(), None
        yield bucket.span.end.timestamp(), bucket
        reached = bucket.span.end


def _watts(bucket: BucketPower, component: Component, part: Part) -> float | None:
    energy = bucket.energy_uj.get(component)
    if energy is None:
        return None
    energy_uj = energy.dynamic_uj if part is Part.DYNAMIC else energy.idle_uj
    return None if energy_uj is None else energy_uj / MICROJOULES_PER_JOULE / bucket.span.seconds
