"""`kwhere run -- CMD`: like `time`, with joules."""

import os
from pathlib import Path

import click

from kwhere.cli.settings_options import config_option, load_settings, state_option


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the report as the last line of stdout, as JSON, whatever CMD printed before it",
)
@state_option("State directory of a running agent, which may read more meters  [systemd's, else XDG]")
@config_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="CMD…")
def run(as_json: bool, state_dir: Path | None, config_file: Path | None, command: tuple[str, ...]) -> int:
    """Run CMD and print what it used: wall and CPU time, memory, I/O, energy, CO2e.

    CMD's exit code is passed on. The report goes to stderr, or with --json to stdout.
    """
    from kwhere.apps.configuration import default_state_dir
    from kwhere.apps.run import account_command
    from kwhere.local.run_report import to_json, to_text

    settings = load_settings(config_file, {}, log_level="warning")
    report = account_command(command, settings, state_dir or default_state_dir(os.environ))
    if as_json:
        click.echo(f"\n{to_json(report)}")  # CMD's output may have ended within a line
    elif report.has_begun:
        click.echo(to_text(report), err=True)
    return report.exit_code
