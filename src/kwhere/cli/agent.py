"""`kwhere agent`: measure this node."""

import os
from pathlib import Path
from typing import Any

import click

from kwhere.cli.collector_options import collector_overrides, split_collector_flags
from kwhere.cli.flags import Flag, overrides, with_flags
from kwhere.cli.settings_options import config_option, load_settings, state_option

FLAGS = (
    Flag("web.listen-address", "web.listen_addresses", "HOST:PORT or unix:PATH to listen on; several with commas"),
    Flag("web.config.file", "web.config_file", "Prometheus web config file: TLS and passwords"),
    Flag("web.allow-unprotected", "web.allow_unprotected", "Listen beyond loopback unprotected", is_switch=True),
    Flag("path.procfs", "path.procfs", "Where procfs is mounted, or its recorded copy"),
    Flag("path.sysfs", "path.sysfs", "Where sysfs is mounted, or its recorded copy"),
    Flag("path.cgroupfs", "path.cgroupfs", "Where cgroups are mounted, or their recorded copy"),
    Flag("cgroups.version", "cgroups.version", "Which hierarchies to read", click.Choice(["auto", "v1", "v2"])),
    Flag("libvirt.xml-dir", "units.libvirt_xml_dirs", "Directories of libvirt's domain files; several with commas"),
    Flag("interval", "agent.interval_seconds", "Seconds between two steps", float),
    Flag("slot", "agent.slot_seconds", "Length of a ledger slot in seconds", float),
    Flag("node", "agent.node", "Name of this node"),
    Flag("idle-policy", "agent.idle_policy", "How idle energy is shared: allocation, usage, equal, none"),
)
LISTS = ("web.listen_addresses", "units.libvirt_xml_dirs")


class AgentCommand(click.Command):
    """The command, with `gpu` as a group behind it: a group of its own could not take the collectors' flags."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of `agent gpu …` where that is asked for."""
        if args[:1] == ["gpu"]:
            from kwhere.cli.agent_gpu import agent_gpu

            return agent_gpu.make_context(f"{info_name} gpu", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=AgentCommand, context_settings={"ignore_unknown_options": True})
@config_option
@with_flags(FLAGS)
@state_option("State directory: journal, token  [systemd's, else XDG]")
@click.option("--once", is_flag=True, help="Take two samples, print the exposition, exit")
@click.argument(
    "collector_flags", nargs=-1, type=click.UNPROCESSED, metavar="[--[no-]collector.NAME] [--NAME.SETTING V]"
)
def agent(
    config_file: Path | None,
    state_dir: Path | None,
    *,
    once: bool,
    collector_flags: tuple[str, ...],
    **values: Any,
) -> int:
    """Measure this node: attribute its energy to units, keep the ledger, serve /metrics.

    Collectors are left out or taken in with --no-collector.NAME and --collector.NAME, and set up with
    --NAME.SETTING VALUE; `kwhere config show` lists them. SIGHUP reads the configuration again; a wrong one is told
    and leaves the old one in force.

    `kwhere agent gpu release` makes the agent that runs here give its GPU handles back, `acquire` lets it take them
    again, `status` says how it stands: see `kwhere agent gpu --help`.
    """
    given = overrides(FLAGS, values)
    for key in LISTS:
        if isinstance(text := given.get(key), str):
            given[key] = [part.strip() for part in text.split(",") if part.strip()]
    given |= collector_overrides(split_collector_flags(collector_flags), os.environ)
    settings = load_settings(config_file, given)
    if once:
        from kwhere.apps.agent import build_agent
        from kwhere.exposition.text import Format, Renderer

        samples = build_agent(settings, None).once(settings.agent.interval_seconds)
        click.echo(Renderer().render(samples, Format.TEXT), nl=False)
        return 0
    from kwhere.apps.agent_role import run_agent
    from kwhere.apps.configuration import default_state_dir

    place = state_dir or settings.agent.state or default_state_dir(os.environ)
    return run_agent(settings, place, read_again=lambda: load_settings(config_file, given))
