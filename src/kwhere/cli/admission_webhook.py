"""`kwhere admission-webhook`: write on objects of Kubernetes who made them."""

from pathlib import Path
from typing import Any

import click

from kwhere.cli.flags import Flag, overrides, with_flags
from kwhere.cli.settings_options import config_option, load_settings

LISTEN_KEY = "admission_webhook.listen_addresses"
FLAGS = (
    Flag("admission-webhook.listen-address", LISTEN_KEY, "HOST:PORT or unix:PATH to listen on; several with commas"),
    Flag("admission-webhook.config.file", "admission_webhook.config_file", "Prometheus web config file: TLS"),
    Flag("admission-webhook.key-file", "admission_webhook.key_file", "File with the key that seals names"),
)


@click.command()
@config_option
@with_flags(FLAGS)
def admission_webhook(config_file: Path | None, **values: Any) -> int:
    """Answer a Kubernetes API server that asks before it keeps an object: the creating user is written on it.

    What people make is stamped with their name under a seal that only this program and the server can make; what
    controllers make keeps the stamp of what it was made from. Nothing is ever refused.
    """
    given = overrides(FLAGS, values)
    if isinstance(text := given.get(LISTEN_KEY), str):
        given[LISTEN_KEY] = [part.strip() for part in text.split(",") if part.strip()]
    settings = load_settings(config_file, given)
    from kwhere.apps.admission_webhook import run_admission_webhook

    return run_admission_webhook(settings.admission_webhook)
