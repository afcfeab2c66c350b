"""Charts of GPUs that a unit held: the devices' own series, each only while it was held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kwhere.core.timespan import Span
from kwhere.series.by_cluster import store_of
from kwhere.series.charts import Chart, ChartColumn
from kwhere.series.functions import Column, Grid, Reduction, align, grid_of, rate, reach_seconds, sum_by
from kwhere.series.store import RawSeries, Selector, SeriesStore


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """A GPU or instance that a unit held on a node, from when to when, and what a line calls it."""

    node: str
    uuid: str
    mig: str
    """UUID of the instance; empty: the whole device."""
    label: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class GpuChartSpec:
    """A chart with a line per place, and per value of the label `by` where there is one."""

    name: str
    title: str
    unit: str
    metric: str
    only: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    is_counter: bool = False
    of_instances: bool = False
    """Whether an instance has the series too; else those of its device say nothing of it alone."""


GPU_CHARTS: Mapping[str, GpuChartSpec] = {
    spec.name: spec
    for spec in (
        GpuChartSpec(
            "gpu_tensor",
            "GPU tensor activity",
            "ratio",
            "kwhere_gpu_activity_ratio",
            {"part": "tensor"},
            of_instances=True,
        ),
        GpuChartSpec("gpu_power", "GPU power", "watts", "kwhere_gpu_power_watts"),
        GpuChartSpec("gpu_clock", "GPU clock", "hertz", "kwhere_gpu_sm_clock_hertz"),
        GpuChartSpec(
            "gpu_throttling",
            "GPU slowed down",
            "ratio",
            "kwhere_gpu_throttled_seconds_total",
            by="cause",
            is_counter=True,
        ),
    )
}
"""Charts of the devices that a unit held."""


def gpu_chart(
    store: SeriesStore, cluster: str, places: Sequence[GpuPlace], name: str, span: Span, step_seconds: float
) -> Chart:
    """Return one chart. Raises Unavailable, SourceError from the store."""
    spec, store = GPU_CHARTS[name], store_of(store, cluster)
    grid = grid_of(span, step_seconds)
    wanted = [place for place in places if spec.of_instances or not place.mig]
    reach = reach_seconds(step_seconds, store.scrape_seconds)
    around = Span(span.start - timedelta(seconds=reach), span.end + timedelta(seconds=reach))
    found = _fetch(store, cluster, tuple({one.node for one in wanted}), spec, around, step_seconds)
    columns = []
    for place in wanted:
        here = found.get(place.node, ())
        mine = [s for s in here if (s.labels.get("uuid"), s.labels.get("mig", "")) == (place.uuid, place.mig)]
        columns += _lines(spec, place, mine, grid, reach)
    return Chart(spec.name, spec.title, spec.unit, step_seconds, grid.times, tuple(columns))


def _fetch(
    store: SeriesStore, cluster: str, nodes: tuple[str, ...], spec: GpuChartSpec, span: Span, step_seconds: float
) -> Mapping[str, list[RawSeries]]:
    """Return the series by node."""
    found: dict[str, list[RawSeries]] = {}
    if not nodes:
        return found
    selector = Selector(spec.metric, {"cluster": cluster, **spec.only}, nodes)
    for series in store.select(selector, span, step_seconds):
        found.setdefault(series.labels.get("node", ""), []).append(series)
    return found


def _lines(
    spec: GpuChartSpec, place: GpuPlace, series: Sequence[RawSeries], grid: Grid, reach: float
) -> list[ChartColumn]:
    """Return the lines of one place; driver and collector may begin a series anew, so those alike are summed.

    Of causes only those that ever were: of a dozen, most never are.
    """
    if spec.is_counter:
        columns = [rate(one, grid, reach) for one in series]
    else:
        columns = [align(one, grid, reach - grid.step_seconds, Reduction.LAST) for one in series]
    grouped = sum_by(columns, [spec.by] if spec.by else [])
    lines = [_line(spec, place, column, grid) for column in grouped]
    return [line for line in lines if any(line.values)] if spec.by else lines


def _line(spec: GpuChartSpec, place: GpuPlace, column: Column, grid: Grid) -> ChartColumn:
    start, end = place.start.timestamp(), place.end.timestamp() + grid.step_seconds
    values = tuple(
        value if start <= time_s <= end else None for time_s, value in zip(grid.times, column.values, strict=True)
    )
    cause = column.labels.get(spec.by, "") if spec.by else ""
    labels = {"node": place.node, "uuid": place.uuid, "mig": place.mig, **({spec.by: cause} if cause else {})}
    return ChartColumn(" ".join(word for word in (place.label, cause) if word), labels, values)
