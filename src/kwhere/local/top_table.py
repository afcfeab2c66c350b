"""The table of `kwhere top`: which columns fit, how wide they are, one line per row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from kwhere.local.top_choice import Choice, SortKey
from kwhere.local.top_history import TopRow, TopView
from kwhere.reports.figures import BYTES, ENERGY, NO_DATA, POWER, Scale, choose_scale
from kwhere.reports.plain_text import visible

BAR = "▇"
_LONGEST_BAR = 20
_SHORTEST_BAR = 6
_LEAST_NAME = 12
_LEAST_LABEL = 4
_LONGEST_USER = 10
_LEAST_FIGURE = 5
_REST_STYLE = "bright_black"


@dataclass(frozen=True, slots=True)
class Column:
    """One column before the name. Those of least `rank` stay in a narrow terminal."""

    header: str
    text: Callable[[TopRow], str]
    rank: int
    sort: SortKey | None = None
    is_number: bool = True

    def width(self, rows: Sequence[TopRow]) -> int:
        """Return its width: so wide that a live figure rarely moves the columns beside it."""
        least = max(len(self.header), _LEAST_FIGURE if self.is_number else 0)
        return max([least, *(cell_len(self.text(row)) for row in rows)])


@dataclass(frozen=True, slots=True)
class Table:
    """Columns with their widths, for one view in one terminal."""

    columns: tuple[tuple[Column, int], ...]
    label_width: int
    bar_width: int
    """0: no bar."""
    most_watts: float
    """What a full bar stands for."""
    width: int

    @classmethod
    def fit(cls, view: TopView, choice: Choice, width: int) -> Self:
        """Return what fits; rows filtered out count too, so that typing a filter moves no column."""
        rows = (*view.rows, *view.rest)
        label_width = max([len("NAME"), *(cell_len(row.label) for row in rows)])
        columns = [(column, column.width(rows)) for column in _columns(rows, choice)]
        while len(columns) > 2 and _left(columns, width) < min(label_width, _LEAST_NAME):
            columns.remove(max(columns, key=lambda item: item[0].rank))
        left = max(_LEAST_LABEL, _left(columns, width))
        bar_width = min(_LONGEST_BAR, left - label_width - 1)
        if bar_width < _SHORTEST_BAR:
            bar_width = _SHORTEST_BAR if left > _LEAST_NAME + _SHORTEST_BAR else 0
        label_width = min(label_width, left - bar_width - 1 if bar_width else left)
        most = max((row.power_watts or 0.0 for row in view.rows), default=0.0)
        return cls(tuple(columns), label_width, bar_width, most, width)

    def head(self, choice: Choice) -> Text:
        """Return the line of headers, the sorted one marked."""
        line = Text(no_wrap=True, style="reverse")
        for column, size in self.columns:
            line.append(_padded(column, column.header, size), _mark(column.sort, choice))
            line.append(" ")
        line.append("NAME", _mark(SortKey.NAME, choice))
        return fitted(line, self.width, fill=True)

    def lines(self, rows: Sequence[TopRow], rest: Sequence[TopRow]) -> Iterator[Text]:
        """Yield the lines of units, then those of what belongs to none."""
        for row in rows:
            yield self._line(row, self.bar_width)
        for row in rest:
            line = self._line(row, 0)
            line.stylize(_REST_STYLE)
            yield line

    def _line(self, row: TopRow, bar_width: int) -> Text:
        line = Text(no_wrap=True)
        texts = [column.text(row) for column, _ in self.columns]
        for (column, size), text in zip(self.columns, texts, strict=True):
            line.append(_padded(column, text, size))
            line.append(" ")
        line.append(set_cell_size(cut(visible(row.label), self.label_width), self.label_width))
        if bar_width:
            line.append(self._bar(row, bar_width, is_seen=bool(texts[0].strip(f"0.{NO_DATA}"))), "yellow")
        line.rstrip()
        return fitted(line, self.width)

    def _bar(self, row: TopRow, bar_width: int, *, is_seen: bool) -> str:
        """Return a blank and the bar; a figure that is seen has one cell at least."""
        if self.most_watts <= 0 or not row.power_watts:
            return ""
        cells = max(round(row.power_watts / self.most_watts * bar_width), int(is_seen))
        return f" {BAR * cells}" if cells else ""


def fitted(line: Text, width: int, *, fill: bool = False) -> Text:
    """Return the line in at most `width` columns, or in exactly so many."""
    line.truncate(width, overflow="crop", pad=fill)
    return line


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, a cut marked by `+`."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "+"


def _columns(rows: Sequence[TopRow], choice: Choice) -> list[Column]:
    def energy_of(row: TopRow) -> float | None:
        return row.total_joules if choice.totals else row.energy_joules

    power = choose_scale([row.power_watts for row in rows], POWER)
    energy = choose_scale([energy_of(row) for row in rows], ENERGY)
    memory = choose_scale([row.memory_bytes for row in rows], BYTES)
    has_gpus = any(row.gpus is not None for row in rows)
    gpus = [Column("GPUs", lambda row: NO_DATA if row.gpus is None else f"{row.gpus:.2f}", 2, SortKey.GPUS)]
    return [
        Column(power.unit, lambda row: _figure(row.power_watts, power), 0, SortKey.POWER),
        Column(energy.unit, lambda row: _figure(energy_of(row), energy), 2, SortKey.ENERGY),
        Column("CPUs", lambda row: NO_DATA if row.cpus is None else f"{row.cpus:.2f}", 1, SortKey.CPUS),
        *(gpus if has_gpus else ()),
        Column(memory.unit, lambda row: _figure(row.memory_bytes, memory), 3, SortKey.MEMORY),
        Column("PROCS", lambda row: NO_DATA if row.processes is None else str(row.processes), 6),
        Column("MANAGER", lambda row: row.manager, 5, is_number=False),
        Column("USER", _user, 4, is_number=False),
    ]


def _user(row: TopRow) -> str:
    return cut(visible(row.user or NO_DATA), _LONGEST_USER) if row.manager else ""


def _figure(value: float | None, scale: Scale) -> str:
    """Return a figure on its column's scale with two decimals at most: a live one is not steadier than that."""
    if value is None:
        return NO_DATA
    shown = value / scale.divisor
    return f"{shown:.0f}" if shown >= 99.95 else f"{shown:.1f}" if shown >= 9.995 else f"{shown:.2f}"


def _left(columns: Sequence[tuple[Column, int]], width: int) -> int:
    return width - sum(size + 1 for _, size in columns)


def _padded(column: Column, text: str, size: int) -> str:
    return text.rjust(size) if column.is_number else set_cell_size(text, size)


def _mark(sort: SortKey | None, choice: Choice) -> str:
    return "bold underline" if sort is choice.sort else ""
