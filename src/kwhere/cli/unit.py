"""`kwhere unit ID`: one unit like a good job report."""

from collections.abc import Sequence
from pathlib import Path

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.exits import EXIT_FAILED
from kwhere.cli.streams import color_option, json_text, say
from kwhere.cli.unit_lookup import Found, Key, find_units, group_of, key_of, unit_path
from kwhere.cli.unit_output import SCHEMA_VERSION, Output, Style, error_document, write_units
from kwhere.cli.unit_page import report
from kwhere.cli.unit_questions import written_ids
from kwhere.cli.unit_whole import RUNS, part_header, part_lines, spread_lines, summed_item
from kwhere.core.errors import KwhereError, NotFound

ARRAY = "array"
SEVERAL = "several units have this id; name one as CLUSTER/MANAGER/ID, or with -M and -m"


@click.command()
@click.argument("idents", nargs=-1, required=True, metavar="ID...")
@click.option("-M", "--cluster", help="The cluster, where several know this id")
@click.option("-m", "--manager", help="The manager, where several know this id")
@click.option("--run", "run_id", help="One run of it  [all runs of the job, added up]")
@click.option("--json", "style", flag_value="json", help="One JSON object, base units, null for unknown")
@click.option("--csv", "style", flag_value="csv", help="CSV, base units, empty for unknown")
@color_option
@server_options
def unit(
    idents: Sequence[str],
    *,
    cluster: str | None,
    manager: str | None,
    run_id: str | None,
    style: str | None,
    server: str | None,
    token_file: Path | None,
    state_dir: Path | None,
) -> int:
    """Show one unit, or several one after the other.

    ID is the manager's id (4242, 123_4, 123+0, 123.batch, a pod's name or uid), or MANAGER/ID, CLUSTER/ID,
    NAMESPACE/POD, CLUSTER/MANAGER/ID. The number of an array lists its tasks with their sum; a
    heterogeneous or requeued job is one report that adds up its components or runs. slurm-123_4.out is
    the job that wrote it, - a list of ids on stdin.
    """
    api = Api(server, token_file, state_dir)
    chosen = Style(style or Style.TABLE)
    codes = []
    wanted = written_ids(idents)
    if not wanted:
        raise click.UsageError("expected ids such as 123_4, found none")
    for ident in wanted:
        try:
            codes.append(_show(api, _Wanted(ident, cluster, manager, run_id), chosen))
        except KwhereError as error:
            if chosen is Style.JSON:
                document = {"schema_version": SCHEMA_VERSION, "items": [], "errors": [error_document(error)]}
                click.echo(json_text(document, 1))
            if not isinstance(error, NotFound) or len(wanted) == 1:
                raise
            say(f"kwhere: {error}")
            codes.append(EXIT_FAILED)
    return max(codes)


class _Wanted:
    """A unit as it was asked for."""

    def __init__(self, ident: str, cluster: str | None, manager: str | None, run: str | None) -> None:
        self.ident, self.cluster, self.manager, self.run = ident, cluster, manager, run

    @property
    def whole(self) -> tuple[str, str, str] | None:
        """Return cluster, manager and native id, where all were named."""
        parts = self.ident.split("/", 2)
        # A dot is no name, but a way up.
        if len(parts) == 3 and not {"", ".", ".."} & set(parts):
            return parts[0], parts[1], parts[2]
        return None


def _show(api: Api, wanted: _Wanted, style: Style) -> int:
    if wanted.whole is not None:
        return _show_one(api, wanted.whole, wanted.run, style)
    found = find_units(api, wanted.ident, wanted.cluster, wanted.manager)
    if len(found.items) == 1:
        return _show_one(api, key_of(found.items[0]), wanted.run, style, found.runs)
    if not found.is_group:
        write_units(found.items, Output(style))
        keys = ", ".join("/".join(key_of(item)) for item in found.items[:10])
        raise NotFound(f"unit {wanted.ident}: {SEVERAL}: {keys}")
    return _show_group(api, found, style)


def _show_one(api: Api, key: Key, run: str | None, style: Style, runs: int | None = None) -> int:
    """Print one run where it is named or the only one, else all runs of the job added up."""
    if run is None and runs != 1:
        try:
            whole = api.get(f"{unit_path(key)}/{RUNS}")
        except NotFound:  # an older server has no such route; whether the unit is there says the next answer
            whole = {"parts": ()}
        if len(whole["parts"]) > 1:
            return _print_whole(api, whole, style)
    item = api.get(unit_path(key), {"run": run})
    if style is Style.JSON:
        click.echo(json_text(item, 1))
    elif style is Style.CSV:
        write_units([item], Output(style))
    else:
        click.echo("\n".join(report(item, runs or 1, api.url + unit_path(key))))
    return 0


def _show_group(api: Api, found: Found, style: Style) -> int:
    """Print a heterogeneous job as one, and of an array its tasks with their spread and sum."""
    cluster, manager, _ = key_of(found.items[0])
    try:
        whole = api.get(f"{unit_path((cluster, manager, group_of(found.items[0]) or ''))}/parts")
    except NotFound as error:
        say(f"no sum: {error}")
        whole = None
    if whole is not None and whole["kind"] != ARRAY:
        return _print_whole(api, whole, style)
    if style is Style.JSON:
        told = {} if whole is None else {name: whole[name] for name in ("unit", "states", "unknown")}
        document = {"schema_version": SCHEMA_VERSION, "items": found.items, "sum": told.pop("unit", None), **told}
        click.echo(json_text(document, 1))
        return 0
    write_units(found.items, Output(style))
    if style is Style.TABLE:
        click.echo("\n".join(spread_lines(found.items, whole)))
    return 0


def _print_whole(api: Api, whole: Json, style: Style) -> int:
    if style is Style.JSON:
        click.echo(json_text({**whole["unit"], "kind": whole["kind"], "parts": whole["parts"]}, 1))
    elif style is Style.CSV:
        write_units([whole["unit"]], Output(style))
    else:
        page = api.url + unit_path(key_of(whole["parts"][0]))
        lines = report(summed_item(whole), page=page, added=part_header(whole), parts=part_lines(whole))
        click.echo("\n".join(lines))
    return 0
