"""`kwhere server token`: API tokens, made, listed and ended on the server's own database."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwhere.access.roles import Role
from kwhere.cli.database import caller, database_options, open_named
from kwhere.cli.table import Column, output_width, render
from kwhere.core.errors import ConfigError
from kwhere.reports.figures import NO_DATA

if TYPE_CHECKING:
    from kwhere.database.api_tokens import ApiToken

DAY_NS = 86_400 * 10**9


@click.group()
def token() -> None:
    """Make, list and end API tokens."""


@token.command()
@click.argument("owner")
@click.option(
    "--role", type=click.Choice([str(role) for role in Role]), default=str(Role.USER), help="What it may see  [user]"
)
@click.option("--days", type=click.IntRange(1, 3650), default=90, help="Days until it ends  [90]")
@click.option("--note", default="", help="What it is for")
@database_options
def create(
    owner: str, role: str, days: int, note: str, config_file: Path | None, state_dir: Path | None, url: str | None
) -> None:
    """Make a token of OWNER and print it, once: the database keeps a digest.

    With the role `user` it sees the units of the user of that name.
    """
    from kwhere.access.names import checked_name
    from kwhere.core.clock import SystemClock
    from kwhere.database.api_tokens import NewToken, create_token

    now_ns = SystemClock().utc_ns()
    try:
        new = NewToken(checked_name(owner), role, note, now_ns + days * DAY_NS)
    except ValueError as error:
        raise ConfigError(f"OWNER: the name {error}") from error
    with open_named(config_file, state_dir, url) as engine:
        click.echo(create_token(engine, new, now_ns, by=caller()))


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object")
@database_options
def list_all(as_json: bool, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """List tokens, those made last first; none of them can be read again."""
    from kwhere.core.clock import SystemClock
    from kwhere.database.api_tokens import list_tokens
    from kwhere.database.grid import from_ns

    now = from_ns(SystemClock().utc_ns())
    with open_named(config_file, state_dir, url) as engine, engine.connect() as connection:
        tokens = list_tokens(connection)
    if as_json:
        items = [_object(each, now) for each in tokens]
        click.echo(json.dumps({"schema_version": 1, "items": items}, indent=1))
        return
    columns = [Column(name) for name in ("ID", "OWNER", "ROLE", "STATE", "ENDS", "LAST USED")]
    columns.append(Column("NOTE", shrinks=True))
    rows = [
        (each.id, each.owner, each.role, each.state(now), _day(each.expires_at), _day(each.used_at), each.note)
        for each in tokens
    ]
    click.echo("\n".join(render(columns, rows, output_width())))


@token.command()
@click.argument("token_id", metavar="ID")
@database_options
def revoke(token_id: str, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """End the token ID at once; a whole token serves as its ID."""
    from kwhere.core.clock import SystemClock
    from kwhere.database.api_tokens import id_of, is_token, revoke_token

    named = id_of(token_id) if is_token(token_id) else token_id
    with open_named(config_file, state_dir, url) as engine:
        revoke_token(engine, named, SystemClock().utc_ns(), by=caller())
    click.echo(f"token {named} is revoked")


def _day(moment: datetime | None) -> str:
    return NO_DATA if moment is None else f"{moment:%Y-%m-%d %H:%M}Z"


def _object(token: "ApiToken", now: datetime) -> dict[str, object]:
    return {
        "id": token.id,
        "owner": token.owner,
        "role": token.role,
        "note": token.note,
        "state": token.state(now),
        "created_at": token.created_at.isoformat(),
        "created_by": token.created_by,
        "expires_at": token.expires_at.isoformat(),
        "used_at": None if token.used_at is None else token.used_at.isoformat(),
        "revoked_at": None if token.revoked_at is None else token.revoked_at.isoformat(),
    }
