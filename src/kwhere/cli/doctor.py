"""`kwhere doctor`: what can be measured here, what not, why, and what would mend it."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwhere.cli.flags import Flag, overrides, with_flags
from kwhere.cli.settings_options import config_option, load_settings, state_option

if TYPE_CHECKING:
    from kwhere.apps.settings import Settings

FLAGS = (
    Flag("path.procfs", "path.procfs", "Where procfs is mounted, or its recorded copy"),
    Flag("path.sysfs", "path.sysfs", "Where sysfs is mounted, or its recorded copy"),
    Flag("path.cgroupfs", "path.cgroupfs", "Where cgroups are mounted, or their recorded copy"),
    Flag("cgroups.version", "cgroups.version", "Which hierarchies to read", click.Choice(["auto", "v1", "v2"])),
)
ANSWER_SECONDS = 20.0
WIDTH = 80
WIDEST = 100


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object with all checks")
@click.option("--unit", "unit", metavar="ID", help="Say why this unit has the energy it has, or none")
@click.option("--gpu", "gpu", is_flag=True, help="Read everything of every GPU here, to send it with a report")
@click.option(
    "--targets",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Ask the agents of this file (Prometheus file_sd, JSON or YAML) as a server would",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="With --targets: file with the token of their ledgers  [<state>/ledger-token]",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="With --targets: certificate authorities to trust  [the system's]",
)
@state_option("State directory of agent and server  [systemd's, else XDG]")
@config_option
@with_flags(FLAGS)
def doctor(
    *,
    as_json: bool,
    unit: str | None,
    gpu: bool,
    targets: Path | None,
    token_file: Path | None,
    ca_file: Path | None,
    state_dir: Path | None,
    config_file: Path | None,
    **values: Any,
) -> int:
    """Say what can be measured here, what not, why, and the exact command that would mend it.

    Exit code 1 if there is something that a person should look at. Nothing is changed.
    """
    from kwhere.apps.doctor import examine_host, examine_targets, explain_unit
    from kwhere.local.doctor import needs_a_person
    from kwhere.local.doctor_text import report
    from kwhere.transport.settings import HttpClientSettings

    settings = load_settings(config_file, overrides(FLAGS, values))
    if gpu:
        return _gpus(settings, state_dir, as_json=as_json)
    if unit is not None:
        checks = explain_unit(settings, state_dir, unit)
    elif targets is not None:
        client = HttpClientSettings(token_file=token_file, ca_file=ca_file, total_timeout_seconds=ANSWER_SECONDS)
        checks = examine_targets(settings, state_dir, targets, client)
    else:
        checks = examine_host(settings, state_dir)
    if as_json:
        click.echo(json.dumps({"checks": [check.as_json() for check in checks]}, indent=1))
    else:
        click.echo("\n".join(report(checks, output_width(), colour=shows_colour())))
    return 1 if needs_a_person(checks) else 0


def _gpus(settings: "Settings", state_dir: Path | None, *, as_json: bool) -> int:
    """Print the self-check of GPUs; exit code 1 where a library or a GPU does not answer."""
    from kwhere.apps.doctor import agents_directory, gpu_access, place_of
    from kwhere.apps.doctor_gpu import examine_gpus
    from kwhere.local.gpu_report import as_json as report_as_json
    from kwhere.local.gpu_report_text import lines_of

    directory = agents_directory(settings, state_dir)
    place = place_of(settings, directory)
    found = examine_gpus(gpu_access(settings, place.fs, directory), place.fs, place.gpu_claims)
    if as_json:
        click.echo(json.dumps(report_as_json(found), indent=1))
    else:
        click.echo("\n".join(lines_of(found, output_width())))
    return 0 if found.is_well else 1


def output_width() -> int:
    """Return the width of the terminal, at least as wide as a line of it is read well; 80 when piped."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return WIDTH
    return min(WIDEST, shutil.get_terminal_size().columns)


def shows_colour() -> bool:
    """Return whether stdout is a terminal that may be coloured (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
