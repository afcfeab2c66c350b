"""Columns over time without script: one per day, week or month, each a stack from the bottom up."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.web.formatting import Column

GAP_RATIO = 0.25
"""Of a column's place that is left free."""
FEW = 12
"""Fewer columns than that do not become wider."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of one column, in the base unit of the chart; None: not measured."""

    css_class: str
    name: str
    amount: float | None


@dataclass(frozen=True, slots=True)
class Stack:
    """What one column shows: its key, its layers from the bottom up, and the whole where that is not their sum."""

    key: str
    layers: Sequence[Layer]
    whole: float | None = None
    """A limit behind the layers, such as a capacity; None: none."""

    @property
    def total(self) -> float | None:
        """Return the sum of the layers that are known; None where none is."""
        known = [layer.amount for layer in self.layers if layer.amount is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle in percent of the chart."""

    css_class: str
    left: float
    top: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Rectangles, and a few keys below them; empty where there is nothing to draw."""

    pieces: Sequence[Piece]
    marks: Sequence[str]
    highest: float


def column_chart(stacks: Sequence[Stack], column: Column) -> ColumnChart:
    """Return the rectangles of `stacks`, the highest filling the height; titles say the figures on `column`'s scale."""
    highest = max((max(stack.total or 0.0, stack.whole or 0.0) for stack in stacks), default=0.0)
    if highest <= 0:
        return ColumnChart((), (), 0.0)
    place = 100.0 / max(len(stacks), FEW)
    pieces: list[Piece] = []
    for at, stack in enumerate(stacks):
        left, width = at * place + place * GAP_RATIO / 2, place * (1 - GAP_RATIO)
        pieces += _pieces(stack, column, highest, (round(left, 3), round(width, 3)))
    keys = [stack.key for stack in stacks]
    marks = (
        [keys[0], keys[len(keys) // 2], keys[-1]]
        if len(keys) >= FEW
        else [" – ".join(dict.fromkeys((keys[0], keys[-1])))]
    )
    return ColumnChart(pieces, marks, highest)


def _pieces(stack: Stack, column: Column, highest: float, place: tuple[float, float]) -> list[Piece]:
    left, width = place
    found: list[Piece] = []
    if stack.whole:
        height = 100.0 * stack.whole / highest
        title = f"{stack.key}: {_text(stack.whole, column)} there"
        found.append(Piece("fill-track", left, round(100 - height, 3), width, round(height, 3), title))
    top = 100.0
    for layer in stack.layers:
        if layer.amount is None or layer.amount <= 0:
            continue
        height = 100.0 * layer.amount / highest
        top -= height
        title = f"{stack.key}, {layer.name}: {_text(layer.amount, column)}"
        found.append(Piece(layer.css_class, left, round(top, 3), width, round(height, 3), title))
    return found


def _text(value: float, column: Column) -> str:
    return f"{column.text(value)} {column.unit}"
