"""`kwhere top`: units by watts, live."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwhere.cli.settings_options import config_option, load_settings, state_option

if TYPE_CHECKING:
    from rich.text import Text

PIPED_WIDTH = 120


@click.command()
@click.option("--once", is_flag=True, help="Print one table and exit; so does a stdout that is no terminal")
@click.option("-n", "times", type=click.IntRange(min=1), metavar="N", help="Exit after N refreshes")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1, max=3600.0),
    default=2.0,
    show_default=True,
    envvar="KWHERE_TOP_INTERVAL",
    help="Seconds between refreshes",
)
@click.option("--own", is_flag=True, help="Measure in this process even where an agent runs")
@state_option("State directory of the agent to ask  [systemd's, else XDG]")
@config_option
def top(
    *,
    once: bool,
    times: int | None,
    interval: float,
    own: bool,
    state_dir: Path | None,
    config_file: Path | None,
) -> int:
    """Watch units by watts. Keys: p e c m n sort, r reverses, / filters, ? helps, q quits.

    Asks the agent of this machine; where none runs, measures by itself, without root and without a trace.
    """
    from kwhere.apps.configuration import default_state_dir
    from kwhere.apps.top import build_top, open_feed

    settings = load_settings(config_file, {})
    feed = open_feed(settings, state_dir or settings.agent.state or default_state_dir(os.environ), own=own)
    try:
        view = build_top(feed, interval)
        if once or not _has_screen():
            _print(view.tables(times or 1, _width()))
        else:
            view.show(sys.stdin.fileno(), times)
    finally:
        feed.close()
    return 0


def _print(lines: Iterable["Text"]) -> None:
    """Print lines as they come; styles on a terminal alone."""
    from rich.console import Console

    console = Console(highlight=False)
    for line in lines:
        if console.is_terminal:
            console.print(line, no_wrap=True, crop=True)
        else:
            click.echo(line.plain.rstrip())


def _has_screen() -> bool:
    """Return whether there is a terminal to draw on and to read keys from."""
    is_capable = os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    return is_capable and sys.stdout.isatty() and sys.stdin.isatty()


def _width() -> int:
    """Return the width of the terminal; that of a table that goes into a file or a pipe is fixed."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return PIPED_WIDTH
