"""`kwhere config`: the effective settings."""

import json
from pathlib import Path

import click

from kwhere.cli.settings_options import config_option, load_settings


@click.group()
def config() -> None:
    """Show or check the effective settings."""


@config.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="As JSON instead of YAML")
def show(config_file: Path | None, as_json: bool) -> None:
    """Print the whole effective file: defaults, the file, conf.d."""
    import yaml

    tree = load_settings(config_file, {}).model_dump(mode="json")
    click.echo(json.dumps(tree, indent=1) if as_json else yaml.safe_dump(tree, sort_keys=False), nl=as_json)


@config.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@config_option
def check(file: Path | None, config_file: Path | None) -> None:
    """Check FILE (and conf.d beside it): exit code 0 if a role would start with it, 2 with each wrong key named."""
    from kwhere.apps.agent import chosen_collectors, timing_of

    settings = load_settings(file or config_file, {})
    chosen_collectors(settings.collector)
    timing_of(settings.agent)
    click.echo("settings are right")
