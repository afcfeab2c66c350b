"""`kwhere server audit`: the audit log, on the server's own database."""

import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwhere.cli.database import database_options, open_named
from kwhere.cli.moments import read_window
from kwhere.cli.table import Column, output_width, render
from kwhere.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwhere.core.timespan import Span
    from kwhere.database.audit import AuditQuery, AuditRecord
    from kwhere.database.reader import Reader


@click.command()
@click.option("--actor", metavar="NAME", help="Only what this principal did")
@click.option("--action", metavar="WORDS", help="Only this, such as `read unit` or `create token`")
@click.option("-S", "--starttime", "start", metavar="TIME", help="From then on, as with `kwhere units`  [now-7days]")
@click.option("-E", "--endtime", "end", metavar="TIME", help="Up to then  [now]")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=1000, help="Most lines, the newest first  [1000]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object")
@database_options
def audit(
    actor: str | None,
    action: str | None,
    start: str | None,
    end: str | None,
    limit: int,
    as_json: bool,
    config_file: Path | None,
    state_dir: Path | None,
    url: str | None,
) -> None:
    """Show who changed what, and who looked at others' units, newest first."""
    from kwhere.core.clock import SystemClock
    from kwhere.database.audit import AuditQuery
    from kwhere.database.reader import Reader
    from kwhere.database.settings import SiteSettings

    query = AuditQuery(actor, action, _span(start, end))
    with open_named(config_file, state_dir, url) as engine:
        lines = list(islice(_lines(Reader(engine, SystemClock(), SiteSettings()), query), limit))
    if as_json:
        items = [
            {"at": line.at.isoformat(), "actor": line.actor, "action": line.action, "subject": line.subject}
            | {"detail": dict(line.detail)}
            for line in lines
        ]
        click.echo(json.dumps({"schema_version": 1, "items": items}, indent=1))
        return
    columns = [Column("WHEN"), Column("WHO", shrinks=True), Column("WHAT"), Column("OF", shrinks=True)]
    rows = [(f"{line.at:%Y-%m-%d %H:%M:%S}Z", line.actor, line.action, line.subject) for line in lines]
    click.echo("\n".join(render(columns, rows, output_width())))


def _span(start: str | None, end: str | None) -> "Span":
    from kwhere.core.timespan import Span

    now = datetime.now(UTC)
    window = read_window(start, end, now)
    first = datetime.fromisoformat(window["from"]) if window["from"] else now - timedelta(days=7)
    last = datetime.fromisoformat(window["to"]) if window["to"] else now + timedelta(seconds=1)
    if last <= first:
        raise ConfigError(f"--endtime: expected one after --starttime, found {last.isoformat()}")
    return Span(first, last)


def _lines(reader: "Reader", query: "AuditQuery") -> "Iterator[AuditRecord]":
    from dataclasses import replace

    while True:
        page = reader.audit(query)
        yield from page.items
        if page.next is None:
            return
        query = replace(query, after=page.next)
