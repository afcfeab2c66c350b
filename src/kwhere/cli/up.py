"""`kwhere up`: this machine's account with one command."""

import os
from pathlib import Path

import click

from kwhere.cli.settings_options import config_option, load_settings, state_option

REACHABLE = """\
kwhere: other machines can reach this port: they need the token, which goes over plain HTTP unless a proxy adds TLS,
and the name by which they call this machine must stand in access.hosts"""


@click.command()
@click.option(
    "--listen",
    envvar="KWHERE_LISTEN",
    help="HOST:PORT of the pages  [127.0.0.1:9811, or the next free port]",
)
@state_option("State directory: journal, database, series, token  [XDG state directory]")
@click.option("--no-open", is_flag=True, help="Do not open a browser")
@click.option("--interval", type=float, envvar="KWHERE_INTERVAL", help="Seconds between two steps  [1]")
@config_option
def up(
    listen: str | None, state_dir: Path | None, no_open: bool, interval: float | None, config_file: Path | None
) -> int:
    """Account this machine: agent, database, API and pages. No root needed; Ctrl-C ends it.

    The page says what root would add, with the one command that opens it and the one that undoes it.
    """
    from kwhere.apps.configuration import default_state_dir
    from kwhere.apps.up import UpOptions, prepare, supervise
    from kwhere.local.server_part import require_server_part
    from kwhere.local.supervisor import fork_role

    require_server_part()
    settings = load_settings(config_file, {} if interval is None else {"agent.interval_seconds": interval})
    options = UpOptions(state_dir or default_state_dir(os.environ), listen)
    parts = prepare(options, settings)
    address = f"{parts.url}/?token={parts.token}"

    def ready() -> None:
        click.echo(f"kwhere is at {address}")
        click.echo(f"state is in {options.state_dir}; Ctrl-C ends it")
        if parts.is_open:
            click.echo(REACHABLE, err=True)
        if not no_open and has_display():
            fork_role(lambda: open_page(address))

    return supervise(options, settings, parts, ready)


def has_display() -> bool:
    """Return whether a graphical session could show the page."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_page(address: str) -> int:
    """Open the page in the user's browser; without one, nothing happens."""
    import webbrowser

    webbrowser.open(address)
    return 0
