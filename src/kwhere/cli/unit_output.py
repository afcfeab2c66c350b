"""Lists of units as people and programs read them: a table, chosen fields, CSV, JSON, YAML."""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import click

from kwhere.cli.client import Json
from kwhere.cli.streams import json_text
from kwhere.cli.table import WIDE, Column, output_width, render
from kwhere.cli.unit_fields import USUAL, Choice, Kind
from kwhere.cli.unit_table import unit_lines, what_is_estimated
from kwhere.core.errors import KwhereError
from kwhere.reports.plain_text import spreadsheet_cell, visible, visible_lines

SCHEMA_VERSION = 1
WhyNone = Callable[[], KwhereError | None]


class Style(StrEnum):
    """What is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARSABLE = "parsable"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Output:
    """How units are printed. `chosen` None: what is usual for the style."""

    style: Style = Style.TABLE
    chosen: Sequence[Choice] | None = None
    has_header: bool = True
    delimiter: str = "|"
    is_whole: bool = False
    """Nothing is cut, however narrow the terminal is."""

    @property
    def width(self) -> int:
        """Return the columns there are."""
        return WIDE if self.is_whole else output_width()


def write_units(items: Iterable[Json], output: Output, why_none: WhyNone = lambda: None) -> int:
    """Print units as they come and return how many; what is for the eye alone goes to stderr.

    `why_none` is asked where there are none: what failed stands in the JSON too.
    """
    if output.style is Style.JSON:
        return _write_json(items, output, why_none)
    if output.style is Style.YAML:
        return _write_yaml(items, output)
    if output.style in (Style.CSV, Style.PARSABLE):
        return _write_rows(items, output)
    return _write_table(list(items), output)


def error_document(error: KwhereError) -> Json:
    """Return an error as it stands in JSON: its kind in one word, and its text."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    return {"kind": kind, "text": str(error)}


def _write_json(items: Iterable[Json], output: Output, why_none: WhyNone) -> int:
    """One document even where the server dies half-way: what came, and the error."""
    click.echo(f'{{"schema_version": {SCHEMA_VERSION}, "items": [', nl=False)
    count, failed = 0, None
    try:
        for item in items:
            click.echo(f"{',' if count else ''}\n{json_text(_picked(item, output))}", nl=False)
            count += 1
    except KwhereError as error:
        failed = error
    told = failed if count or failed is not None else why_none()
    errors = "" if told is None else f', "errors": {json_text([error_document(told)])}'
    click.echo(f"\n]{errors}}}")
    if failed is not None:
        raise failed
    return count


def _write_yaml(items: Iterable[Json], output: Output) -> int:
    import yaml

    found = [_picked(item, output) for item in items]
    document = {"schema_version": SCHEMA_VERSION, "items": found}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    if text != visible_lines(text):  # what is not printable would drive a terminal: escaped, it is the same
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False)
    click.echo(text, nl=False)
    return len(found)


def _picked(item: Json, output: Output) -> Json:
    if output.chosen is None:
        return item
    return {choice.field.name: choice.field.value(item) for choice in output.chosen}


def _write_rows(items: Iterable[Json], output: Output) -> int:
    delimiter = "," if output.style is Style.CSV else output.delimiter
    chosen = output.chosen or USUAL
    writer = csv.writer(_Stdout(), delimiter=delimiter, lineterminator="\n")
    if output.has_header:
        writer.writerow([choice.field.name for choice in chosen])
    count = 0
    for item in items:
        writer.writerow([row_cell(choice.field.value(item), is_csv=output.style is Style.CSV) for choice in chosen])
        count += 1
    return count


def row_cell(value: Any, *, is_csv: bool) -> Any:
    """Return a cell of CSV or of columns: on a terminal nothing in it drives that, elsewhere it stands as it is."""
    if not isinstance(value, str):
        return value
    shown = visible(value) if sys.stdout.isatty() else value
    return spreadsheet_cell(shown) if is_csv else shown


class _Stdout:
    """Where rows go: through click, which knows how to write to any stdout."""

    def write(self, text: str) -> int:
        """Print `text`."""
        click.echo(text, nl=False, color=True)  # else what looks like colour is taken out of names
        return len(text)


def _write_table(items: Sequence[Json], output: Output) -> int:
    if items and output.chosen is not None:
        click.echo("\n".join(_chosen_lines(items, output.chosen, output)))
    elif items:
        click.echo("\n".join(unit_lines(items, output.width, has_header=output.has_header)))
        sentence = what_is_estimated(items)
        if sentence:
            print(sentence, file=sys.stderr)
    return len(items)


def _chosen_lines(items: Sequence[Json], chosen: Sequence[Choice], output: Output) -> list[str]:
    rows = [[choice.field.text(item) for choice in chosen] for item in items]
    return render([_column(choice) for choice in chosen], rows, output.width, has_header=output.has_header)


def _column(choice: Choice) -> Column:
    """As with sacct: a width alone goes right, one with a minus left; without a width, numbers go right."""
    is_number = choice.field.kind in (Kind.NUMBER, Kind.LENGTH)
    goes_right = is_number if choice.width is None else not choice.is_left
    return Column(choice.field.name, is_number=goes_right, shrinks=choice.width is None, width=choice.width)
