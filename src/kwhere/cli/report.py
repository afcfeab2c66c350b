"""`kwhere report`: sums within a span by user, project, manager, cluster, node or day, in sreport's manner."""

import sys
from pathlib import Path
from typing import Any

import click

from kwhere.cli.client import Api, server_options
from kwhere.cli.streams import say
from kwhere.cli.table import output_width
from kwhere.cli.unit_absence import why_not
from kwhere.cli.unit_output import error_document
from kwhere.core.errors import NotPermitted
from kwhere.reports.plain_text import visible_lines
from kwhere.reports.usage_text import NOTHING, UsageStyle, usage_text

KINDS = ("user", "project", "manager", "cluster", "node", "day", "week", "month")


@click.command()
@click.option("--by", type=click.Choice(KINDS), default="user", show_default=True, help="What a row stands for")
@click.option("-S", "--starttime", "start", help="From this time on: ISO 8601, `today`, `now-7days`  [24 h ago]")
@click.option("-E", "--endtime", "end", help="Up to this time  [now]")
@click.option("--week", help="Within this ISO week of the site, e.g. 2026-W53, in place of -S and -E")
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
    week: str | None,
    **filters: Any,
) -> int:
    """Sum up what was used within a span; `system` and `unallocated` are rows of their own."""
    from kwhere.cli.moments import read_window

    if week is not None and (start or end):
        raise click.UsageError("expected --week, or -S and -E, found both")
    api = Api(server, token_file, state_dir)
    found = api.get("/usage", {**filters, **read_window(start, end), "week": week})
    denied = None if found["items"] else why_not(api, filters)
    if denied and style == UsageStyle.JSON:
        found["errors"] = [error_document(NotPermitted(denied))]
    is_printed = bool(found["items"] or style or week)
    if is_printed:
        text = usage_text(found, UsageStyle(style or UsageStyle.TEXT), output_width(), has_header=not noheader)
        click.echo(visible_lines(text) if sys.stdout.isatty() else text, nl=False)
    if denied or not is_printed:
        say(denied or NOTHING)
    return 1 if denied else 0
