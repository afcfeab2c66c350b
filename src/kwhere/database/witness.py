"""Who is told what was read, so that a look at others' units leaves a trace."""

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC
from typing import Any, Protocol

from kwhere.core.timespan import Span
from kwhere.database.records import JobWords

_LONGEST = 1000
_NOT_WHAT = frozenset({"after", "limit", "sort", "descending"})
"""Of a query: where on the list and in which order, not of whom."""
Owners = Collection[tuple[str, str | None]]
"""Cluster and user of what was read; a user None: nobody's, or of several."""


class Witness(Protocol):
    """Sees what one asker reads."""

    def saw(self, action: str, subject: str, owners: Owners) -> None:
        """Take note; what is the asker's own need not be. Raises what the database raises: untold is unread."""
        ...


def words_of(query: object) -> str:
    """Return what a query narrows its list to, as a person reads it: `user=alice state=running`."""
    held: Mapping[str, Any] = (
        {field.name: getattr(query, field.name) for field in fields(query)}
        if is_dataclass(query)
        else query
        if isinstance(query, Mapping)
        else {}
    )
    given = [f"{name}={_text(value)}" for name, value in held.items() if value and name not in _NOT_WHAT]
    return " ".join(given)[:_LONGEST] or "all"


def _text(value: object) -> str:
    if isinstance(value, Span):
        return "/".join(f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for moment in (value.start, value.end))
    if isinstance(value, JobWords):
        return ",".join(sorted(value.units | value.shown | value.runs))
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
