"""`kwhere redfish-proxy`: ask BMCs for nodes that cannot reach them."""

from pathlib import Path
from typing import Any

import click

from kwhere.cli.flags import Flag, overrides, with_flags
from kwhere.cli.settings_options import config_option, load_settings

LISTEN_KEY = "redfish_proxy.listen_addresses"
FLAGS = (
    Flag("redfish-proxy.listen-address", LISTEN_KEY, "HOST:PORT or unix:PATH to listen on; several with commas"),
    Flag("redfish-proxy.config.file", "redfish_proxy.config_file", "Prometheus web config file: TLS, users"),
    Flag("redfish-proxy.token-file", "redfish_proxy.token_file", "File with the token that agents show"),
)


@click.command()
@config_option
@with_flags(FLAGS)
def redfish_proxy(config_file: Path | None, **values: Any) -> int:
    """Answer agents with the power that their BMCs show, for nodes without a route to them.

    Only BMCs that `redfish_proxy.targets` lists are asked, only for chassis, power and sensors, and only for callers
    with the token, a password or a client certificate. Agents point `meters.redfish.url` at https://PROXY/{node}.
    """
    given = overrides(FLAGS, values)
    if isinstance(text := given.get(LISTEN_KEY), str):
        given[LISTEN_KEY] = [part.strip() for part in text.split(",") if part.strip()]
    settings = load_settings(config_file, given)
    from kwhere.apps.redfish_proxy import run_redfish_proxy

    return run_redfish_proxy(settings.redfish_proxy)
