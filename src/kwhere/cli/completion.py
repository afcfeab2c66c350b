"""`kwhere completion SHELL`: the script that completes subcommands and options."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL; source it from your shell's start file.

    For bash:  kwhere completion bash > ~/.local/share/bash-completion/completions/kwhere
    """
    from kwhere.cli.main import root

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(root, {}, "kwhere", "_KWHERE_COMPLETE").source())
