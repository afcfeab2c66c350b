"""`kwhere report`: sums within a span by user, project, manager, cluster, node or day, in sreport's manner."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.streams import say
from kwhere.cli.table import Column, output_width, render
from kwhere.cli.unit_absence import why_not
from kwhere.cli.unit_output import error_document, row_cell
from kwhere.cli.unit_table import currency_of, money
from kwhere.core.errors import NotPermitted
from kwhere.reports.figures import CPU_TIME, ENERGY, GPU_TIME, MASS, NO_DATA, choose_scale, share

KINDS = ("user", "project", "manager", "cluster", "node", "day", "week", "month")
CSV_FIELDS = (
    *("key", "cluster", "kind", "units", "energy_joules_total", "cpu_seconds", "cpu_allocated_seconds"),
    *("gpu_busy_seconds", "emissions_grams"),
)
OPTIONAL_FIELDS = (
    *("emissions_marginal_grams", "cost", "cost_currency", "water_litres"),
    *("gpu_allocated_seconds", "gpu_utilization_ratio", "gpu_held_idle_seconds", "gpu_held_idle_joules"),
)
"""Columns behind the others, where any row has a figure."""


@click.command()
@click.option("--by", type=click.Choice(KINDS), default="user", show_default=True, help="What a row stands for")
@click.option("-S", "--starttime", "start", help="From this time on: ISO 8601, `today`, `now-7days`  [24 h ago]")
@click.option("-E", "--endtime", "end", help="Up to this time  [now]")
@click.option("-u", "--user", help="Only units of this user")
@click.option("-A", "--account", "project", help="Only units of this project (account)")
@click.option("-M", "--cluster", help="Only units of this cluster")
@click.option("-m", "--manager", help="Only units of this manager")
@click.option("-N", "--node", help="Only what this node used")
@click.option("--json", "style", flag_value="json", help="One JSON object, base units, null for unknown")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@click.option("-P", "--parsable2", "style", flag_value="parsable", help="The CSV's columns separated by |")
@click.option("-n", "--noheader", is_flag=True, help="Without a line of headers")
@server_options
def report(
    server: str | None,
    token_file: Path | None,
    state_dir: Path | None,
    *,
    style: str | None,
    noheader: bool,
    start: str | None,
    end: str | None,
    **filters: Any,
) -> int:
    """Sum up what was used within a span; `system` and `unallocated` are rows of their own."""
    from kwhere.cli.moments import read_window

    api = Api(server, token_file, state_dir)
    found = api.get("/usage", {**filters, **read_window(start, end)})
    denied = None if found["items"] else why_not(api, filters)
    if style == "json":
        errors = {"errors": [error_document(NotPermitted(denied))]} if denied else {}
        click.echo(json.dumps({"schema_version": 1, **found, **errors}, indent=1))
    elif style is not None:
        click.echo(_csv(found["items"], "," if style == "csv" else "|", has_header=not noheader), nl=False)
    elif found["items"]:
        if not noheader:
            click.echo(f"{found['span']['from']} to {found['span']['to']}")
        click.echo("\n".join(report_lines(found["by"], found["items"], output_width(), has_header=not noheader)))
    if denied or not (found["items"] or style):
        say(denied or "nothing was booked within this span")
    return 1 if denied else 0


def _csv(items: Sequence[Json], delimiter: str, *, has_header: bool) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    known = [name for name in OPTIONAL_FIELDS if any(item.get(name) is not None for item in items)]
    fields = (*CSV_FIELDS, *known)
    if has_header:
        writer.writerow(fields)
    writer.writerows([[row_cell(item.get(field), is_csv=delimiter == ",") for field in fields] for item in items])
    return stream.getvalue()


def report_lines(by: str, items: Sequence[Json], width: int, *, has_header: bool = True) -> list[str]:
    """Return the lines of the table."""
    energy = choose_scale([item["energy_joules_total"] for item in items], ENERGY)
    mass = choose_scale([item["emissions_grams"] for item in items], MASS)
    cpu = choose_scale([item["cpu_seconds"] for item in items], CPU_TIME)
    gpu = choose_scale([item.get("gpu_allocated_seconds") for item in items], GPU_TIME)
    has_gpus = any(item.get("gpu_allocated_seconds") for item in items)
    currency = currency_of(items)
    all_of_it = sum(item["energy_joules_total"] or 0.0 for item in items)
    columns = [
        Column(by.upper(), shrinks=True, min_width=10),
        Column("CLUSTER", shrinks=True, rank=3),
        Column("KIND", shrinks=True, min_width=4),
        Column("UNITS", is_number=True, rank=1),
        Column(energy.unit, is_number=True),
        Column("SHARE", is_number=True, rank=2),
        Column(f"{mass.unit} CO2e", is_number=True),
        Column(cpu.unit, is_number=True),
        *([Column(gpu.unit, is_number=True), Column(f"idle {gpu.unit}", is_number=True)] if has_gpus else []),
        *([Column(currency, is_number=True)] if currency else []),
    ]
    rows = [
        (
            item["key"] or NO_DATA,
            item["cluster"] or NO_DATA,
            item["kind"],
            str(item["units"]),
            energy.text(item["energy_joules_total"]),
            share(item["energy_joules_total"] / all_of_it if all_of_it and item["energy_joules_total"] else None),
            mass.text(item["emissions_grams"]),
            cpu.text(item["cpu_seconds"]),
            *(
                (gpu.text(item.get("gpu_allocated_seconds")), gpu.text(item.get("gpu_held_idle_seconds")))
                if has_gpus
                else ()
            ),
            *([money(item.get("cost"))] if currency else []),
        )
        for item in items
    ]
    return render(columns, rows, width, has_header=has_header)
