"""`kwhere nodes`: what reports; what no longer exists is retired, what was stopped is taken in again."""

import getpass
import json
from pathlib import Path

import click

from kwhere.cli.client import Api, server_options
from kwhere.cli.database import database_options, open_named
from kwhere.cli.table import Column, output_width, render
from kwhere.reports.figures import NO_DATA, POWER, choose_scale, share


@click.group(invoke_without_command=True)
@click.pass_context
def nodes(context: click.Context) -> None:
    """List nodes; retire one; take a stopped journal in again."""
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


@nodes.command()
@click.argument("cluster")
@click.argument("node")
@database_options
def retire(cluster: str, node: str, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """Stop expecting NODE of CLUSTER: completeness counts it up to now, its account stays."""
    from kwhere.core.clock import SystemClock
    from kwhere.database import nodes as held

    with open_named(config_file, state_dir, url) as engine:
        held.retire(engine, cluster, node, SystemClock().utc_ns(), by=_caller())
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
        count = held.resume(engine, cluster, node, SystemClock().utc_ns(), by=_caller())
    click.echo(f"{cluster}/{node}: {count} stopped journals are taken in again")
    return 0 if count else 1


def _caller() -> str:
    """Return the name of the system's user for the audit log, or its number."""
    try:
        return f"{getpass.getuser()} at the command line"
    except (KeyError, OSError):
        return "somebody at the command line"
