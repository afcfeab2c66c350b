"""`kwhere database`: the account's database in the hands of its operator."""

import getpass
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwhere.cli.settings_options import config_option, load_settings, state_option
from kwhere.cli.streams import say

if TYPE_CHECKING:
    from sqlalchemy import Engine

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def database_options(command: CommandT) -> CommandT:
    """Add the options that say which database."""
    command = click.option("--database", "url", envvar="KWHERE_DATABASE", help="SQLAlchemy URL  [database.url]")(
        command
    )
    command = state_option("State directory that holds the SQLite database  [systemd's, else XDG]")(command)
    return config_option(command)


@contextmanager
def open_named(config_file: Path | None, state_dir: Path | None, url: str | None) -> Iterator["Engine"]:
    """Open the database that the options name, as it is. Raises ConfigError, Unavailable."""
    from kwhere.apps.configuration import default_state_dir
    from kwhere.apps.server_role import database_settings
    from kwhere.database.engine import open_engine

    settings = load_settings(config_file, {} if url is None else {"database.url": url})
    engine = open_engine(database_settings(settings, state_dir or default_state_dir(os.environ)))
    try:
        yield engine
    finally:
        engine.dispose()


def caller() -> str:
    """Return the name of the system's user for the audit log."""
    try:
        return f"{getpass.getuser()} at the command line"
    except (KeyError, OSError):
        return "somebody at the command line"


@click.group()
def database() -> None:
    """Check, upgrade, back up or restore the database; hand out or take out what it holds of a person."""


@database.command()
@database_options
def check(config_file: Path | None, state_dir: Path | None, url: str | None) -> int:
    """Say which schema it has and whether it is sound; exit code 1 if not."""
    from kwhere.database.maintenance import check as check_schema

    with open_named(config_file, state_dir, url) as engine:
        state = check_schema(engine)
    click.echo(f"revision {state.current or 'none'}, this release needs {state.needed}")
    for sentence in state.problems:
        say(f"fault: {sentence}")
    return 0 if state.is_current else 1


@database.command()
@database_options
def upgrade(config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """Bring its schema to this release; safe to repeat."""
    from kwhere.database.maintenance import upgrade as upgrade_schema

    with open_named(config_file, state_dir, url) as engine:
        state = upgrade_schema(engine)
    click.echo(f"revision {state.current}")


@database.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@database_options
def backup(file: Path, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """Write all of it to FILE, from one moment, while the server runs."""
    from kwhere.core.clock import SystemClock
    from kwhere.database.backup import backup as write_backup

    with open_named(config_file, state_dir, url) as engine:
        write_backup(engine, file, SystemClock().utc_ns())
    click.echo(f"{file}: {file.stat().st_size} bytes")


@database.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@database_options
def restore(file: Path, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """Fill an empty database from FILE. Agents then fill in what is newer."""
    from kwhere.database.backup import restore as read_backup

    with open_named(config_file, state_dir, url) as engine:
        read_backup(engine, file)
    click.echo("restored")


@database.command("export-user")
@click.argument("cluster")
@click.argument("user")
@database_options
def export_user(cluster: str, user: str, config_file: Path | None, state_dir: Path | None, url: str | None) -> None:
    """Print all that is held of USER of CLUSTER, one JSON object per row with its table: what a person may ask for."""
    from kwhere.database.person_export import export_user as rows_of

    with open_named(config_file, state_dir, url) as engine, engine.connect() as connection:
        for row in rows_of(connection, cluster, user):
            click.echo(json.dumps(row, ensure_ascii=False))


@database.command("erase-user")
@click.argument("cluster")
@click.argument("user")
@click.option("--yes", is_flag=True, help="Do not ask")
@database_options
def erase_user(
    cluster: str, user: str, yes: bool, config_file: Path | None, state_dir: Path | None, url: str | None
) -> None:
    """Put a random name in place of USER of CLUSTER wherever it stands; every sum stays. It cannot be undone.

    Do it once the user has gone: one who is still active comes back with the next slot. Names in the store of series
    and in backups go with their age.
    """
    from kwhere.core.clock import SystemClock
    from kwhere.database.privacy import pseudonymise_user

    if not yes:
        click.confirm(f"Erase the name {user} of cluster {cluster} for good?", abort=True)
    with open_named(config_file, state_dir, url) as engine:
        alias = pseudonymise_user(engine, cluster, user, SystemClock().utc_ns(), by=caller())
    click.echo(f"{cluster}/{user} is {alias} from now on")
