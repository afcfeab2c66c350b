"""Single values of a REST interface's answers: OpenStack's, Proxmox VE's. What cannot be read is None."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from kwhere.core.errors import SourceError

_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)

_YEARS = range(1970, 2201)


def decode(body: bytes, place: str) -> Mapping[str, object]:
    """Return the JSON object of an answer. Raises SourceError."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        found = body[:80].decode(errors="replace")
        raise SourceError(f"{place}: expected JSON, found {found!r}") from error
    if not isinstance(document, Mapping):
        raise SourceError(f"{place}: expected an object, found {type(document).__name__}")
    return document


def listed(document: Mapping[str, object], key: str, place: str) -> list[object]:
    """Return the list under `key`. Raises SourceError."""
    value = document.get(key)
    if not isinstance(value, list):
        raise SourceError(f"{place}: expected a list of {key}")
    return value


def records(document: Mapping[str, object], key: str, place: str) -> list[Mapping[str, object]]:
    """Return the list of objects under `key`. Raises SourceError: one left out would be taken for gone."""
    found = listed(document, key, place)
    strange = next((each for each in found if not isinstance(each, Mapping)), None)
    if strange is not None or None in found:
        raise SourceError(f"{place}: expected a list of objects, found {str(strange)[:40]!r} among them")
    return [each for each in found if isinstance(each, Mapping)]


def objects(value: object) -> Iterator[Mapping[str, object]]:
    """Yield the objects of a list, nothing of anything else."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, Mapping))


def inner(record: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return the object under `key`, an empty one where there is none."""
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str | None:
    """Return text with something in it; half characters and NUL are replaced."""
    if not isinstance(value, str):
        return None
    return value.strip().encode("utf-8", errors="replace").decode().replace("\0", "\ufffd") or None


def count(value: object) -> int | None:
    """Return a whole number, 0 or more, from a number or its text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**15:
        return None
    return value


def instant(value: object) -> datetime | None:
    """Return a time; Nova writes UTC with `Z` and without."""
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        return None
    try:
        found = datetime.fromisoformat(value)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if found.year in _YEARS else None
