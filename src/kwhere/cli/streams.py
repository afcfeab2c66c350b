"""What a terminal, a pipe or an old locale can take: signs it cannot show, text that would move its cursor, colour."""

import codecs
import contextlib
import json
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_PLAIN = {"▇": "#", "–": "-", "×": "x", "…": ".", "µ": "u", "±": "~", "≥": ">", "°": " ", "·": "."}
"""One sign for one: columns stay where they are."""
_HANDLER = "kwhere.plain"


def prepare_streams() -> None:
    """Let stdout and stderr replace what their encoding does not have, instead of failing."""
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def flush_stdout() -> None:
    """Write out what is held back. Raises BrokenPipeError where nobody reads any more."""
    sys.stdout.flush()


def drop_stdout() -> None:
    """Send what is still held back nowhere: its reader is gone, and the interpreter would complain at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def json_text(value: object, indent: int | None = None) -> str:
    """Return `value` as JSON that stdout can take whole: signs that its encoding may lack are escaped, not replaced.

    So is what would drive a terminal.
    """
    from kwhere.reports.plain_text import escaped_signs

    encoding = (sys.stdout.encoding or "").lower().replace("-", "").replace("_", "")
    return escaped_signs(json.dumps(value, indent=indent, ensure_ascii=encoding != "utf8"))


def say(text: str) -> None:
    """Print lines for a person on stderr; names in them do not drive the terminal."""
    from kwhere.reports.plain_text import visible_lines

    click.echo(visible_lines(text), err=True)


def wants_colour() -> bool:
    """Return whether stdout may be coloured: as `--color` says, else where it is a terminal.

    `NO_COLOR` and a dumb terminal say no.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    return sys.stdout.isatty()


def color_option(command: CommandT) -> CommandT:
    """Add `--color`."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        expose_value=False,
        callback=_choose_colour,
        help="Colour states and findings; auto: on a terminal, unless NO_COLOR is set",
    )(command)


def _choose_colour(context: click.Context, _: click.Parameter, value: str) -> None:
    context.color = {"always": True, "never": False}.get(value)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in signs), error.end
