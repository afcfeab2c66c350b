"""The `kwhere` command: a table of subcommands, each imported only when it runs, and one place for exit codes."""

import importlib
import sys
from collections.abc import Sequence

import click

from kwhere._version import __version__
from kwhere.cli.exits import run_command

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("kwhere.cli.up:up", "Account this machine: agent, server and pages with one command."),
    "run": ("kwhere.cli.run:run", "Run a command and print what it used, like `time`."),
    "top": ("kwhere.cli.top:top", "Watch units by watts."),
    "units": ("kwhere.cli.units:units", "List units and what they used."),
    "unit": ("kwhere.cli.unit:unit", "Show one unit like a good job report."),
    "report": ("kwhere.cli.report:report", "Sum up by user, project, manager, node or day."),
    "agent": ("kwhere.cli.agent:agent", "Measure this node and keep its ledger."),
    "server": ("kwhere.cli.server:server", "Take in ledgers; serve API and pages."),
    "redfish-proxy": ("kwhere.cli.redfish_proxy:redfish_proxy", "Ask BMCs for nodes that cannot reach them."),
    "admission-webhook": (
        "kwhere.cli.admission_webhook:admission_webhook",
        "Tell Kubernetes' objects who made them.",
    ),
    "manifests": ("kwhere.cli.manifests:manifests", "Print what a Kubernetes cluster needs to run the roles."),
    "rules": ("kwhere.cli.rules:rules", "Print recording rules for Prometheus, one set of series for all exporters."),
    "doctor": ("kwhere.cli.doctor:doctor", "Say what can be measured here, what not, and what would fix it."),
    "calibrate": ("kwhere.cli.calibrate:calibrate", "Fit the model to a real meter of this machine."),
    "config": ("kwhere.cli.config:config", "Show or check the effective settings."),
    "database": ("kwhere.cli.database:database", "Check, upgrade, back up or restore the database."),
    "factors": ("kwhere.cli.factors:factors", "List emission factors in force; find the greenest hours ahead."),
    "nodes": ("kwhere.cli.nodes:nodes", "List nodes; retire one; take one in again."),
    "completion": ("kwhere.cli.completion:completion", "Print the completion script of your shell."),
}


class CommandTable(click.Group):
    """A group that knows its commands' names and one-line helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        name_variables(command, f"KWHERE_{cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table itself into `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def name_variables(command: click.Command, prefix: str) -> None:
    """Give every option that has no environment variable the one after its name: `KWHERE_UNITS_SORT`."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            longest = max(option.opts, key=len).lstrip("-")
            option.envvar = f"{prefix}_{longest}".replace("-", "_").replace(".", "_").upper()
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            name_variables(inner, f"{prefix}_{name}")


@click.group(
    cls=CommandTable,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every option has an environment variable: KWHERE_<COMMAND>_<OPTION>, such as KWHERE_UNITS_SORT; those"
    " that are settings go without the command: KWHERE_INTERVAL, KWHERE_STATE, KWHERE_WEB_LISTEN_ADDRESS.",
)
@click.version_option(__version__, message="kwhere %(version)s")
def root() -> None:
    """Where did the kWh go? Every joule, gram of CO2e and CPU-second, booked to what caused it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 not found, denied or failed, 2 usage or settings."""
    sys.exit(run_root(arguments))


def run_root(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_command(root, arguments, "kwhere")
