"""`kwhere config`: the effective settings."""

import json
import os
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
    """Print the whole effective file: defaults, the file, conf.d.

    What comes from the environment or a file (`${NAME}`, `${file:/path}`) is shown as it is written, not as it reads.
    """
    import yaml

    from kwhere.apps.configuration import default_file, read_all
    from kwhere.apps.expansion import hide_in

    settings = load_settings(config_file, {})
    _, expanded = read_all(config_file or default_file(os.environ))
    tree = hide_in(settings.model_dump(mode="json"), expanded)
    click.echo(json.dumps(tree, indent=1) if as_json else yaml.safe_dump(tree, sort_keys=False), nl=as_json)


@config.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@config_option
def check(file: Path | None, config_file: Path | None) -> None:
    """Check FILE (and conf.d beside it): exit code 0 if a role would start with it, 2 with each wrong key named."""
    from kwhere.apps.agent import check_settings
    from kwhere.apps.configuration import default_file
    from kwhere.apps.door_check import check_door
    from kwhere.apps.inventories import check_sources
    from kwhere.apps.series_stores import check_series
    from kwhere.apps.zones import check_factors

    named = file or config_file
    settings = load_settings(named, {})
    check_settings(settings)
    check_factors(settings)
    check_sources(settings)
    check_door(settings)
    check_series(settings)
    read = named or default_file(os.environ)
    click.echo(f"settings are right ({read or 'no file: the defaults'})")
