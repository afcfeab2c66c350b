"""The option that names the configuration file, and the settings it leads to."""

import os
from collections.abc import Callable, Mapping, Sequence
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


def state_option(text: str, names: Sequence[str] = ("--state", "--state-dir")) -> Callable[[CommandT], CommandT]:
    """Return a decorator that adds the option of the state directory, by either name."""
    return click.option(
        *names,
        "state_dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="KWHERE_STATE",
        help=text,
    )


def load_settings(config_file: Path | None, overrides: Mapping[str, object], *, log_level: str = "info") -> "Settings":
    """Return the effective settings, and send the log to stderr from here on. Raises ConfigError."""
    from kwhere.apps.configuration import default_file, load
    from kwhere.apps.logs import set_up_logs
    from kwhere.apps.settings import Settings

    set_up_logs(log_level)
    return load(Settings, config_file or default_file(os.environ), overrides)
