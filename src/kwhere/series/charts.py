"""Ready chart data of the Unit and Node pages: aligned columns, None for gaps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from kwhere.core.errors import NotFound
from kwhere.core.timespan import Span
from kwhere.series.by_cluster import store_of
from kwhere.series.functions import Column, Grid, Reduction, align, grid_of, mean_by, rate, reach_seconds, sum_by
from kwhere.series.store import RawSeries, Selector, SeriesStore

STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)


class Reading(StrEnum):
    """How a line is made of its series."""

    RATE = "rate"
    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Line:
    """The lines that one metric gives a chart: one per combination of the labels `by`."""

    metric: str
    reading: Reading
    by: tuple[str, ...] = ()
    label: str = ""
    """What the lines are called, before the values of `by`."""
    only: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """A chart by name: what a person calls it, the unit of its axis, its lines."""

    name: str
    title: str
    unit: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """One line of a chart; `values` in the chart's unit, None for a gap."""

    label: str
    labels: Mapping[str, str]
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns over common times: UTC seconds at the end of each step."""

    name: str
    title: str
    unit: str
    step_seconds: float
    times: tuple[float, ...]
    columns: tuple[ChartColumn, ...]


@dataclass(frozen=True, slots=True)
class UnitRef:
    """A unit's series: its labels, and the (node, run) pairs that are this run of it."""

    cluster: str
    manager: str
    unit: str
    node_runs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node's series."""

    cluster: str
    node: str


def _gauges(*metrics: tuple[str, str]) -> tuple[Line, ...]:
    return tuple(Line(metric, Reading.SUM, label=label) for metric, label in metrics)


def _counters(*metrics: tuple[str, str]) -> tuple[Line, ...]:
    return tuple(Line(metric, Reading.RATE, label=label) for metric, label in metrics)


UNIT_CHARTS: Mapping[str, ChartSpec] = {
    spec.name: spec
    for spec in (
        ChartSpec(
            "power",
            "Power",
            "watts",
            (Line("kwhere_unit_energy_joules_total", Reading.RATE, ("component", "part")),),
        ),
        ChartSpec(
            "cpu",
            "CPU",
            "cores",
            (
                Line("kwhere_unit_cpu_seconds_total", Reading.RATE, ("mode",)),
                Line("kwhere_unit_cpus", Reading.SUM, label="allocated"),
            ),
        ),
        ChartSpec(
            "memory",
            "Memory",
            "bytes",
            _gauges(
                ("kwhere_unit_memory_used_bytes", "used"),
                ("kwhere_unit_memory_anon_bytes", "anon"),
                ("kwhere_unit_memory_file_bytes", "file"),
                ("kwhere_unit_memory_shmem_bytes", "shmem"),
                ("kwhere_unit_memory_swap_bytes", "swap"),
                ("kwhere_unit_memory_limit_bytes", "limit"),
            ),
        ),
        ChartSpec(
            "io_bytes",
            "I/O",
            "bytes per second",
            _counters(("kwhere_unit_io_read_bytes_total", "read"), ("kwhere_unit_io_write_bytes_total", "write")),
        ),
        ChartSpec(
            "io_operations",
            "I/O operations",
            "operations per second",
            _counters(
                ("kwhere_unit_io_read_operations_total", "read"), ("kwhere_unit_io_write_operations_total", "write")
            ),
        ),
        ChartSpec(
            "frequency",
            "CPU frequency",
            "hertz",
            (Line("kwhere_unit_cpu_frequency_hertz", Reading.MEAN, ("node",)),),
        ),
        ChartSpec(
            "throttling",
            "Throttling",
            "seconds per second",
            _counters(("kwhere_unit_cpu_throttled_seconds_total", "throttled")),
        ),
        ChartSpec(
            "pressure",
            "Pressure",
            "seconds per second",
            (Line("kwhere_unit_pressure_seconds_total", Reading.RATE, ("resource", "kind")),),
        ),
        ChartSpec(
            "processes",
            "Processes",
            "count",
            _gauges(("kwhere_unit_processes", "processes"), ("kwhere_unit_threads", "threads")),
        ),
        ChartSpec(
            "gpu",
            "GPU busy",
            "ratio",
            (Line("kwhere_unit_gpu_busy_seconds_total", Reading.RATE, ("node", "gpu", "mig")),),
        ),
        ChartSpec(
            "gpu_memory",
            "GPU memory",
            "bytes",
            (Line("kwhere_unit_gpu_memory_used_bytes", Reading.SUM, ("node", "gpu", "mig")),),
        ),
    )
}
"""Charts of a unit, summed over its nodes unless a line says otherwise."""

