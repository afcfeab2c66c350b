"""What `kwhere run` says at the end: the record, its JSON and its text."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kwhere.core.terms import Component, Part
from kwhere.reports.figures import BYTES, MASS, NO_DATA, duration, figure, quantity, significant


@dataclass(frozen=True, slots=True)
class RunReport:
    """One command that ended. None is unknown."""

    unit: str
    exit_code: int
    wall_seconds: float
    user_seconds: float | None = None
    system_seconds: float | None = None
    memory_peak_bytes: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    gpu_busy_seconds: float | None = None
    energy_joules: Mapping[tuple[Component, Part], float] = field(default_factory=dict)
    """Per component and part; a component that nothing measures is absent."""
    emissions_grams: float | None = None
    method: str | None = None
    zone: str | None = None
    accounted_by: str = "this command"
    """Who measured: `the agent`, or `this command` itself."""
    has_begun: bool = True
    """False: there was no such command, so there is nothing to report."""

    @property
    def total_joules(self) -> float | None:
        """Return the sum over components and parts; None where nothing measures."""
        return sum(self.energy_joules.values()) if self.energy_joules else None


def to_json(report: RunReport) -> str:
    """Return the report as one line of JSON: base units, null for unknown."""
    energy: dict[str, object] = {
        component: {part: report.energy_joules.get((component, part)) for part in Part} for component in Component
    }
    energy["total"] = report.total_joules
    return json.dumps(
        {
            "unit": report.unit,
            "exit_code": report.exit_code,
            "wall_seconds": report.wall_seconds,
            "cpu_seconds": {"user": report.user_seconds, "system": report.system_seconds},
            "memory_peak_bytes": report.memory_peak_bytes,
            "io_read_bytes": report.io_read_bytes,
            "io_write_bytes": report.io_write_bytes,
            "gpu_busy_seconds": report.gpu_busy_seconds,
            "energy_joules": energy,
            "emissions_grams": report.emissions_grams,
            "method": report.method,
            "zone": report.zone,
        }
    )


def to_text(report: RunReport) -> str:
    """Return the report as a few aligned lines; every figure with its unit, – for unknown."""
    return "\n".join(f"{name:>8}  {text}" for name, text in _rows(report))


def _rows(report: RunReport) -> Iterator[tuple[str, str]]:
    cpu = _sum(report.user_seconds, report.system_seconds)
    yield "wall", duration(report.wall_seconds)
    parts = f"  (user {_seconds(report.user_seconds)}, system {_seconds(report.system_seconds)})" if cpu else ""
    busy = f"  {significant(cpu / report.wall_seconds)} CPUs busy" if cpu and report.wall_seconds > 0 else ""
    yield "CPU", f"{_seconds(cpu)}{parts}{busy}"
    yield "memory", f"{quantity(report.memory_peak_bytes, BYTES)} at its peak"
    yield "I/O", f"{quantity(report.io_read_bytes, BYTES)} read, {quantity(report.io_write_bytes, BYTES)} written"
    if report.gpu_busy_seconds is not None:
        yield "GPU", f"{_seconds(report.gpu_busy_seconds)} busy"
    yield "energy", _energy(report)
    for component in Component:
        dynamic = report.energy_joules.get((component, Part.DYNAMIC))
        idle = report.energy_joules.get((component, Part.IDLE))
        if dynamic is not None or idle is not None:
            yield component, f"{_joules(dynamic)} dynamic, {_joules(idle)} idle"
    zone = f"zone {report.zone}" if report.zone else "no zone set"
    yield "CO2e", f"{quantity(report.emissions_grams, MASS)}  ({zone})"


def _energy(report: RunReport) -> str:
    if report.total_joules is None:
        return f"{NO_DATA}  (nothing measures here)"
    estimated = ", estimated" if report.method == "modelled" else ""
    mean = f"  mean {figure(report.total_joules / report.wall_seconds)} W" if report.wall_seconds > 0 else ""
    return f"{_joules(report.total_joules)}{mean}  (method {report.method}{estimated}; by {report.accounted_by})"


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _seconds(value: float | None) -> str:
    return NO_DATA if value is None else f"{value:.2f} s"


def _joules(value: float | None) -> str:
    return NO_DATA if value is None else f"{figure(value)} J"
