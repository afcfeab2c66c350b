"""A small path into a JSON document: `outlets[id=3].power`, `[-1].value`, `[labels.outlet=2][0].value`.

Steps: a key; `[n]`, an element by its number, from the end where negative; `[key=value]`, the elements of a list whose
`key` (dotted where it lies deeper) is `value`. After filters the path goes on in every element that fits; a number
right after them takes one of those.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kwhere.devices.json_answer import JsonValue, elements, member

_STEP = re.compile(
    r"(?P<dot>\.?)(?P<key>[^.\[\]=]+)"
    r"|\[(?P<index>-?[0-9]{1,6})\]"
    r"|\[(?P<name>[^\[\]=]+)=(?P<value>[^\[\]]*)\]"
)


@dataclass(frozen=True, slots=True)
class _Key:
    name: str


@dataclass(frozen=True, slots=True)
class _Index:
    number: int


@dataclass(frozen=True, slots=True)
class _Filter:
    name: tuple[str, ...]
    value: str


_Step: TypeAlias = _Key | _Index | _Filter


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path."""

    text: str
    steps: tuple[_Step, ...]

    def find(self, document: JsonValue) -> Sequence[JsonValue]:
        """Return every value at the path: none or one without filters, any number with."""
        found: list[JsonValue] = [document]
        is_filtered = False
        for step in self.steps:
            if isinstance(step, _Filter):
                pool = found if is_filtered else [item for value in found for item in elements(value)]
                found = [item for item in pool if _text(member(item, *step.name)) == step.value]
            elif isinstance(step, _Index) and is_filtered:
                found = _element(found, step.number)
            else:
                found = [value for item in found for value in _inside(item, step)]
            is_filtered = isinstance(step, _Filter)
        return found


def parse_path(text: str) -> JsonPath:
    """Return the path. Raises ValueError."""
    steps: list[_Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match["key"] is not None and bool(match["dot"]) != bool(steps)):
            raise ValueError(f"expected keys with dots, [n] or [key=value], found {text[position:]!r}")
        steps.append(_step(match))
        position = match.end()
    return JsonPath(text, tuple(steps))


def _step(match: re.Match[str]) -> _Step:
    if match["key"] is not None:
        return _Key(match["key"])
    if match["index"] is not None:
        return _Index(int(match["index"]))
    return _Filter(tuple(match["name"].split(".")), match["value"])


def _inside(value: JsonValue, step: _Key | _Index) -> list[JsonValue]:
    if isinstance(step, _Key):
        return [value[step.name]] if isinstance(value, Mapping) and step.name in value else []
    return _element(elements(value), step.number)


def _element(values: Sequence[JsonValue], number: int) -> list[JsonValue]:
    return [values[number]] if -len(values) <= number < len(values) else []


def _text(value: JsonValue) -> str | None:
    """Return what a filter compares: text as it is, numbers and truth as JSON writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None
