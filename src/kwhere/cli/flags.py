"""Flags that are settings: one row gives the option, its environment variable and its configuration key."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line flag that overrides the configuration key `key`."""

    name: str
    """As typed, without dashes: `web.listen-address`."""
    key: str
    """Dotted key in the configuration file: `agent.web.listen_address`."""
    help: str
    type: click.ParamType[Any] | type | None = None
    is_switch: bool = False

    @property
    def parameter(self) -> str:
        """Return the name click hands over."""
        return "flag_" + self.name.replace(".", "_").replace("-", "_")

    @property
    def variable(self) -> str:
        """Return the environment variable: `KWHERE_WEB_LISTEN_ADDRESS`."""
        return "KWHERE_" + self.name.replace(".", "_").replace("-", "_").upper()

    def decorate(self, command: CommandT) -> CommandT:
        """Return `command` with this option."""
        declared = f"--{self.name}/--no-{self.name}" if self.is_switch else f"--{self.name}"
        return click.option(
            declared,
            self.parameter,
            envvar=self.variable,
            type=None if self.is_switch else self.type,
            default=None,
            help=f"{self.help}  [{self.key}]",
        )(command)


def with_flags(flags: Iterable[Flag]) -> Callable[[CommandT], CommandT]:
    """Return a decorator that adds `flags` in the given order."""
    ordered = tuple(flags)

    def add(command: CommandT) -> CommandT:
        for flag in reversed(ordered):
            command = flag.decorate(command)
        return command

    return add


def overrides(flags: Iterable[Flag], values: Mapping[str, object]) -> dict[str, object]:
    """Return configuration keys → values for each flag that was given."""
    return {flag.key: values[flag.parameter] for flag in flags if values.get(flag.parameter) is not None}
