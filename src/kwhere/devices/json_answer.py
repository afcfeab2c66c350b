"""JSON that a device answers with: any bytes become a document or an error of ours."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from kwhere.core.errors import SourceError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
_EXCERPT = 60
_MAX_DIGITS = 40


def parse_json(body: bytes, place: str) -> JsonValue:
    """Return the document in `body`. Raises SourceError for HTML, for what is cut off, for anything else.

    NaN and Infinity, which are no JSON, are kept as numbers that are not finite: `finite` tells them apart.
    """
    try:
        value: Any = json.loads(body, parse_int=_integer)
    except (ValueError, RecursionError):
        raise SourceError(f"{place}: expected JSON, found {_describe(body)}") from None
    found: JsonValue = value
    return found


def parse_object(body: bytes, place: str) -> Mapping[str, JsonValue]:
    """Return the object in `body`. Raises SourceError."""
    value = parse_json(body, place)
    if not isinstance(value, Mapping):
        raise SourceError(f"{place}: expected a JSON object, found {_describe(body)}")
    return value


def finite(value: JsonValue) -> float | None:
    """Return a number as it is; None for null, text, true, NaN and the like: what is no number was not measured."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def text(value: JsonValue) -> str:
    """Return a string as it is, "" for anything else."""
    return value if isinstance(value, str) else ""


def member(value: JsonValue, *names: str) -> JsonValue:
    """Return what lies at `names` within nested objects; None where anything on the way is something else."""
    for name in names:
        # a dict first: asking an abstract class costs ten times as much, and lists of pods are long
        if isinstance(value, (dict, Mapping)):
            value = value.get(name)
        else:
            return None
    return value


def elements(value: JsonValue) -> Sequence[JsonValue]:
    """Return a list's elements; none for anything else."""
    if isinstance(value, list):
        return value
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _integer(digits: str) -> float:
    """An integer longer than any measured thing becomes a float, which may be infinite."""
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def _describe(body: bytes) -> str:
    beginning = body[:400].decode(errors="replace").strip()
    if not beginning:
        return "nothing"
    if beginning.startswith("<"):
        return "HTML"
    shown = " ".join("".join(c if c.isprintable() else " " for c in beginning).split())
    return repr(shown if len(shown) <= _EXCERPT else shown[: _EXCERPT - 1] + "…")
