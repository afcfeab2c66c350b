"""How a command ends: every error becomes one exit code, and one line per fact on stderr."""

import sys
from collections.abc import Sequence

import click

from kwhere.cli.streams import drop_stdout, flush_stdout, prepare_streams, say
from kwhere.core.errors import ConfigError, KwhereError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_CLOSED_PIPE = 141


def run_command(command: click.Command, arguments: Sequence[str] | None, program: str) -> int:
    """Run a command and return its exit code: 0 done, 1 not found, denied or failed, 2 usage or settings.

    130 after Ctrl-C, 141 where nobody reads on what is printed, as of any program that a closed pipe ends: both say
    nothing. A bug goes on as it is.
    """
    prepare_streams()
    stdout = sys.stdout
    try:
        result = command.main(args=arguments, prog_name=program, standalone_mode=False)
        flush_stdout()
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        drop_stdout()
        return EXIT_CLOSED_PIPE
    except SystemExit:
        if sys.stdout is stdout:
            raise
        return EXIT_CLOSED_PIPE  # click met it first: it ends with 1, and puts a stdout of its own in place
    except click.exceptions.Exit as request:
        return request.exit_code
    except (click.ClickException, KwhereError, ModuleNotFoundError) as error:
        return _told(error, program)
    return result if isinstance(result, int) else 0


def _told(error: click.ClickException | KwhereError | ModuleNotFoundError, program: str) -> int:
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    text = str(error) if isinstance(error, KwhereError) else _what_lacks(error)
    say(f"{program}: {text}")
    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILED


def _what_lacks(error: ModuleNotFoundError) -> str:
    """Return the command that installs the server part, where that is what lacks. Any other module is a bug."""
    from kwhere.local.server_part import SERVER_MODULES, lacking

    module = (error.name or "").partition(".")[0]
    if module not in SERVER_MODULES:
        raise error
    return str(lacking(module))
