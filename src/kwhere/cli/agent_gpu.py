"""`kwhere agent gpu`: GPU handles of the agent that runs here, given back and taken again."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from kwhere.cli.settings_options import config_option, load_settings, state_option

RELEASE_SECONDS = 60.0
"""Every vendor's child may take ten seconds to end."""

_state_option = state_option("State directory of the agent to ask  [systemd's, else XDG]")
_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object")


@click.group("gpu")
def agent_gpu() -> None:
    """Give GPU handles back, take them again, or say how it stands.

    Dividing a GPU (MIG) or resetting it fails while any process holds it. Release and acquire are for root and the
    agent's own user.
    """


@agent_gpu.command("release")
@_state_option
@config_option
@_json_option
def release(*, state_dir: Path | None, config_file: Path | None, as_json: bool) -> int:
    """Give every GPU handle back. Exit code 1 if one is still held.

    They are taken again by `acquire`, or by themselves after gpu.release_seconds.
    """
    answer = _ask(state_dir, config_file, {"do": "gpu_release"})
    _say(answer, as_json=as_json)
    return 0 if answer["done"] else 1


@agent_gpu.command("acquire")
@_state_option
@config_option
@_json_option
def acquire(*, state_dir: Path | None, config_file: Path | None, as_json: bool) -> int:
    """Take GPU handles again."""
    _say(_ask(state_dir, config_file, {"do": "gpu_acquire"}), as_json=as_json)
    return 0


@agent_gpu.command("status")
@_state_option
@config_option
@_json_option
def status(*, state_dir: Path | None, config_file: Path | None, as_json: bool) -> int:
    """Say whether handles are released, and how each vendor's library stands."""
    _say(_ask(state_dir, config_file, {"get": "gpu"}), as_json=as_json)
    return 0


def _ask(state_dir: Path | None, config_file: Path | None, question: dict[str, Any]) -> dict[str, Any]:
    from kwhere.apps.configuration import default_state_dir
    from kwhere.local.agent_client import SOCKET_NAME, ask_agent

    settings = load_settings(config_file, {})
    directory = state_dir or settings.agent.state or default_state_dir(os.environ)
    return ask_agent(directory / SOCKET_NAME, question, RELEASE_SECONDS)


def _say(answer: Mapping[str, Any], *, as_json: bool) -> None:
    from kwhere.local.gpu_handles import released_words

    if as_json:
        click.echo(json.dumps({name: value for name, value in answer.items() if name != "ok"}, indent=1))
        return
    for vendor in answer["vendors"]:
        works = "reads" if vendor["up"] else f"does not read ({vendor['reason'] or 'not answered yet'})"
        click.echo(f"{vendor['vendor']}: {works}, {vendor['gpus_up']} of {vendor['gpus']} GPUs up")
    if not answer["released"]:
        click.echo("GPU handles: held, or about to be taken.")
    elif answer.get("done") is False:
        click.echo("GPU handles: to be given back, but one is still held: a call into the driver hangs.")
    else:
        click.echo(f"GPU handles: {released_words(answer, datetime.now().astimezone())}.")
