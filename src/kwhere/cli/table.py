"""Plain text tables: aligned, unit in the header, as wide as the terminal and no wider; wide when piped."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

BAR = "▇"
WIDE = 10_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts; numbers go right. `shrinks` columns give up width first, cut with `+` like sacct."""

    header: str
    is_number: bool = False
    shrinks: bool = False
    min_width: int = 6


def output_width() -> int:
    """Return the terminal's width in columns; without a terminal nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE


def render(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table with a header line."""
    widths = [max([len(c.header), *(len(row[i]) for row in rows)]) for i, c in enumerate(columns)]
    _shrink(columns, widths, width)
    lines = [_line(columns, widths, [column.header for column in columns])]
    return lines + [_line(columns, widths, row) for row in rows]


def bar(ratio: float | None, width: int) -> str:
    """Return a bar of `width` columns filled to `ratio`; anything above zero shows."""
    if ratio is None or ratio <= 0:
        return ""
    return BAR * max(1, min(width, round(ratio * width)))


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, a cut marked by `+`."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "+"


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> None:
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0:
        open_columns = [i for i, c in enumerate(columns) if c.shrinks and widths[i] > c.min_width]
        if not open_columns:
            return
        widest = max(open_columns, key=lambda i: widths[i])
        widths[widest] -= 1
        excess -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str]) -> str:
    cells = [
        cut(text, size).rjust(size) if column.is_number else cut(text, size).ljust(size)
        for column, size, text in zip(columns, widths, texts, strict=True)
    ]
    return "  ".join(cells).rstrip()
