"""Many rows in one statement: what SQLAlchemy would say, without its cost per row.

SQLite takes the rows one by one through a prepared statement; PostgreSQL takes columns as arrays and unnests them.
Statements are built from the schema's own names and closed sets of merge rules, never from data.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache

from sqlalchemy import BigInteger, Boolean, Connection, Double, Integer, LargeBinary, Table
from sqlalchemy.types import TypeEngine

from kwhere.database.engine import POSTGRESQL

Row = tuple[object, ...]


class Merge(Enum):
    """What becomes of a column of a row that exists. `{old}` and `{new}` stand for the two values."""

    ADD = "coalesce({old} + {new}, {old}, {new})"
    LARGER = "CASE WHEN {old} IS NULL OR {new} > {old} THEN {new} ELSE {old} END"
    SMALLER = "CASE WHEN {old} IS NULL OR {new} < {old} THEN {new} ELSE {old} END"
    NEWER = "CASE WHEN {new_end} >= {old_end} THEN {new} ELSE {old} END"
    """By `newest_end_ns` of the two rows."""
    BITS = "{old} | {new}"
    NEW = "{new}"
    KEEP = "{old}"
    UNLESS_NULL = "coalesce({new}, {old})"
    COUNT_UP = "{old} + 1"


def upsert(
    connection: Connection, table: Table, key: Sequence[str], merges: Mapping[str, Merge], rows: Sequence[Row]
) -> None:
    """Insert `rows` (values of `key`, then of `merges`, in order), merging into those that exist; keys are distinct."""
    if not rows:
        return
    columns = (*key, *merges)
    target = f"INSERT INTO {table.name} ({', '.join(columns)}) "
    _run(connection, target, conflict(table, key, merges), table, columns, rows)


def conflict(table: Table, key: Sequence[str], merges: Mapping[str, Merge]) -> str:
    """Return the clause that merges a new row into one that exists."""
    rules = tuple((name, merge.value) for name, merge in merges.items() if merge is not Merge.KEEP)
    return _conflict(table.name, tuple(key), rules)


def insert(connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Insert `rows`."""
    if rows:
        _run(connection, f"INSERT INTO {table.name} ({', '.join(columns)}) ", "", table, tuple(columns), rows)


def update(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    assignments: Mapping[str, str],
    where: str,
    rows: Sequence[Row],
    join: str = "",
) -> None:
    """Update by `rows` of `columns`, known as `v.<column>` in `assignments` (column: expression) and in `where`.

    `join` is put behind the rows. A column's type is that of the table's of that name, else 64-bit integer. Each row
    of the table is met by at most one of `rows`.
    """
    if not rows:
        return
    changes = ", ".join(f"{name} = {value}" for name, value in assignments.items())
    head = f"UPDATE {table.name} SET {changes} FROM "  # noqa: S608 - names of the schema
    kinds = _types(table, tuple(columns))
    if connection.dialect.name == POSTGRESQL:
        marks = ", ".join(f"%s::{kind}[]" for kind in kinds)
        statement = f"{head} unnest({marks}) AS v ({', '.join(columns)}){join} WHERE {where}"
        connection.exec_driver_sql(statement, arrays(rows, kinds))
        return
    values = ", ".join(f"? AS {name}" for name in columns)
    connection.exec_driver_sql(f"{head} (SELECT {values}) AS v{join} WHERE {where}", list(rows))


def _run(
    connection: Connection, target: str, ending: str, table: Table, columns: tuple[str, ...], rows: Sequence[Row]
) -> None:
    if connection.dialect.name == POSTGRESQL:
        kinds = _types(table, columns)
        marks = ", ".join(f"%s::{kind}[]" for kind in kinds)
        source = f"SELECT * FROM unnest({marks})"  # noqa: S608 - names of types
        connection.exec_driver_sql(target + source + ending, arrays(rows, kinds))
        return
    marks = ", ".join("?" * len(columns))
    connection.exec_driver_sql(f"{target}VALUES ({marks}){ending}", list(rows))


def arrays(rows: Sequence[Row], kinds: Sequence[str]) -> tuple[object, ...]:
    """Return the columns of `rows` as parameters for PostgreSQL's `unnest`, cast to `kinds`."""
    # The driver's own way with lists costs a microsecond per number; an array literal is ten times cheaper.
    return tuple(
        _LITERALS[kind](values) if kind in _LITERALS else list(values)
        for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    )


def _numbers(values: Sequence[object]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def _texts(values: Sequence[object]) -> str:
    """Quote each text once: words such as a quality come a thousand times."""
    quoted = {value: _quoted(value) for value in set(values)}
    return "{" + ",".join([quoted[value] for value in values]) + "}"


def _quoted(value: object) -> str:
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


_LITERALS = {"bigint": _numbers, "double precision": _numbers, "text": _texts}


@lru_cache(maxsize=64)
def _conflict(table: str, key: tuple[str, ...], rules: tuple[tuple[str, str], ...]) -> str:
    if not rules:
        return f" ON CONFLICT ({', '.join(key)}) DO NOTHING"
    ends = {"old_end": f"{table}.newest_end_ns", "new_end": "excluded.newest_end_ns"}
    changes = ", ".join(
        f"{name} = {rule.format(old=f'{table}.{name}', new=f'excluded.{name}', **ends)}" for name, rule in rules
    )
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


def _types(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_array_type(table.c[name].type) if name in table.c else "bigint" for name in columns)


def _array_type(kind: TypeEngine[object]) -> str:
    if isinstance(kind, Boolean):
        return "boolean"
    if isinstance(kind, BigInteger | Integer):
        return "bigint"
    if isinstance(kind, Double):
        return "double precision"
    if isinstance(kind, LargeBinary):
        return "bytea"
    return "text"
