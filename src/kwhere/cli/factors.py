"""`kwhere factors`: the emission factors in force and since when; the greenest hours ahead."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.streams import say
from kwhere.cli.table import Column, output_width, render
from kwhere.cli.unit_output import row_cell
from kwhere.reports.figures import NO_DATA, significant

QUALITIES = ("measured", "estimated", "forecast", "static")
ALWAYS_YEAR = 1970
"""A factor since then is one without a beginning."""
Fields = Mapping[str, Callable[[Json], Any]]

CSV_FIELDS: Fields = {
    **{
        name: lambda item, name=name: item[name]  # type: ignore[misc]
        for name in ("zone", "provider", "grams_per_kwh", "basis", "scope", "system", "quality")
    },
    "from": lambda item: item["span"]["from"],
    "to": lambda item: item["span"]["to"],
    "published_at": lambda item: item["published_at"],
    "reporting": lambda item: str(item["reporting"]).lower(),
    "source": lambda item: item["source"],
}
FORECAST_FIELDS: Fields = {
    **{
        name: lambda item, name=name: item[name]  # type: ignore[misc]
        for name in ("zone", "provider", "basis", "scope", "system")
    },
    "from": lambda item: (item["window"] or {}).get("from"),
    "to": lambda item: (item["window"] or {}).get("to"),
    **{
        name: lambda item, name=name: item[name]  # type: ignore[misc]
        for name in ("grams_per_kwh", "now_grams_per_kwh", "mean_grams_per_kwh", "published_at", "source")
    },
}


@click.group(invoke_without_command=True)
@click.option("-z", "--zone", help="Only of this zone")
@click.option("-S", "--starttime", "start", help="All factors after this time: ISO 8601, `today`, `now-7days`")
@click.option("-E", "--endtime", "end", help="All factors before this time")
@click.option("--json", "style", flag_value="json", help="One JSON object, base units, null for unknown")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@server_options
@click.pass_context
def factors(
    context: click.Context,
    server: str | None,
    token_file: Path | None,
    state_dir: Path | None,
    *,
    style: str | None,
    zone: str | None,
    start: str | None,
    end: str | None,
) -> None:
    """List the emission factors in force, since when and from whom; `*` marks those that grams are derived from."""
    if context.invoked_subcommand is not None:
        return
    from kwhere.cli.moments import read_window

    found = Api(server, token_file, state_dir).get("/emission-factors", read_window(start, end))["items"]
    items = [item for item in found if zone is None or item["zone"] == zone]
    if style is not None:
        _write(items, style, CSV_FIELDS, {"items": items})
    elif not items:
        click.echo("no factor is in force: set site.zone, or choose one on the Emissions page", err=True)
    else:
        click.echo("\n".join(render(*_factor_table(items), output_width())))


@factors.command()
@click.option("-z", "--zone", help="Only of this zone of the site")
@click.option(
    "--within", type=click.FloatRange(0, 72, min_open=True), default=24.0, show_default=True, help="Hours ahead"
)
@click.option(
    "-l",
    "--length",
    type=click.FloatRange(0, 72, min_open=True),
    default=4.0,
    show_default=True,
    help="Hours of the job",
)
@click.option("--json", "style", flag_value="json", help="One JSON object with every forecast factor")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@server_options
@click.pass_context
def forecast(
    context: click.Context,
    server: str | None,
    token_file: Path | None,
    state_dir: Path | None,
    *,
    style: str | None,
    zone: str | None,
    within: float,
    length: float,
) -> None:
    """Find when a job of so many hours would emit least, by every provider that looks ahead.

    Marginal factors say what shifting a job changes; average ones how the footprint will read.
    """
    params = {"zone": zone, "within": f"{within:g}", "length": f"{length:g}"}
    before = context.parent.params if context.parent is not None else {}
    api = Api(server or before["server"], token_file or before["token_file"], state_dir or before["state_dir"])
    found = api.get("/emission-factors/forecast", params)
    if style is not None:
        _write(found["items"], style, FORECAST_FIELDS, found)
    elif found["items"]:
        click.echo("\n".join(render(*_forecast_table(found["items"], length), output_width())))
    for provider, why in found["missing"].items():
        say(f"{provider}: {why}")
    if not found["items"] and not found["missing"]:
        click.echo("no provider of this site looks ahead: electricity_maps, neso and watttime do", err=True)


def _write(items: Sequence[Json], style: str, fields: Fields, document: Json) -> None:
    if style == "json":
        click.echo(json.dumps({"schema_version": 1, **document}, indent=1))
        return
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([[row_cell(field(item), is_csv=True) for field in fields.values()] for item in items])
    click.echo(stream.getvalue(), nl=False)


def _factor_table(items: Sequence[Json]) -> tuple[list[Column], list[tuple[str, ...]]]:
    columns = [
        Column("", min_width=1),
        Column("ZONE", shrinks=True, min_width=4),
        Column("PROVIDER", shrinks=True, min_width=8),
        Column("g CO2e/kWh", is_number=True),
        *(Column(name, rank=rank) for name, rank in (("BASIS", 1), ("SCOPE", 2), ("SYSTEM", 3), ("QUALITY", 0))),
        Column(f"SINCE ({zone_name()})"),
        Column("PUBLISHED", rank=5),
        Column("SOURCE", shrinks=True, min_width=10, rank=4),
    ]
    chosen = _in_force(items)
    rows: list[tuple[str, ...]] = [
        (
            "*" if item["reporting"] and chosen.get(item["zone"]) == item["quality"] else "",
            item["zone"],
            item["provider"],
            significant(item["grams_per_kwh"]),
            *(item[name] for name in ("basis", "scope", "system", "quality")),
            _since(item["span"]["from"]),
            _since(item["published_at"]),
            item["source"],
        )
        for item in items
    ]
    return columns, rows


def _in_force(items: Sequence[Json]) -> dict[str, str]:
    """Return the best quality among the reporting factors of each zone: that one counts, the others stood in."""
    found: dict[str, str] = {}
    for item in items:
        if item["reporting"]:
            held = found.get(item["zone"], item["quality"])
            found[item["zone"]] = min(held, item["quality"], key=QUALITIES.index)
    return found


def _forecast_table(items: Sequence[Json], length: float) -> tuple[list[Column], list[tuple[str, ...]]]:
    columns = [
        *(Column(name, shrinks=True, min_width=4) for name in ("ZONE", "PROVIDER", "BASIS")),
        Column(f"GREENEST ({zone_name()})"),
        Column("g CO2e/kWh", is_number=True),
        Column("NOW", is_number=True),
        Column("MEAN", is_number=True, rank=1),
        Column("SAVES", is_number=True),
    ]
    rows: list[tuple[str, ...]] = [
        (
            item["zone"],
            item["provider"],
            item["basis"],
            _window(item["window"]) if item["window"] else NO_DATA,
            _grams(item["grams_per_kwh"]),
            _grams(item["now_grams_per_kwh"]),
            _grams(item["mean_grams_per_kwh"]),
            _saving(item),
        )
        for item in items
    ]
    return columns, rows


def _grams(value: float | None) -> str:
    return NO_DATA if value is None else significant(value)


def _saving(item: Json) -> str:
    """Return by how much the window is below a job that is started now."""
    best, now = item["grams_per_kwh"], item["now_grams_per_kwh"]
    return NO_DATA if best is None or not now else f"{100 * (1 - best / now):.0f} %"


def _since(text: str) -> str:
    moment = datetime.fromisoformat(text)
    return "always" if moment.astimezone(UTC).year <= ALWAYS_YEAR else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _window(span: Json) -> str:
    """Return when, in this machine's zone: `2026-11-30 02:00 to 06:00`, with the day of the end where it is another."""
    begin, end = (datetime.fromisoformat(span[edge]).astimezone() for edge in ("from", "to"))
    day = "" if begin.date() == end.date() else end.strftime("%m-%d ")
    return f"{begin:%Y-%m-%d %H:%M} to {day}{end:%H:%M}"


def zone_name() -> str:
    """Return what this machine calls its time zone now."""
    return datetime.now().astimezone().tzname() or "local time"
