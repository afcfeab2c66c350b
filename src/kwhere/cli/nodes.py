"""`kwhere nodes`: what reports, and the retirement of what no longer exists."""

import json
from pathlib import Path

import click

from kwhere.cli.client import Api, server_options
from kwhere.cli.table import Column, output_width, render
from kwhere.reports.figures import NO_DATA, POWER, choose_scale, share


@click.group(invoke_without_command=True)
@click.pass_context
def nodes(context: click.Context) -> None:
    """List nodes; retire one."""
    if context.invoked_subcommand is None:
        context.invoke(list_nodes)


@nodes.command("list")
@click.option("-M", "--cluster", help="Only this cluster")
@click.option("--json", "style", flag_value="json", help="One JSON object")
@server_options
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
    columns = [
        Column("CLUSTER", shrinks=True),
        Column("NODE", shrinks=True),
        Column("STATE"),
        Column(power.unit, is_number=True),
        Column("COMPLETE", is_number=True),
    ]
    rows = [
        (i["cluster"], i["node"], i["state"] or NO_DATA, power.text(i["power_watts"]), share(i["completeness"]))
        for i in items
    ]
    click.echo("\n".join(render(columns, rows, output_width())))
