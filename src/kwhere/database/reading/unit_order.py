"""The order of a list of units, by a figure and the id, and where a page of it begins."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, or_


@dataclass(frozen=True, slots=True)
class Place:
    """Behind which unit a page begins; `value` is None among those without the figure."""

    value: int | None
    unit_id: int


@dataclass(frozen=True, slots=True)
class UnitOrder:
    """By a figure, then by the id, both in one direction; from a place on, or from the first."""

    descending: bool
    place: Place | None = None

    def behind(self, statement: Select[Any], column: ColumnElement[Any], key: ColumnElement[int]) -> Select[Any]:
        """Return what lies behind the place."""
        place = self.place
        if place is None:
            return statement
        if self.descending:
            return statement.where(column <= place.value, or_(column < place.value, key < place.unit_id))
        return statement.where(column >= place.value, or_(column > place.value, key > place.unit_id))

    def arranged(self, statement: Select[Any], column: ColumnElement[Any], key: ColumnElement[int]) -> Select[Any]:
        """Return it in order."""
        return statement.order_by(column.desc(), key.desc()) if self.descending else statement.order_by(column, key)
