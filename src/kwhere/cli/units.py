"""`kwhere units`: the list of units, in sacct's manner."""

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.table import Column, output_width, render
from kwhere.reports.figures import CPU_TIME, ENERGY, MASS, NO_DATA, POWER, choose_scale, significant

SORTS = ("energy_joules", "power_watts", "cpu_seconds", "gpu_busy_seconds", "started_at", "ended_at")

CSV_FIELDS: dict[str, Callable[[Json], Any]] = {
    "cluster": lambda u: u["cluster"],
    "manager": lambda u: u["manager"],
    "unit": lambda u: u["unit"],
    "run": lambda u: u["run"],
    "name": lambda u: u["name"],
    "user": lambda u: u["user"],
    "project": lambda u: u["project"],
    "state": lambda u: u["state"],
    "started_at": lambda u: u["started_at"],
    "ended_at": lambda u: u["ended_at"],
    "power_watts": lambda u: u["power_watts"],
    "energy_joules": lambda u: u["energy_joules_total"],
    "cpu_seconds": lambda u: cpu_seconds(u),
    "emissions_grams": lambda u: u["emissions_grams"],
    "method": lambda u: u["method"],
    "gpus_allocated": lambda u: gpus_allocated(u),
    "gpu_busy_seconds": lambda u: u.get("gpu_busy_seconds"),
    "gpu_utilization_ratio": lambda u: u.get("gpu_utilization_ratio"),
    "gpu_held_idle_seconds": lambda u: u.get("gpu_held_idle_seconds"),
    "gpu_held_idle_joules": lambda u: u.get("gpu_held_idle_joules"),
}

FORMAT_FIELDS: dict[str, Callable[[Json], Any]] = {
    **CSV_FIELDS,
    "nodes": lambda u: " ".join(u["nodes"]),
    "submitted_at": lambda u: u.get("submitted_at"),
    "queue": lambda u: u.get("queue"),
    "group": lambda u: u.get("group"),
    "emissions_marginal_grams": lambda u: u.get("emissions_marginal_grams"),
    "cost": lambda u: u.get("cost"),
    "cost_currency": lambda u: u.get("cost_currency"),
    "water_litres": lambda u: u.get("water_litres"),
    "embodied_grams": lambda u: (u.get("embodied_grams") or {}).get("value"),
    "embodied_grams_min": lambda u: (u.get("embodied_grams") or {}).get("min"),
    "embodied_grams_max": lambda u: (u.get("embodied_grams") or {}).get("max"),
}
"""What `--format` may name."""


def cpu_seconds(item: Json) -> float | None:
    """Return user + system CPU seconds of a unit; None where not measured."""
    parts = item.get("cpu_seconds") or {}
    known = [value for value in (parts.get("user"), parts.get("system")) if value is not None]
    return sum(known) if known else None


def gpus_allocated(item: Json) -> float | None:
    """Return how many GPUs and instances a unit was given, shares as fractions; None for none."""
    return sum((item.get("allocation") or {}).get("gpus", {}).values()) or None


def count(value: float | None) -> str:
    """Return a number of GPUs: whole where it is, else two digits."""
    return NO_DATA if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


