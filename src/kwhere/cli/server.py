"""`kwhere server`: take ledgers in, serve API and pages."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kwhere.cli.flags import Flag, overrides, with_flags
from kwhere.cli.server_audit import audit
from kwhere.cli.server_token import token
from kwhere.cli.settings_options import config_option, load_settings, state_option

FLAGS = (
    Flag("listen", "server.listen", "HOST:PORT of API and pages"),
    Flag("database", "database.url", "SQLAlchemy URL: sqlite:////var/lib/kwhere/kwhere.db, postgresql+psycopg://…"),
    Flag("access.token-file", "access.token_file", "File with the access token; needed off loopback"),
)


@click.group(invoke_without_command=True)
@click.pass_context
@config_option
@with_flags(FLAGS)
@state_option("State directory: SQLite database, series  [systemd's, else XDG]")
def server(context: click.Context, /, config_file: Path | None, state_dir: Path | None, **values: Any) -> int:
    """Take in the ledgers of the configured targets; serve API and pages.

    Off loopback an access token is needed, or a proxy or identity provider that names people. SIGHUP reads the
    configuration again; a wrong one is told and leaves the old one in force.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return 0
    return _serve(config_file, state_dir, values)


server.add_command(token)
server.add_command(audit)


def _refuse_options(context: click.Context) -> None:
    """An option before the subcommand would be the server's, and not be heeded."""
    for option in context.command.params:
        if context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[0]} goes behind `{context.invoked_subcommand}`", context)


def _serve(config_file: Path | None, state_dir: Path | None, values: Mapping[str, Any]) -> int:
    from kwhere.apps.configuration import default_state_dir
    from kwhere.apps.server_role import ServerInputs, ServerStart, run_server
    from kwhere.apps.zones import check_factors

    def read() -> ServerStart:
        settings = load_settings(config_file, overrides(FLAGS, dict(values)))
        check_factors(settings)
        token = read_token(settings.access.token_file)
        return ServerStart(settings, ServerInputs(state_dir or default_state_dir(os.environ), token))

    return run_server(read(), read)


def read_token(file: Path | None) -> str | None:
    """Return the access token in `file`. Raises ConfigError where it cannot be read."""
    from kwhere.core.errors import ConfigError

    if file is None:
        return None
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"access.token_file: {file} cannot be read: {error.strerror}") from error