NODE_CHARTS: Mapping[str, ChartSpec] = {
    spec.name: spec
    for spec in (
        ChartSpec("power", "Power", "watts", (Line("kwhere_node_energy_joules_total", Reading.RATE, ("component",)),)),
        ChartSpec(
            "attribution",
            "Attribution",
            "watts",
            (
                Line("kwhere_unit_energy_joules_total", Reading.RATE, ("part",), "units"),
                Line("kwhere_system_energy_joules_total", Reading.RATE, label="system"),
                Line("kwhere_unallocated_energy_joules_total", Reading.RATE, label="unallocated"),
            ),
        ),
        ChartSpec(
            "platform", "Whole node", "watts", (Line("kwhere_node_platform_joules_total", Reading.RATE, ("source",)),)
        ),
        ChartSpec(
            "meters",
            "Meters",
            "watts",
            (Line("kwhere_node_meter_joules_total", Reading.RATE, ("source", "domain", "socket")),),
        ),
        ChartSpec("cpu", "CPU", "cores", (Line("kwhere_node_cpu_seconds_total", Reading.RATE, ("mode",)),)),
        ChartSpec(
            "frequency",
            "CPU frequency",
            "hertz",
            (Line("kwhere_node_cpu_frequency_hertz", Reading.MEAN, ("socket", "stat")),),
        ),
        ChartSpec(
            "memory",
            "Memory",
            "bytes",
            _gauges(
                ("kwhere_node_memory_total_bytes", "total"),
                ("kwhere_node_memory_available_bytes", "available"),
                ("kwhere_node_memory_free_bytes", "free"),
            ),
        ),
        ChartSpec(
            "temperature",
            "Temperature",
            "celsius",
            (Line("kwhere_node_temperature_celsius", Reading.MEAN, ("sensor",)),),
        ),
        ChartSpec("load", "Load", "processes", _gauges(("kwhere_node_load1", "load 1 min"))),
        ChartSpec("idle", "Idle baseline", "watts", (Line("kwhere_node_idle_watts", Reading.SUM, ("component",)),)),
    )
}
"""Charts of a node."""

_ORDER = ("cpu", "dram", "gpu", "other", "dynamic", "idle", "user", "system", "some", "full", "min", "mean", "max")
"""Words that have an order of their own in every legend; others follow by name."""


def choose_step(span: Span, max_points: int = 1000, scrape_seconds: float = 10.0) -> float:
    """Return the finest round step, no finer than the scrape, that gives at most `max_points` points."""
    wanted = max(span.seconds / max_points, min(scrape_seconds, STEPS_SECONDS[-1]))
    return float(next((step for step in STEPS_SECONDS if step >= wanted), -(-wanted // 86400) * 86400))


def unit_chart(store: SeriesStore, unit: UnitRef, name: str, span: Span, step_seconds: float) -> Chart:
    """Return one chart of a unit. Raises NotFound for an unknown name; Unavailable, SourceError from the store."""
    spec = _find(UNIT_CHARTS, name)
    labels = {"cluster": unit.cluster, "manager": unit.manager, "unit": unit.unit}
    runs = frozenset(unit.node_runs)
    if len(runs) == 1:
        ((labels["node"], labels["run"]),) = runs
    return _draw(_Canvas(store_of(store, unit.cluster), labels, runs, span, step_seconds), spec)


def node_chart(store: SeriesStore, node: NodeRef, name: str, span: Span, step_seconds: float) -> Chart:
    """Return one chart of a node. Raises as `unit_chart` does."""
    spec = _find(NODE_CHARTS, name)
    labels = {"cluster": node.cluster, "node": node.node}
    return _draw(_Canvas(store_of(store, node.cluster), labels, frozenset(), span, step_seconds), spec)


def _find(charts: Mapping[str, ChartSpec], name: str) -> ChartSpec:
    if name not in charts:
        raise NotFound(f"chart {name!r}: expected one of {', '.join(charts)}")
    return charts[name]


@dataclass(frozen=True, slots=True)
class _Canvas:
    """What all lines of one chart share."""

    store: SeriesStore
    labels: Mapping[str, str]
    runs: frozenset[tuple[str, str]]
    """Keep series of these (node, run) only; empty: of any."""
    span: Span
    step_seconds: float

    @property
    def reach_seconds(self) -> float:
        """How far apart two samples may be and still be neighbours."""
        return reach_seconds(self.step_seconds, self.store.scrape_seconds)

    def fetch(self, metric: str, only: Mapping[str, str]) -> Sequence[RawSeries]:
        reach = timedelta(seconds=self.reach_seconds)
        # A curve's first and last step need the neighbours outside.
        around = Span(self.span.start - reach, self.span.end + reach)
        found = self.store.select(Selector(metric, {**self.labels, **only}), around, self.step_seconds)
        if not self.runs:
            return found
        return [s for s in found if (s.labels.get("node", ""), s.labels.get("run", "")) in self.runs]


def _draw(canvas: _Canvas, spec: ChartSpec) -> Chart:
    grid = grid_of(canvas.span, canvas.step_seconds)
    columns = [column for line in spec.lines for column in _columns(canvas, grid, line)]
    return Chart(spec.name, spec.title, spec.unit, canvas.step_seconds, grid.times, tuple(columns))


def _columns(canvas: _Canvas, grid: Grid, line: Line) -> list[ChartColumn]:
    found = canvas.fetch(line.metric, line.only)
    if line.reading is Reading.RATE:
        grouped = sum_by([rate(series, grid, canvas.reach_seconds) for series in found], line.by)
    else:
        age = canvas.reach_seconds - canvas.step_seconds
        group = sum_by if line.reading is Reading.SUM else mean_by
        grouped = group([align(series, grid, age, Reduction.LAST) for series in found], line.by)
    return [_titled(line, column) for column in sorted(grouped, key=lambda column: _rank(line.by, column))]


def _titled(line: Line, column: Column) -> ChartColumn:
    words = [line.label, *(column.labels[name] for name in line.by)]
    return ChartColumn(" ".join(word for word in words if word) or line.metric, column.labels, column.values)


def _rank(by: Sequence[str], column: Column) -> tuple[tuple[int, str], ...]:
    words = (column.labels[name] for name in by)
    return tuple((_ORDER.index(word) if word in _ORDER else len(_ORDER), word) for word in words)
