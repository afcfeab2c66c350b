"""Reading objects of the Kubernetes API: any JSON gives a value of ours or none."""

from collections.abc import Mapping
from datetime import UTC, datetime

from kwhere.devices.json_answer import JsonValue, elements, member, text

_LONGEST_TIME = 40
_YEARS = range(1971, 2262)
"""Of Unix time in nanoseconds, which 64 bits hold."""


def words(value: JsonValue) -> Mapping[str, str]:
    """Return labels or annotations; what is no text is left out."""
    if not isinstance(value, dict):
        return {}
    return {name: word for name, word in value.items() if isinstance(word, str)}


def instant(value: JsonValue) -> datetime | None:
    """Return an RFC 3339 time as aware UTC; None for null, for what is no time of ours, for one without an offset."""
    stamp = text(value)
    if not stamp or len(stamp) > _LONGEST_TIME:
        return None
    try:
        found = datetime.fromisoformat(stamp)
        return None if found.utcoffset() is None or found.year not in _YEARS else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def labels_of(item: JsonValue) -> Mapping[str, str]:
    """Return an object's labels."""
    return words(member(item, "metadata", "labels"))


def annotations_of(item: JsonValue) -> Mapping[str, str]:
    """Return an object's annotations."""
    return words(member(item, "metadata", "annotations"))


def name_of(item: JsonValue) -> str:
    """Return an object's name; "" where it has none."""
    return text(member(item, "metadata", "name"))


def condition(item: JsonValue, kind: str) -> JsonValue:
    """Return the condition of `kind` in an object's status; None where there is none."""
    conditions = elements(member(item, "status", "conditions"))
    return next((one for one in conditions if member(one, "type") == kind), None)
