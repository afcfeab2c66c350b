"""Who is told what was read, so that a look at others' units leaves a trace."""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from kwhere.core.timespan import Span
from kwhere.database.records import JobWords

_LONGEST = 1000
STILL_NOW = timedelta(minutes=10)
"""Spans of whole buckets end a little after now, cached ones a little before."""
_SPAN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
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


def questions_of(subject: str, now: datetime) -> tuple[str, str]:
    """Return a subject with each span that reaches up to now told by its length, and by its start alone.

    A page that refreshes itself asks the same each time: the last hour, or since midnight.
    """

    def told(found: re.Match[str], *, by_start: bool) -> str:
        start, end = (datetime.fromisoformat(moment) for moment in found.groups())
        if abs(now - end) > STILL_NOW:
            return found[0]
        return f"since {found[1]}" if by_start else f"last {round((end - start) / timedelta(minutes=1))} min"

    return _SPAN.sub(partial(told, by_start=False), subject), _SPAN.sub(partial(told, by_start=True), subject)


def _text(value: object) -> str:
    if isinstance(value, Span):
        return "/".join(f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for moment in (value.start, value.end))
    if isinstance(value, JobWords):
        return ",".join(sorted(value.units | value.shown | value.runs))
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