@click.command()
@click.option("-u", "--user", help="Only units of this user")
@click.option("-A", "--account", "project", help="Only units of this project (account)")
@click.option("-M", "--cluster", help="Only units of this cluster")
@click.option("-m", "--manager", help="Only units of this manager: slurm, kubernetes, docker, systemd, process, …")
@click.option("-s", "--state", help="Only units in this state: running, ended  [running with --sort power_watts]")
@click.option("-S", "--starttime", "start", help="Units alive after this time: ISO 8601, `today`, `now-7days`")
@click.option("-E", "--endtime", "end", help="Units alive before this time")
@click.option("-q", "--query", help="Only units whose id, name or user contains this text")
@click.option("--sort", type=click.Choice(SORTS), default="energy_joules", show_default=True)
@click.option("--ascending", is_flag=True, help="Smallest first")
@click.option("-n", "--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True)
@click.option("--json", "style", flag_value="json", help="One JSON object, base units, null for unknown")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@click.option("-o", "--format", "fields", help="Only these columns, comma-separated, in base units; `help` lists them")
@click.option("-P", "--parsable2", "style", flag_value="parsable", help="The CSV's columns separated by |")
@server_options
def units(
    server: str | None,
    token_file: Path | None,
    state_dir: Path | None,
    *,
    style: str | None,
    sort: str,
    ascending: bool,
    limit: int,
    fields: str | None,
    **filters: Any,
) -> None:
    """List units and what they used: the largest consumers first."""
    from kwhere.cli.moments import parse_moment

    if fields == "help":
        click.echo("\n".join(FORMAT_FIELDS))
        return
    chosen = None if fields is None else parse_fields(fields)

    api = Api(server, token_file, state_dir)
    start, end = filters.pop("start"), filters.pop("end")
    if sort == "power_watts" and filters["state"] is None:
        filters["state"] = "running"  # who draws power now: what has just ended does not
    params = {
        **{("q" if key == "query" else key): value for key, value in filters.items()},
        "from": parse_moment(start) if start else None,
        "to": parse_moment(end) if end else None,
        "sort": sort if ascending else f"-{sort}",
    }
    items = list(api.pages("/units", params, limit))
    write(items, style, chosen)


def parse_fields(text: str) -> list[str]:
    """Return the columns that `--format` names. Raises UsageError for one that there is not."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in FORMAT_FIELDS]
    if unknown or not names:
        found = f"found {unknown[0]!r}" if unknown else "found none"
        raise click.UsageError(f"--format: expected of {', '.join(FORMAT_FIELDS)}; {found}")
    return names


def write(items: Sequence[Json], style: str | None, chosen: Sequence[str] | None = None) -> None:
    """Print units in one of the styles; `chosen`: these columns alone."""
    if style == "json":
        click.echo(json.dumps({"schema_version": 1, "items": items}, indent=1))
    elif style in ("csv", "parsable"):
        click.echo(_csv(items, "," if style == "csv" else "|", chosen or list(CSV_FIELDS)), nl=False)
    elif chosen is not None:
        click.echo("\n".join(_chosen(items, chosen)))
    elif not items:
        click.echo("no units match; a new one shows after its first slot", err=True)
    else:
        click.echo("\n".join(_table(items, output_width())))


def _chosen(items: Sequence[Json], names: Sequence[str]) -> list[str]:
    cells = [[FORMAT_FIELDS[name](item) for name in names] for item in items]
    is_number = [any(isinstance(row[at], int | float) for row in cells) for at in range(len(names))]
    columns = [Column(name, is_number=number) for name, number in zip(names, is_number, strict=True)]
    rows = [tuple(NO_DATA if cell is None or cell == "" else _cell(cell) for cell in row) for row in cells]
    return render(columns, rows, output_width())


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _csv(items: Sequence[Json], delimiter: str, names: Sequence[str]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[FORMAT_FIELDS[name](item) for name in names] for item in items])
    return stream.getvalue()


def currency_of(items: Sequence[Json]) -> str | None:
    """Return the one currency of all costs; None: no cost is known, or several currencies are."""
    found = {item.get("cost_currency") for item in items} - {None}
    return found.pop() if len(found) == 1 else None


def money(amount: float | None) -> str:
    """Return an amount of money; a dash where it is not known."""
    return NO_DATA if amount is None else f"{amount:.2f}" if abs(amount) >= 1 else significant(amount)


def percent(ratio: float | None) -> str:
    """Return a ratio for a column of percent."""
    return NO_DATA if ratio is None else f"{100 * ratio:.0f}"


def name_beside(item: Json) -> str:
    """Return the unit's name where its id does not say it already."""
    name = item["name"] or ""
    return "" if name == item["unit"] or item["unit"].endswith(f":{name}") else name


def _table(items: Sequence[Json], width: int) -> list[str]:
    energy = choose_scale([i["energy_joules_total"] for i in items], ENERGY)
    power = choose_scale([i["power_watts"] for i in items], POWER)
    mass = choose_scale([i["emissions_grams"] for i in items], MASS)
    cpu = choose_scale([cpu_seconds(i) for i in items], CPU_TIME)
    currency = currency_of(items)
    has_gpus = any(gpus_allocated(i) is not None for i in items)
    columns = [
        Column("MANAGER", shrinks=True),
        Column("UNIT", shrinks=True, min_width=10),
        Column("USER", shrinks=True),
        Column("STATE", shrinks=True, min_width=5),
        Column(power.unit, is_number=True),
        Column(energy.unit, is_number=True),
        Column(f"{mass.unit} CO2e", is_number=True),
        Column(cpu.unit, is_number=True),
        *([Column("GPUS", is_number=True), Column("GPU %", is_number=True)] if has_gpus else []),
        *([Column(currency, is_number=True)] if currency else []),
        Column("NAME", shrinks=True),
    ]
    rows = [
        (
            item["manager"],
            item["unit"],
            item["user"] or NO_DATA,
            item["state"] or NO_DATA,
            power.text(item["power_watts"]),
            energy.text(item["energy_joules_total"]),
            mass.text(item["emissions_grams"]),
            cpu.text(cpu_seconds(item)),
            *((count(gpus_allocated(item)), percent(item.get("gpu_utilization_ratio"))) if has_gpus else ()),
            *([money(item.get("cost"))] if currency else []),
            name_beside(item),
        )
        for item in items
    ]
    lines = render(columns, rows, width)
    if all(item["method"] == "modelled" for item in items):
        print("energy is estimated: no meter is readable (method modelled)", file=sys.stderr)
    return lines
