"""Rows as CSV (RFC 4180): full precision, units in the header, empty where there is no data."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import StreamingResponse

from kwhere.api.models import AccountView, EnergyJoules, PartJoules, SeriesView, Unit, UsageRowView
from kwhere.core.terms import Component, Part
from kwhere.reports.optional import OptionalFigures
from kwhere.reports.plain_text import spreadsheet_cell

MEDIA_TYPE = "text/csv"

Cell = str | int | float | datetime | None

_GPU_HEADER = ["gpu_allocated_seconds", "gpu_utilization_ratio", "gpu_held_idle_seconds", "gpu_held_idle_joules"]
_ENERGY_HEADER = [f"energy_{component}_{part}_joules" for component in Component for part in Part]

UNIT_HEADER = [
    *("cluster", "manager", "unit", "run", "name", "user", "project", "state", "nodes"),
    *("submitted_at", "started_at", "ended_at", "allocated_cpus", "allocated_memory_bytes", "allocated_gpus"),
    *("power_watts", "cpu_user_seconds", "cpu_system_seconds", "cpu_efficiency_ratio", "memory_peak_bytes"),
    *("gpu_busy_seconds", "energy_joules_total", *_ENERGY_HEADER, "emissions_grams", "method", "quality"),
    *("emissions_marginal_grams", *_GPU_HEADER, "gpu_memory_peak_bytes"),
]

USAGE_HEADER = [
    *("key", "cluster", "kind", "units", "energy_joules_total", *_ENERGY_HEADER),
    *("cpu_seconds", "cpu_allocated_seconds", "gpu_busy_seconds", "emissions_grams", "emissions_marginal_grams"),
    *_GPU_HEADER,
]

ACCOUNT_HEADER = [
    *("cluster", "name", "units", "units_running", "energy_joules_total", "emissions_grams", "last_seen_at"),
    *("description", "parent"),
]

EMBODIED_HEADER = ["embodied_grams", "embodied_grams_min", "embodied_grams_max"]


def optional_header(optional: OptionalFigures, *, of_units: bool) -> list[str]:
    """Return the columns of the figures that are switched on; they stand behind all others."""
    header = ["cost", "cost_currency"] if optional.currency is not None else []
    header += ["water_litres"] if optional.water else []
    return header + (EMBODIED_HEADER if optional.embodied and of_units else [])


def optional_cells(item: Unit | UsageRowView, optional: OptionalFigures) -> list[Cell]:
    """Return the cells of `optional_header`."""
    cells: list[Cell] = [item.cost, item.cost_currency] if optional.currency is not None else []
    cells += [item.water_litres] if optional.water else []
    if optional.embodied and isinstance(item, Unit):
        share = item.embodied_grams
        cells += [None, None, None] if share is None else [share.value, share.min, share.max]
    return cells


def wants_csv(request: Request, given_format: str | None) -> bool:
    """Return whether the answer is to be CSV: `?format=csv`, else an `Accept` that names it and not JSON."""
    if given_format is not None:
        return given_format == "csv"
    accept = request.headers.get("accept", "")
    return MEDIA_TYPE in accept and "application/json" not in accept


def csv_answer(header: Sequence[str], rows: Iterable[Sequence[Cell]], file_name: str) -> StreamingResponse:
    """Return a download that is written as it is read."""
    disposition = f'attachment; filename="{file_name}"'
    return StreamingResponse(
        csv_lines(header, rows), media_type=f"{MEDIA_TYPE}; charset=utf-8", headers={"content-disposition": disposition}
    )


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield the text in pieces of some 32 KiB."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(header)
    for row in rows:
        writer.writerow([_text(cell) for cell in row])
        if buffer.tell() > 32_768:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _text(cell: Cell) -> str | int | float:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.isoformat()
    return spreadsheet_cell(cell) if isinstance(cell, str) else cell


def unit_row(unit: Unit) -> list[Cell]:
    """Return a unit in the order of `UNIT_HEADER`."""
    return [
        *(unit.cluster, unit.manager, unit.unit, unit.run, unit.name, unit.user, unit.project, unit.state),
        " ".join(unit.nodes),
        *(unit.submitted_at, unit.started_at, unit.ended_at),
        *(unit.allocation.cpus, unit.allocation.memory_bytes),
        " ".join(f"{model}:{count:g}" for model, count in unit.allocation.gpus.items()),
        *(unit.power_watts, unit.cpu_seconds.user, unit.cpu_seconds.system, unit.cpu_efficiency_ratio),
        *(unit.memory_peak_bytes, unit.gpu_busy_seconds, unit.energy_joules_total),
        *_energy_cells(unit.energy_joules),
        *(unit.emissions_grams, unit.method, " ".join(unit.quality), unit.emissions_marginal_grams),
        *(*_gpu_cells(unit), unit.gpu_memory_peak_bytes),
    ]


def usage_row(row: UsageRowView) -> list[Cell]:
    """Return a sum in the order of `USAGE_HEADER`."""
    return [
        *(row.key, row.cluster, row.kind, row.units, row.energy_joules_total, *_energy_cells(row.energy_joules)),
        *(
            row.cpu_seconds,
            row.cpu_allocated_seconds,
            row.gpu_busy_seconds,
            row.emissions_grams,
            row.emissions_marginal_grams,
        ),
        *_gpu_cells(row),
    ]


def account_row(account: AccountView) -> list[Cell]:
    """Return a user or project in the order of `ACCOUNT_HEADER`."""
    return [
        *(account.cluster, account.name, account.units, account.units_running, account.energy_joules_total),
        *(account.emissions_grams, account.last_seen_at, account.description, account.parent),
    ]


def _gpu_cells(item: Unit | UsageRowView) -> list[Cell]:
    return [
        *(item.gpu_allocated_seconds, item.gpu_utilization_ratio),
        *(item.gpu_held_idle_seconds, item.gpu_held_idle_joules),
    ]


def _energy_cells(energy: EnergyJoules) -> list[Cell]:
    cells: list[Cell] = []
    for component in Component:
        parts = energy.get(str(component))
        cells += [parts.dynamic, parts.idle] if isinstance(parts, PartJoules) else [None, None]
    return cells


def series_header() -> list[str]:
    """Return the header of series in long form."""
    return ["name", "unit", "label", "time", "unix_seconds", "value"]


def series_rows(series: Iterable[SeriesView]) -> Iterator[list[Cell]]:
    """Yield one row per sample; gaps are left out."""
    for chart in series:
        for column in chart.columns:
            for time_s, value in zip(chart.times, column.values, strict=True):
                if value is not None:
                    yield [chart.name, chart.unit, column.label, datetime.fromtimestamp(time_s, UTC), time_s, value]
