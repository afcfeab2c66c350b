"""Chart data as the page's script draws it, and the table that stands in its place without script."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from markupsafe import Markup

from kwhere.core.terms import Component
from kwhere.core.timespan import Span
from kwhere.database.power_records import ComponentShares, PowerPoint
from kwhere.reports.figures import Scale
from kwhere.series.charts import Chart, ChartColumn
from kwhere.web.formatting import Column, column_of, number_text

TABLE_ROWS = 24
UNITS: Mapping[str, tuple[str, str | None]] = {
    "watts": ("W", "power"),
    "bytes": ("B", "bytes"),
    "bytes per second": ("B/s", "bytes"),
    "hertz": ("Hz", "frequency"),
    "cores": ("CPUs", None),
    "seconds per second": ("s/s", None),
    "operations per second": ("1/s", None),
    "celsius": ("°C", None),
    "ratio": ("%", None),
    "count": ("", None),
    "processes": ("", None),
}
"""A chart's unit in words → its symbol, and the quantity whose scale the table uses."""


@dataclass(frozen=True, slots=True)
class PageSeries:
    """One line or layer. `colour` is a word of the palette."""

    label: str
    colour: str
    values: Sequence[float | None]
    hatched: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class PageChart:
    """A chart over common times (Unix seconds, each the end of its step).

    `kind` is `line`, `stack` (layers from the bottom up) or `stack+lines` (dashed series are lines over the stack).
    """

    id: str
    title: str
    unit: str
    kind: str
    times: Sequence[float]
    series: Sequence[PageSeries]
    span: Span
    stepped: bool = True
    group: str = "page"
    floor: float = 0.0
    """The axis reaches at least this value."""
    quantity: str | None = None
    note: str = ""

    @property
    def is_stack(self) -> bool:
        """Return whether it has layers, with or without lines over them."""
        return self.kind.startswith("stack")

    @property
    def has_bounds(self) -> bool:
        """Return whether dashed lines lie over its layers."""
        return self.kind == "stack+lines"

    def data(self) -> Markup:
        """Return the JSON for the page's script, safe inside a script element."""
        content = {
            "kind": self.kind,
            "divisor": self.column().scale.divisor,
            "stepped": self.stepped,
            "group": self.group,
            "floor": self.floor,
            "start": self.span.start.timestamp(),
            "end": self.span.end.timestamp(),
            "times": list(self.times),
            "series": [
                {
                    "label": series.label,
                    "colour": series.colour,
                    "hatched": series.hatched,
                    "dashed": series.dashed,
                    "values": [None if v is None else _short(v) for v in series.values],
                }
                for series in self.series
            ],
        }
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - escaped above

    def column(self) -> Column:
        """Return the scale of the table and the legend."""
        values = [value for series in self.series for value in series.values]
        if self.is_stack:
            values.append(max((total for total in self.totals() if total is not None), default=0.0))
        if self.quantity is None:
            return Column("none", Scale(self.unit, 1.0))
        column = column_of(values, self.quantity)
        per_second = "/s" if self.unit.endswith("/s") else ""
        return Column(self.quantity, Scale(column.scale.unit + per_second, column.scale.divisor))

    def totals(self) -> list[float | None]:
        """Return the sum of all layers at each time; None in a gap."""
        sums: list[float | None] = []
        layers = [series.values for series in self.series if not (self.has_bounds and series.dashed)]
        for values in zip(*layers, strict=True):
            known = [value for value in values if value is not None]
            sums.append(sum(known) if known else None)
        return sums

    def newest(self, series: PageSeries) -> str:
        """Return the newest value of a line, on the chart's scale."""
        value = next((v for v in reversed(series.values) if v is not None), None)
        return "–" if value is None else number_text(value / self.column().scale.divisor)

    def newest_total(self) -> str:
        """Return the newest sum of all layers, on the chart's scale."""
        value = next((v for v in reversed(self.totals()) if v is not None), None)
        return "–" if value is None else number_text(value / self.column().scale.divisor)

    def rows(self, zone: ZoneInfo) -> list[tuple[str, list[str]]]:
        """Return at most 24 evenly chosen times with every value, newest first: the chart as a table."""
        divisor = self.column().scale.divisor
        count = len(self.times)
        stride = max(1, -(-count // TABLE_ROWS))
        chosen = range(count - 1, -1, -stride)
        pattern = "%H:%M:%S" if self.span.seconds <= 7200 else "%m-%d %H:%M"
        return [
            (
                datetime.fromtimestamp(self.times[at], UTC).astimezone(zone).strftime(pattern),
                [_table_text(series.values[at], divisor) for series in self.series],
            )
            for at in chosen
        ]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _table_text(value: float | None, divisor: float) -> str:
    return "–" if value is None else number_text(value / divisor)


PARTS: Sequence[tuple[str, str, bool]] = (
    ("units_dynamic_uj", "dynamic", False),
    ("units_idle_uj", "idle", True),
)


def power_stack(chart_id: str, title: str, points: Sequence[PowerPoint], span: Span, note: str = "") -> PageChart:
    """Return nodes' power as a stack: each component's dynamic and idle part, then system and unallocated."""
    watts_per_uj = watts_per_microjoule(points)
    layers: list[PageSeries] = []
    for component in Component:
        for attribute, part, hatched in PARTS:
            values = [
                _share(p.components.get(component), attribute, k) for p, k in zip(points, watts_per_uj, strict=True)
            ]
            layers.append(PageSeries(f"{component} {part}", str(component), values, hatched=hatched))
    for attribute, label in (("system_uj", "system"), ("unallocated_uj", "unallocated")):
        values = [_over_components(p, attribute, k) for p, k in zip(points, watts_per_uj, strict=True)]
        layers.append(PageSeries(label, label, values, hatched=label == "unallocated"))
    shown = [layer for layer in layers if any(layer.values)]
    times = [point.span.end.timestamp() for point in points]
    return _with_first_edge(
        PageChart(chart_id, title, "W", "stack", times, shown, span, quantity="power", note=note),
        points[0].span.start.timestamp() if points else 0.0,
    )


def watts_per_microjoule(points: Sequence[PowerPoint]) -> list[float | None]:
    """Return what makes each bucket's energy its nodes' power; None where nothing was accounted.

    Slots end when they end: a bucket of 10 s may hold two slots of a node, or none. So power is energy over the time
    that is accounted, of one node, times the nodes that the bucket or the one before or after it knows.
    """
    known = [point.nodes if point.node_seconds > 0 else 0 for point in points]
    return [
        max(known[max(0, at - 1) : at + 2]) / point.node_seconds / 1e6 if point.node_seconds > 0 else None
        for at, point in enumerate(points)
    ]


def _share(shares: ComponentShares | None, attribute: str, watts_per_uj: float | None) -> float | None:
    if shares is None or watts_per_uj is None:
        return None
    return float(getattr(shares, attribute)) * watts_per_uj


def _over_components(point: PowerPoint, attribute: str, watts_per_uj: float | None) -> float | None:
    if watts_per_uj is None or not point.components:
        return None
    return sum(float(getattr(shares, attribute)) for shares in point.components.values()) * watts_per_uj


def _with_first_edge(chart: PageChart, start: float) -> PageChart:
    """A point ends its step; the first step needs its beginning too, else it is not drawn."""
    if not chart.times:
        return chart
    series = [PageSeries(s.label, s.colour, [s.values[0], *s.values], s.hatched, s.dashed) for s in chart.series]
    return PageChart(
        *(chart.id, chart.title, chart.unit, chart.kind, [start, *chart.times], series, chart.span),
        *(chart.stepped, chart.group, chart.floor, chart.quantity, chart.note),
    )


def series_chart(chart: Chart, span: Span, kind: str = "line", note: str = "") -> PageChart:
    """Return a chart of the store of series, in the page's colours."""
    unit, quantity = UNITS.get(chart.unit, (chart.unit, None))
    columns = [column for column in chart.columns if any(value is not None for value in column.values)]
    if chart.unit == "ratio":
        columns = [replace(column, values=_percents(column.values)) for column in columns]
    if kind == "stack":
        columns = [column for column in columns if _is_bound(column) or any(column.values)]
    series = [
        _line(column, _rank(columns, column)) for column in columns if not (kind == "stack" and _is_bound(column))
    ]
    bounds = [_line(column, 0) for column in columns if kind == "stack" and _is_bound(column)]
    if bounds:
        kind, series = "stack+lines", [*series, *bounds]
    stepped = kind != "line"
    return PageChart(
        chart.name, chart.title, unit, kind, chart.times, series, span, stepped, quantity=quantity, note=note
    )


def _percents(values: Sequence[float | None]) -> tuple[float | None, ...]:
    return tuple(None if value is None else 100 * value for value in values)


CPU_MODES: Sequence[tuple[str, tuple[str, ...]]] = (
    ("user", ("user", "nice")),
    ("system", ("system",)),
    ("interrupts", ("irq", "softirq")),
    ("waiting for I/O", ("iowait",)),
    ("stolen", ("steal",)),
)
"""What a person sees of the kernel's CPU modes; idle is what is left under the line."""
SMALLEST_CPU_SHARE = 0.002


def fold_cpu_modes(chart: Chart, cpus: int | None) -> Chart:
    """Return the modes that matter, under a line at the node's CPUs."""
    by_mode = {column.labels.get("mode", ""): column.values for column in chart.columns}
    columns = []
    for label, modes in CPU_MODES:
        values = _added([by_mode[mode] for mode in modes if mode in by_mode])
        if max((value for value in values if value is not None), default=0.0) > SMALLEST_CPU_SHARE * (cpus or 1):
            columns.append(ChartColumn(label, {"mode": label}, values))
    if cpus is not None:
        columns.append(ChartColumn("total", {}, tuple(float(cpus) for _ in chart.times)))
    return replace(chart, columns=tuple(columns))


def _added(columns: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    return tuple(
        sum(value for value in values if value is not None) if any(value is not None for value in values) else None
        for values in zip(*columns, strict=True)
    )


BOUNDS = frozenset({"allocated", "limit", "total"})
"""Lines that say what there is, not what was used: dashed, and never part of a stack."""
_LINE_COLOURS = ("accent", "accent-light", "ink", "line-strong", "unallocated")
_RESOURCE_COLOURS = {"cpu": "cpu", "memory": "dram", "io": "ink"}


def _is_bound(column: ChartColumn) -> bool:
    return column.label in BOUNDS


def _rank(columns: Sequence[ChartColumn], column: ChartColumn) -> int:
    """Return which colour of the neutral palette a line has: by socket where lines differ in that, else by order."""
    if _is_bound(column):
        return 0
    sockets = sorted({other.labels.get("socket", "") for other in columns})
    if len(sockets) < len(columns) and "socket" in column.labels:
        return sockets.index(column.labels["socket"])
    return [other for other in columns if not _is_bound(other)].index(column)


def _line(column: ChartColumn, rank: int) -> PageSeries:
    labels = column.labels
    dashed = _is_bound(column) or labels.get("stat") in ("min", "max") or labels.get("kind") == "full"
    dashed = dashed or ("mig" in labels and rank >= len(_LINE_COLOURS))
    return PageSeries(
        f"socket {column.label}" if next(iter(labels), "") == "socket" else column.label,
        "ink" if _is_bound(column) else _colour(labels, rank),
        column.values,
        hatched=labels.get("part") == "idle",
        dashed=dashed,
    )


def _colour(labels: Mapping[str, str], rank: int) -> str:
    component = labels.get("component") or labels.get("domain", "")
    if component in list(Component):
        return component
    if "resource" in labels:
        return _RESOURCE_COLOURS.get(labels["resource"], "ink")
    return _LINE_COLOURS[rank % len(_LINE_COLOURS)]
