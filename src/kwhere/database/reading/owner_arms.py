"""The owners whose units a list wants, one by one: each has indexes of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, select, union_all

from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.grid import to_ns
from kwhere.database.reading.unit_filters import asked_owners, count_up_to
from kwhere.database.records import UnitQuery
from kwhere.database.visibility import Sight

MOST_ARMS = 24
"""More owners are sorted together."""
_units = schema.units.c


@dataclass(frozen=True, slots=True)
class Arm:
    """One owner whose units are wanted."""

    column: str
    """Of `units`: user_id or project_id."""
    owner_id: int
    is_asked: bool
    """The query names it; else it is one whose units are seen."""


def arms_of(connection: Connection, query: UnitQuery, sight: Sight) -> Sequence[Arm]:
    """Return the owners that narrow a query most; empty: none does, or there are too many."""
    asked = asked_owners(connection, query)
    if asked:
        column, ids = asked[0]
        found = [Arm(column.key or "", owner_id, is_asked=True) for owner_id in ids]
    else:
        found = [Arm(column.key or "", each, is_asked=False) for column, ids in sight.owners() for each in ids]
    return found if len(found) <= MOST_ARMS else ()


def ended_since(span: Span) -> ColumnElement[bool]:
    """Return whether a unit ended within `span` or after it."""
    return _units.ended_ns > to_ns(span.start)


def lived_in(arms: Sequence[Arm], span: Span) -> Select[tuple[int]]:
    """Return the ids of the owners' units that had not ended before `span`; two arms each, for an index serves each."""
    theirs = [select(_units.id).where(_units[arm.column] == arm.owner_id) for arm in arms]
    parts = [ids.where(which) for ids in theirs for which in (_units.ended_ns.is_(None), ended_since(span))]
    return select(union_all(*parts).subquery().c.id)


def count_lived(connection: Connection, arms: Sequence[Arm], span: Span, most: int) -> int:
    """Return how many these are, counted up to one more than `most`."""
    return count_up_to(connection, lived_in(arms, span), most)
