"""Plain text tables: aligned, unit in the header, no wider than told; of the command line and of written reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kwhere.reports.plain_text import visible

BAR = "▇"
WIDE = 10_000
"""Columns of what no terminal shows: nothing is cut."""
_GAP = 2
_NARROW = frozenset("–▇×…")
_FIRST_ODD = "\u0300"
"""From here on a sign may take no column, or two."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts; numbers go right. `shrinks` columns give up width first, cut with `+` like sacct."""

    header: str
    is_number: bool = False
    shrinks: bool = False
    min_width: int = 6
    gives_last: bool = False
    """It shrinks only when no other column can any more."""
    rank: int = 0
    """Where shrinking is not enough, columns of the highest rank are left out first; 0 is never."""
    width: int | None = None
    """So wide, whatever is in it."""
    paint: Callable[[str], str] | None = None
    """Colours a cell, where it is to be coloured."""


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    has_header: bool = True,
    is_coloured: bool = False,
) -> list[str]:
    """Return the lines of a table, with a header line unless told otherwise."""
    cells = [[visible(text) for text in row] for row in rows]
    widths = [_width(column, [row[i] for row in cells], has_header) for i, column in enumerate(columns)]
    shown = _kept(columns, widths, width)
    columns, widths = [columns[i] for i in shown], [widths[i] for i in shown]
    _shrink(columns, widths, width)
    lines = [_line(columns, widths, [column.header for column in columns])] if has_header else []
    return lines + [_line(columns, widths, [row[i] for i in shown], is_coloured=is_coloured) for row in cells]


def bar(ratio: float | None, width: int) -> str:
    """Return a bar of `width` columns filled to `ratio`; anything above zero shows."""
    if ratio is None or ratio <= 0:
        return ""
    return BAR * max(1, min(width, round(ratio * width)))


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, a cut marked by `+`."""
    if columns_of(text) <= width:
        return text
    kept = text[: max(0, width - 1)]
    while columns_of(kept) > width - 1:
        kept = kept[:-1]
    return kept + "+" if width > 0 else ""


def columns_of(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    if all(sign < _FIRST_ODD or sign in _NARROW for sign in text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _width(column: Column, texts: Sequence[str], has_header: bool) -> int:
    if column.width is not None:
        return column.width
    return max([columns_of(column.header) if has_header else 0, *map(columns_of, texts)])


def _least(column: Column, width: int) -> int:
    return min(width, column.min_width) if column.shrinks else width


def _kept(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Return the columns that fit once those that shrink have shrunk."""
    kept = list(range(len(columns)))
    while sum(_least(columns[i], widths[i]) for i in kept) + _GAP * (len(kept) - 1) > width:
        last = max(kept, key=lambda i: columns[i].rank)
        if columns[last].rank == 0:
            break
        kept.remove(last)
    return kept


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> None:
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0:
        open_columns = [i for i, c in enumerate(columns) if c.shrinks and widths[i] > c.min_width]
        if not open_columns:
            return
        first = [i for i in open_columns if not columns[i].gives_last] or open_columns
        widest = max(first, key=lambda i: widths[i])
        widths[widest] -= 1
        excess -= 1


def _line(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str], *, is_coloured: bool = False) -> str:
    cells = []
    for column, size, text in zip(columns, widths, texts, strict=True):
        short = cut(text, size)
        blanks = " " * (size - columns_of(short))
        painted = column.paint(short) if is_coloured and column.paint else short
        cells.append(blanks + painted if column.is_number else painted + blanks)
    return (" " * _GAP).join(cells).rstrip()
