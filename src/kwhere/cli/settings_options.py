"""The option that names the configuration file, and the settings it leads to."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kwhere.apps.settings import Settings

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def config_option(command: CommandT) -> CommandT:
    """Add `--config.file`."""
    return click.option(
        "--config.file",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="KWHERE_CONFIG_FILE",
        help="Configuration file; `conf.d/*.yaml` beside it is read too  [~/.config/kwhere or /etc/kwhere/kwhere.yaml]",
    )(command)


def load_settings(config_file: Path | None, overrides: Mapping[str, object]) -> "Settings":
    """Return the effective settings. Raises ConfigError."""
    from kwhere.apps.configuration import default_file, load
    from kwhere.apps.settings import Settings

    return load(Settings, config_file or default_file(os.environ), overrides)
