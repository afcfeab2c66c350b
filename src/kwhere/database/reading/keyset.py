"""One page of a list in the order of one column, which may be null, and of a key that never is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_, tuple_

from kwhere.database.reading.paging import BadCursor, decode_cursor, encode_cursor

_Word = (str, int, float, type(None))


@dataclass(frozen=True, slots=True)
class Order:
    """How a list is sorted: by `column`, then by `key`, both in one direction; rows without the figure come last."""

    name: str
    column: Any
    key: Sequence[Any]
    descending: bool


def take_page(
    connection: Connection, statement: Select[Any], order: Order, after: str | None, limit: int
) -> tuple[list[Row[Any]], str | None]:
    """Return up to `limit` rows behind the cursor `after`, and the cursor of the next page. Raises BadCursor."""
    place = None if after is None else _place(after, order)
    rows = _rows(connection, statement, order, place, limit + 1)
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]._mapping
    words = [last["sort_value"], *(last[f"sort_key_{at}"] for at in range(len(order.key)))]
    return rows[:limit], encode_cursor([order.name, int(order.descending), *words])


def _place(after: str, order: Order) -> tuple[Any, tuple[Any, ...]]:
    name, descending, value, *key = decode_cursor(after, (str, int, _Word, *[(str, int)] * len(order.key)))
    if (name, descending) != (order.name, int(order.descending)):
        raise BadCursor("after: the cursor belongs to another sort")
    return value, tuple(key)


def _rows(
    connection: Connection, statement: Select[Any], order: Order, place: tuple[Any, tuple[Any, ...]] | None, limit: int
) -> list[Row[Any]]:
    keys = [column.label(f"sort_key_{at}") for at, column in enumerate(order.key)]
    wide = statement.add_columns(order.column.label("sort_value"), *keys)
    rows: list[Row[Any]] = []
    if place is None or place[0] is not None:
        rows = list(connection.execute(_known(wide, order, place).limit(limit)))
        place = None
    if len(rows) < limit:
        rows += connection.execute(_unknown(wide, order, place).limit(limit - len(rows)))
    return rows


def _known(wide: Select[Any], order: Order, place: tuple[Any, tuple[Any, ...]] | None) -> Select[Any]:
    column, key = order.column, tuple_(*order.key)
    wide = wide.where(column.is_not(None))
    if place is not None:
        value, words = place
        beyond = column < value if order.descending else column > value
        tied = key < tuple_(*words) if order.descending else key > tuple_(*words)
        wide = wide.where(or_(beyond, and_(column == value, tied)))
    if order.descending:
        return wide.order_by(column.desc(), *(word.desc() for word in order.key))
    return wide.order_by(column, *order.key)


def _unknown(wide: Select[Any], order: Order, place: tuple[Any, tuple[Any, ...]] | None) -> Select[Any]:
    wide = wide.where(order.column.is_(None))
    if place is not None:
        wide = wide.where(tuple_(*order.key) > tuple_(*place[1]))
    return wide.order_by(*order.key)
