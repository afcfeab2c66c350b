"""`kwhere calibrate`: fit the model to a real meter of this machine."""

import json
import os
import textwrap
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kwhere.cli.doctor import output_width
from kwhere.cli.flags import Flag, overrides, with_flags
from kwhere.cli.settings_options import config_option, load_settings, state_option

if TYPE_CHECKING:
    from kwhere.apps.calibrate import Bench
    from kwhere.local.calibrate import Phase

FLAGS = (
    Flag("path.procfs", "path.procfs", "Where procfs is mounted"),
    Flag("path.sysfs", "path.sysfs", "Where sysfs is mounted"),
)
LOADS = {"idle": 0, "full": 100}


class Watts(click.ParamType[tuple[int, float]]):
    """`idle=40`, `50=75.5` or `full=110`: watts of the node by percent of load."""

    name = "LOAD=WATTS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        """Return percent and watts; anything else is a usage error."""
        word, _, number = str(value).partition("=")
        try:
            percent = LOADS[word] if word in LOADS else int(word.rstrip("%"))
            watts = float(number)
        except ValueError:
            percent, watts = -1, 0.0
        if not 0 <= percent <= 100 or not 0 < watts <= 100_000:
            self.fail(f"{value!r}: expected idle=WATTS, full=WATTS or PERCENT=WATTS", param, ctx)
        return percent, watts


@click.command()
@click.option("--meter", metavar="SOURCE", help="Meter to fit to  [the CPUs' own, else the whole node's]")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=30.0,
    show_default=True,
    help="How long each of the four loads is measured",
)
@click.option(
    "--watts", "watts", type=Watts(), multiple=True, help="Node's watts that you read from a plug meter; nothing is run"
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and end")
@click.option("--force", is_flag=True, help="Measure although the machine is not idle")
@click.option("--json", "as_json", is_flag=True, help="Result as one JSON object on stdout")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write  [calibration.json of --state]"
)
@state_option("State directory of the agent  [systemd's, else XDG]")
@config_option
@with_flags(FLAGS)
def calibrate(
    *,
    meter: str | None,
    seconds: float,
    watts: tuple[tuple[int, float], ...],
    dry_run: bool,
    force: bool,
    as_json: bool,
    output: Path | None,
    state_dir: Path | None,
    config_file: Path | None,
    **values: Any,
) -> None:
    """Fit idle power and watts per busy CPU of the model to a real meter of this machine.

    Puts idle, 25, 50 and 100 % load on every CPU, one child process each, and reads the meter meanwhile. The model
    uses the result from the agent's next start, wherever nothing measures the CPUs.
    """
    from kwhere.apps.calibrate import by_hand, check_writable, file_of, prepare, write
    from kwhere.apps.configuration import default_state_dir
    from kwhere.local import calibrate_text as text

    settings = load_settings(config_file, overrides(FLAGS, values), log_level="warning")
    path = file_of(output, state_dir or settings.agent.state or default_state_dir(os.environ))
    phases: Sequence[Phase] = ()
    if watts:
        if len({percent for percent, _ in watts}) < 2:
            raise click.UsageError("--watts: expected at least two different loads, such as idle=40 and full=110")
        fit, found = by_hand(settings, dict(watts))
    else:
        bench = prepare(settings, meter, seconds)
        try:
            click.echo(text.announce(bench.plan, bench.machine, output_width()), err=as_json)
            if dry_run:
                return
            check_writable(path)
            phases = _measure(bench, force)
            fit, found = bench.conclude(phases)
        finally:
            bench.close()
    if not dry_run:
        write(path, found)
    if as_json:
        click.echo(json.dumps(text.as_record(phases, fit, found, None if dry_run else path), indent=1))
        return
    lines = [*(["", *text.table(phases, fit), ""] if phases else []), *text.verdict(fit, found)]
    lines += textwrap.wrap(text.caution(phases, found.cpus), output_width())
    click.echo("\n".join(lines))
    if not dry_run:
        click.echo(f"\n{text.written(path, found, output_width())}")


def _measure(bench: "Bench", force: bool) -> "Sequence[Phase]":
    """Return the phases, each shown on stderr as it ends. Raises Unavailable for a machine that is not idle."""
    from kwhere.local.calibrate_text import PROGRESS_HEADER, progress

    found: list[Phase] = []
    click.echo(f"\n{PROGRESS_HEADER}", err=True)
    with closing(bench.phases()) as phases:
        for phase in phases:
            click.echo(progress(phase), err=True)
            if not force:
                bench.check_idle(phase)
            found.append(phase)
    return found
