"""A store of series that makes its samples up: every curve is a sine around a level, every counter its integral."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

from tests.fake_units import UNITS

from kwhere.core.timespan import Span
from kwhere.series.retention import Kept
from kwhere.series.store import RawSeries, Selector

GIB = 2**30
COMPONENTS: Mapping[str, Sequence[str]] = {"component": ("cpu", "dram", "other"), "part": ("dynamic", "idle")}
SOCKETS: Mapping[str, Sequence[str]] = {"socket": ("0", "1")}
RESOURCES: Mapping[str, Sequence[str]] = {"resource": ("cpu", "memory", "io"), "kind": ("some", "full")}


@dataclass(frozen=True, slots=True)
class Shape:
    """A metric: its level and swing, and the labels besides cluster, node and the unit's own."""

    level: float
    swing: float = 0.0
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)


SHAPES: Mapping[str, Shape] = {
    "kwhere_unit_energy_joules_total": Shape(24.0, 9.0, COMPONENTS),
    "kwhere_unit_cpu_seconds_total": Shape(9.0, 4.0, {"mode": ("user", "system")}),
    "kwhere_unit_cpus": Shape(32.0),
    "kwhere_unit_cpu_frequency_hertz": Shape(2.9e9, 0.35e9),
    "kwhere_unit_memory_used_bytes": Shape(61 * GIB, 9 * GIB),
    "kwhere_unit_memory_anon_bytes": Shape(44 * GIB, 6 * GIB),
    "kwhere_unit_memory_limit_bytes": Shape(128 * GIB),
    "kwhere_unit_io_read_bytes_total": Shape(46e6, 40e6),
    "kwhere_unit_io_write_bytes_total": Shape(12e6, 9e6),
    "kwhere_unit_pressure_seconds_total": Shape(0.05, 0.04, RESOURCES),
    "kwhere_node_meter_joules_total": Shape(
        95.0, 22.0, {"source": ("powercap",), "domain": ("cpu", "dram"), "socket": ("0", "1")}
    ),
    "kwhere_node_cpu_frequency_hertz": Shape(2.7e9, 0.4e9, {**SOCKETS, "stat": ("min", "mean", "max")}),
    "kwhere_node_cpu_seconds_total": Shape(6.0, 3.0, {"mode": ("user", "system", "iowait")}),
    "kwhere_node_memory_total_bytes": Shape(256 * GIB),
    "kwhere_node_memory_available_bytes": Shape(150 * GIB, 20 * GIB),
    "kwhere_node_memory_free_bytes": Shape(90 * GIB, 12 * GIB),
    "kwhere_node_temperature_celsius": Shape(61.0, 7.0, {"sensor": ("package 0", "package 1", "nvme")}),
    "kwhere_node_load1": Shape(21.0, 8.0),
    "kwhere_node_idle_watts": Shape(27.0, 0.0, {"component": ("cpu",), **SOCKETS}),
    "kwhere_energy_source_up": Shape(1.0, 0.0, {"source": ("powercap",), "reason": ("",)}),
    "kwhere_collector_up": Shape(1.0, 0.0, {"collector": ("cpu", "memory")}),
    "kwhere_node_cpu_governor_info": Shape(1.0, 0.0, {**SOCKETS, "governor": ("performance",)}),
}
PERIOD_SECONDS = 1300.0


@dataclass
class FakeSeries:
    """Answers any selector over `SHAPES`; a gap of ten minutes lies two hours before every span's end."""

    scrape_seconds: float = 10.0
    is_empty: bool = False

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        if selector.nodes:
            alone = [Selector(selector.name, {**selector.labels, "node": node}) for node in sorted(selector.nodes)]
            return [series for each in alone for series in self.select(each, span, step_seconds)]
        shape = SHAPES.get(selector.name)
        if shape is None or self.is_empty:
            return ()
        pairs = self._runs(selector)
        return [
            found for pair in pairs for found in self._of(selector, {**selector.labels, **pair}, span, step_seconds)
        ]

    def _runs(self, selector: Selector) -> Sequence[Mapping[str, str]]:
        """A unit on several nodes has a series on each."""
        unit = selector.labels.get("unit")
        if unit is None or "node" in selector.labels:
            return ({},)
        return [{"node": r.node, "run": r.run} for u in UNITS if u.unit == unit for r in u.node_runs]

    def _of(self, selector: Selector, base: Mapping[str, str], span: Span, step_seconds: float) -> Sequence[RawSeries]:
        shape = SHAPES[selector.name]
        step = max(step_seconds, self.scrape_seconds)
        first = math.ceil(span.start.timestamp() / step)
        last = math.floor(span.end.timestamp() / step)
        times = tuple(at * step for at in range(first, last + 1) if not 7200 <= span.end.timestamp() - at * step < 7800)
        names = list(shape.labels)
        found = []
        for at, values in enumerate(product(*shape.labels.values())):
            labels = {**base, **dict(zip(names, values, strict=True))}
            level, swing = shape.level / (1 + at), shape.swing / (1 + at)
            is_counter = selector.name.endswith("_total")
            found.append(RawSeries(labels, times, tuple(_value(t, level, swing, at, is_counter) for t in times)))
        return found

    def kept(self, cluster: str, now: datetime) -> Kept | None:
        return None

    def close(self) -> None:
        """Nothing is held."""


def _value(time_s: float, level: float, swing: float, phase: int, is_counter: bool) -> float:
    angle = 2 * math.pi * time_s / PERIOD_SECONDS + phase
    if is_counter:
        return level * time_s - swing * math.cos(angle) * PERIOD_SECONDS / (2 * math.pi)
    return level + swing * math.sin(angle)
