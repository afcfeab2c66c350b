"""`kwhere unit ID`: one unit like a good job report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import click

from kwhere.cli.client import Api, Json, server_options
from kwhere.cli.streams import color_option, json_text
from kwhere.cli.table import Column, render
from kwhere.cli.unit_lookup import Found, find_units, key_of, unit_path
from kwhere.cli.unit_output import SCHEMA_VERSION, Output, Style, error_document, write_units
from kwhere.cli.unit_page import report
from kwhere.cli.unit_values import elapsed_seconds
from kwhere.core.errors import KwhereError, NotFound
from kwhere.reports.figures import ENERGY, choose_scale, duration, share

SEVERAL = "several units have this id; name one as CLUSTER/MANAGER/ID, or with -M and -m"


@click.command()
@click.argument("idents", nargs=-1, required=True, metavar="ID...")
@click.option("-M", "--cluster", help="The cluster, where several know this id")
@click.option("-m", "--manager", help="The manager, where several know this id")
@click.option("--run", "run_id", help="One run of it  [the newest]")
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
    NAMESPACE/POD, CLUSTER/MANAGER/ID. The number of an array lists its tasks.
    """
    api = Api(server, token_file, state_dir)
    chosen = Style(style or Style.TABLE)
    codes = []
    for ident in idents:
        try:
            codes.append(_show(api, _Wanted(ident, cluster, manager, run_id), chosen))
        except KwhereError as error:
            if chosen is Style.JSON:
                document = {"schema_version": SCHEMA_VERSION, "items": [], "errors": [error_document(error)]}
                click.echo(json_text(document, 1))
            raise
    return max(codes)


class _Wanted:
    """A unit as it was asked for."""

    def __init__(self, ident: str, cluster: str | None, manager: str | None, run: str | None) -> None:
        self.ident, self.cluster, self.manager, self.run = ident, cluster, manager, run

    @property
    def whole(self) -> tuple[str, str, str] | None:
        """Return cluster, manager and native id, where all were named."""
        parts = self.ident.split("/", 2)
        if len(parts) == 3:
            return parts[0], parts[1], parts[2]
        return None


def _show(api: Api, wanted: _Wanted, style: Style) -> int:
    if wanted.whole is not None:
        _print(api, api.get(unit_path(wanted.whole), {"run": wanted.run}), style)
        return 0
    found = find_units(api, wanted.ident, wanted.cluster, wanted.manager)
    if len(found.items) == 1:
        item = api.get(unit_path(key_of(found.items[0])), {"run": wanted.run})
        _print(api, item, style, found.runs)
        return 0
    return _list(wanted.ident, found, style)


def _print(api: Api, item: Json, style: Style, runs: int = 1) -> None:
    if style is Style.JSON:
        click.echo(json_text(item, 1))
    elif style is Style.CSV:
        write_units([item], Output(style))
    else:
        click.echo("\n".join(report(item, runs, api.url + unit_path(key_of(item)))))


def _list(ident: str, found: Found, style: Style) -> int:
    """Print the parts of an array or heterogeneous job, or the units among which the id does not choose."""
    write_units(found.items, Output(style))
    if not found.is_group:
        raise NotFound(f"unit {ident}: {SEVERAL}: {', '.join('/'.join(key_of(item)) for item in found.items[:10])}")
    if style is Style.TABLE:
        click.echo("\n".join(_summary(found.items)))
    return 0


def _summary(items: Sequence[Json]) -> list[str]:
    """Return smallest, median and largest of what matters of an array's tasks."""
    scale = choose_scale([item["energy_joules_total"] for item in items], ENERGY)
    rows: list[tuple[str, ...]] = []
    figures: tuple[tuple[str, Callable[[Json], float | None], Callable[[float | None], str]], ...] = (
        (f"energy {scale.unit}", lambda item: item["energy_joules_total"], scale.text),
        ("CPU", lambda item: item.get("cpu_efficiency_ratio"), share),
        ("memory", lambda item: item.get("memory_efficiency_ratio"), share),
        ("run time", elapsed_seconds, duration),
    )
    for label, value, text in figures:
        known = [figure for item in items if (figure := value(item)) is not None]
        if known:
            rows.append((label, *(text(figure) for figure in (min(known), median(known), max(known))), str(len(known))))
    columns = [
        Column(f"{len(items)} TASKS"),
        *(Column(name, is_number=True) for name in ("MIN", "MEDIAN", "MAX", "OF")),
    ]
    return ["", *render(columns, rows, 80)] if rows else []
