"""A group of commands that is a command itself: without the name of one it is the default one, with its options."""

import click


class DefaultGroup(click.Group):
    """`kwhere nodes --json` is `kwhere nodes list --json`; `--help` is that of the group."""

    default = "list"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command's name in front where no command is named."""
        asks_help = args[:1] and args[0] in ctx.help_option_names
        if not args or (args[0].startswith("-") and not asks_help):
            args = [self.default, *args]
        return super().parse_args(ctx, args)
