"""`kwhere nodes`: what reports, whether its meters agree; the gone are retired, the stopped are taken in again."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from kwhere.cli.client import Api, CommandT, server_options
from kwhere.cli.database import caller, database_options, open_named
from kwhere.cli.default_command import DefaultGroup
from kwhere.cli.table import Column, bar, output_width, render
from kwhere.reports.figures import NO_DATA, POWER, Scale, choose_scale, share, significant

SENTENCE_WIDTH = 100
"""Beyond this a line is no longer read well."""
RACK_BAR = 20
"""Columns of a bar that is full."""


@click.group(cls=DefaultGroup)
def nodes() -> None:
    """List nodes; hold one's meters against each other; retire one; take a stopped journal in again.

    Without a command it is `list`, with its options.
    """


def list_options(command: CommandT) -> CommandT:
    """Add the options of every list: of which cluster, as JSON, which server to ask."""
    json_option = click.option("--json", "style", flag_value="json", help="One JSON object")
    return click.option("-M", "--cluster", help="Only this cluster")(json_option(server_options(command)))


@nodes.command("list")
@list_options
def list_nodes(
    cluster: str | None = None,
    style: str | None = None,
    server: str | None = None,
    token_file: Path | None = None,
    state_dir: Path | None = None,
) -> None:
    """List nodes with state, power and completeness."""
    api = Api(server, token_file, state_dir)
    items = list(api.pages("/nodes", {"cluster": cluster}, 100_000))
    if style == "json":
        click.echo(json.dumps({"schema_version": 1, "items": items}, indent=1))
        return
    power = choose_scale([item["power_watts"] for item in items], POWER)
    has_racks = any(_rack(item) for item in items)
    columns = [
        Column("CLUSTER", shrinks=True),
        Column("NODE", shrinks=True),
        *([Column("RACK", shrinks=True, rank=1)] if has_racks else []),
        Column("STATE"),
        Column(power.unit, is_number=True),
        Column("COMPLETE", is_number=True),
        Column("METERS"),
    ]
    rows = [
        (
            *(i["cluster"], i["node"], *([_rack(i) or NO_DATA] if has_racks else [])),
            *(i["state"] or NO_DATA, power.text(i["power_watts"]), share(i["completeness"])),
            _agreement(i.get("meters_agreement")),
        )
        for i in items
    ]
    click.echo("\n".join(render(columns, rows, output_width())))


@nodes.command()
@list_options
def racks(
    cluster: str | None = None,
    style: str | None = None,
    server: str | None = None,
    token_file: Path | None = None,
    state_dir: Path | None = None,
) -> None:
    """List racks of the inventory: what their nodes draw against what they may."""
    items = list(Api(server, token_file, state_dir).pages("/racks", {"cluster": cluster}, 100_000))
    if style == "json":
        click.echo(json.dumps({"schema_version": 1, "items": items}, indent=1))
        return
    power = choose_scale([item[key] for item in items for key in ("power_watts", "power_limit_watts")], POWER)
    columns = [
        *(Column("CLUSTER", shrinks=True), Column("RACK", shrinks=True), Column("NODES UP", is_number=True)),
        *(Column(power.unit, is_number=True), Column(f"LIMIT {power.unit}", is_number=True)),
        *(Column("USED", is_number=True), Column("", rank=1)),
    ]
    click.echo("\n".join(render(columns, [_rack_row(item, power) for item in items], output_width())))


def _rack_row(item: Mapping[str, Any], power: Scale) -> tuple[str, ...]:
    watts, limit = item["power_watts"], item["power_limit_watts"]
    used = watts / limit if watts is not None and limit else None
    return (
        *(item["cluster"], item["rack"], f"{item['nodes_up']}/{item['nodes']}"),
        *(power.text(watts), power.text(limit), share(used), bar(used, RACK_BAR)),
    )


def _rack(item: Mapping[str, Any]) -> str | None:
    found: str | None = (item.get("inventory") or {}).get("rack")
    return found


@nodes.command()
@click.argument("node")
@click.option("-M", "--cluster", help="Where several clusters have a node of that name")
@click.option("--from", "start", metavar="TIME", help="Start: ISO 8601, Unix seconds, or a length back  [-1h]")
@click.option("--to", "end", metavar="TIME", help="End, exclusive; like --from  [now]")
@click.option("--json", "style", flag_value="json", help="One JSON object")
@server_options
def meters(
    node: str,
    cluster: str | None = None,
    start: str | None = None,
    end: str | None = None,
    style: str | None = None,
    server: str | None = None,
    token_file: Path | None = None,
    state_dir: Path | None = None,
) -> int:
    """Hold the meters of NODE against each other; exit code 1 if they disagree by more than a tenth."""
    asked = {"cluster": cluster, "from": start, "to": end}
    found = Api(server, token_file, state_dir).get(f"/nodes/{quote(node, safe='')}/reconciliation", asked)
    agreement = found["agreement"]
    if style == "json":
        click.echo(json.dumps({"schema_version": 1, **found}, indent=1))
        return 1 if agreement["disagrees"] else 0
    power = choose_scale([meter["power_watts"] for meter in found["meters"]], POWER)
    columns = [Column("SOURCE"), Column("MEASURES"), Column(power.unit, is_number=True), Column("COMPARED")]
    rows = [(m["source"], m["domain"], power.text(m["power_watts"]), _compared(m)) for m in found["meters"]]
    width = min(output_width(), SENTENCE_WIDTH)
    lines = [*textwrap.wrap(agreement["sentence"], width), *(["", *render(columns, rows, width)] if rows else [])]
    for cause in agreement["causes"]:
        lines += textwrap.wrap(f"It may be: {cause}.", width, subsequent_indent="  ")
    click.echo("\n".join(lines))
    return 1 if agreement["disagrees"] else 0


@nodes.command()
@click.argument("cluster")
@click.argument("node")
@database_options
def retire(cluster: str, node: str, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """Stop expecting NODE of CLUSTER: completeness counts it up to now, its account stays."""
    from kwhere.core.clock import SystemClock
    from kwhere.database import nodes as held

    with open_named(config_file, state_dir, url) as engine:
        held.retire(engine, cluster, node, SystemClock().utc_ns(), by=caller())
    click.echo(f"{cluster}/{node} is retired")


@nodes.command()
@click.argument("cluster")
@click.argument("node")
@database_options
def resume(cluster: str, node: str, config_file: Path | None, state_dir: Path | None, url: str | None) -> int:
    """Take the stopped journal of NODE in again, from the slot after the last one held; exit code 1 if none is."""
    from kwhere.core.clock import SystemClock
    from kwhere.database import nodes as held

    with open_named(config_file, state_dir, url) as engine:
        count = held.resume(engine, cluster, node, SystemClock().utc_ns(), by=caller())
    click.echo(f"{cluster}/{node}: {count} stopped journals are taken in again")
    return 0 if count else 1


def _agreement(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return NO_DATA
    return f"{found['short']} !" if found["disagrees"] else str(found["short"])


def _compared(meter: Mapping[str, Any]) -> str:
    ratio = meter["difference_ratio"]
    if ratio is None:
        return str(meter["role"])
    return f"{significant(100 * abs(ratio), 2)} % {'above' if ratio > 0 else 'below'} {meter['reference']}"
