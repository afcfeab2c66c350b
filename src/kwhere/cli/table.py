"""Tables on a terminal: as wide as it is and no wider, in colour where it takes that; wide when piped."""

import os
import shutil
import sys
from collections.abc import Sequence

from kwhere.cli.streams import wants_colour
from kwhere.reports import table
from kwhere.reports.table import WIDE, Column, bar, columns_of, cut

__all__ = ["WIDE", "Column", "bar", "columns_of", "cut", "output_width", "render"]


def output_width() -> int:
    """Return the terminal's width in columns; without a terminal nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE


def render(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, has_header: bool = True
) -> list[str]:
    """Return the lines of a table, with a header line unless told otherwise."""
    return table.render(columns, rows, width, has_header=has_header, is_coloured=wants_colour())
