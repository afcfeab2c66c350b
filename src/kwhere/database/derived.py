"""What is derived from energy by the hour, grams as well as cost and water: found anew, kept only where it changed.

amount = sum over 5-minute buckets of energy x what one unit of energy is worth then; once buckets are gone, the hour's
energy x the mean of that over the hour.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    MetaData,
    Select,
    String,
    Table,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.engine import POSTGRESQL
from kwhere.database.grid import BUCKET_NS, HOUR_NS
from kwhere.database.reading.figures import energy_total

SETTLED_NS = 900_000_000_000
"""A quarter of an hour after its end an hour is settled: what changes it from then on is a correction."""
BUCKETS_PER_HOUR = HOUR_NS // BUCKET_NS
_SAME = 1e-12
"""Two amounts that differ by less, relatively, are one: sums are taken in another order."""
_CORRECTED = 1e-9


_staging = MetaData()
_worths = Table(
    "derived_worths",
    _staging,
    Column("node_id", BigInteger, primary_key=True),
    Column("start_ns", BigInteger, primary_key=True),
    Column("key_id", BigInteger, primary_key=True),
    Column("per_uj", Double, nullable=False),
    Column("quality", String(16), nullable=False),
    prefixes=["TEMPORARY"],
    postgresql_on_commit="DELETE ROWS",
)
_amounts = Table(
    "derived_amounts",
    _staging,
    Column("unit_run_id", BigInteger, primary_key=True),
    Column("key_id", BigInteger, primary_key=True),
    Column("amount", Double),
    Column("quality", String(16), nullable=False),
    Column("node_id", BigInteger, nullable=False),
    prefixes=["TEMPORARY"],
    postgresql_on_commit="DELETE ROWS",
)
"""Tables of one connection, empty between two hours."""


@dataclass(frozen=True, slots=True)
class NodeHour:
    """An hour of a node whose figures are to be derived: why, and what a microjoule is worth, by key."""

    node_id: int
    cause: str
    worths: "Sequence[Worth]"


@dataclass(frozen=True, slots=True)
class Hours:
    """One hour of several nodes: they share statements, which cost more than their rows."""

    start_ns: int
    nodes: Sequence[NodeHour]
    has_buckets: bool
    """Its 5-minute usage is still there."""

    @property
    def node_ids(self) -> list[int]:
        """Return the ids of the nodes."""
        return [node.node_id for node in self.nodes]


@dataclass(frozen=True, slots=True)
class Book:
    """Where a kind of figure is kept: `key` and `amount` are names of columns."""

    hour: Table
    day: Table
    unit: Table
    corrections: Table
    key: str
    amount: str
    qualities: tuple[str, ...]
    """Best first."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What a microjoule is worth, by start of the bucket in time order; a bucket without is left out."""

    key_id: int
    per_uj: tuple[tuple[int, float], ...]
    quality: str

    @property
    def uniform(self) -> float | None:
        """Return the one worth of the whole hour; None where it changes within, or lacks a bucket."""
        values = {value for _, value in self.per_uj}
        return values.pop() if len(values) == 1 and len(self.per_uj) == BUCKETS_PER_HOUR else None

    @property
    def mean(self) -> float:
        """Return the mean over the buckets that have one."""
        return sum(value for _, value in self.per_uj) / len(self.per_uj)


def derive(connection: Connection, book: Book, hours: Hours, now_ns: int) -> None:
    """Replace the hour's figures of every unit run of the nodes; the database does the sums."""
    _stage(connection, hours)
    if now_ns >= hours.start_ns + HOUR_NS + SETTLED_NS:
        _correct(connection, book, hours, now_ns)
    _drop_gone(connection, book, hours)
    _keep(connection, book, hours, now_ns)


def _stage(connection: Connection, hours: Hours) -> None:
    """Put the hour's amounts into a table of this connection."""
    for table in _staging.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
        connection.execute(delete(table))
    whole: list[bulk.Row] = []
    uneven: list[bulk.Row] = []
    for node in hours.nodes:
        for worth in node.worths:
            value = worth.uniform if hours.has_buckets else worth.mean
            if value is not None:
                whole.append((node.node_id, hours.start_ns, worth.key_id, value, worth.quality))
            else:
                uneven += [(node.node_id, begin, worth.key_id, value, worth.quality) for begin, value in worth.per_uj]
    # What is worth the same all hour long needs no buckets: a twelfth of the rows.
    for rows, usage in ((whole, schema.usage_hour), (uneven, schema.usage_5m)):
        if rows:
            connection.execute(delete(_worths))
            bulk.insert(connection, _worths, [column.name for column in _worths.columns], rows)
            connection.execute(insert(_amounts).from_select(list(_amounts.columns), _weigh(usage, hours)))


def _weigh(usage: Table, hours: Hours) -> Select[Any]:
    """Return run, key, amount, quality and node: energy in `usage` times what it is worth at its time."""
    figures, worth = usage.c, _worths.c
    amount = energy_total(usage) * worth.per_uj
    first, last = figures.unit_run_id, figures.node_id
    here = figures.node_id.in_(hours.node_ids)
    at_its_time = (worth.node_id == figures.node_id) & (worth.start_ns == figures.start_ns)
    if usage is schema.usage_hour:  # a line per run: nothing to add up
        lines = select(first, worth.key_id, amount, worth.quality, last).join(_worths, at_its_time)
        return lines.where(here, figures.start_ns == hours.start_ns)
    return (
        select(first, worth.key_id, func.sum(amount), func.max(worth.quality), last)
        .join(_worths, at_its_time)
        .where(here, figures.start_ns >= hours.start_ns, figures.start_ns < hours.start_ns + HOUR_NS)
        .group_by(figures.unit_run_id, worth.key_id, figures.node_id)
    )


def _here(book: Book, hours: Hours) -> ColumnElement[bool]:
    return book.hour.c.node_id.in_(hours.node_ids) & (book.hour.c.start_ns == hours.start_ns)


def _is_same(book: Book) -> ColumnElement[bool]:
    return (_amounts.c.unit_run_id == book.hour.c.unit_run_id) & (_amounts.c.key_id == book.hour.c[book.key])


def _correct(connection: Connection, book: Book, hours: Hours, now_ns: int) -> None:
    """Keep the old value where a settled hour changes, however early that value was found."""
    held, old = book.hour.c, book.hour.c[book.amount]
    new = func.coalesce(_amounts.c.amount, 0.0)
    least = _CORRECTED * case((func.abs(old) > 1, func.abs(old)), else_=1.0)
    causes = {node.node_id: node.cause for node in hours.nodes}
    cause: ColumnElement[str] = literal(hours.nodes[0].cause, String)
    if len(set(causes.values())) > 1:
        cause = case(causes, value=held.node_id)
    changed = (
        select(
            held.unit_run_id,
            held.start_ns,
            held[book.key],
            old,
            new,
            cause,
            literal("buckets" if hours.has_buckets else "hours", String),
            literal(now_ns, BigInteger),
        )
        .select_from(book.hour.outerjoin(_amounts, _is_same(book)))
        .where(_here(book, hours), func.abs(new - old) > least)
    )
    columns = (
        *("unit_run_id", "start_ns", book.key, f"old_{book.amount}", f"new_{book.amount}"),
        *("cause", "basis", "recorded_ns"),
    )
    connection.execute(insert(book.corrections).from_select(columns, changed))


def _drop_gone(connection: Connection, book: Book, hours: Hours) -> None:
    connection.execute(delete(book.hour).where(_here(book, hours), ~exists().where(_is_same(book))))


def _keep(connection: Connection, book: Book, hours: Hours, now_ns: int) -> None:
    """Write what is new or another."""
    rows = select(
        _amounts.c.unit_run_id,
        literal(hours.start_ns, BigInteger),
        _amounts.c.key_id,
        _amounts.c.amount,
        _amounts.c.quality,
        _amounts.c.node_id,
        literal(now_ns, BigInteger),
    ).where(_amounts.c.amount.is_not(None))  # SQLite wants a WHERE before ON CONFLICT
    columns = ("unit_run_id", "start_ns", book.key, book.amount, "quality", "node_id", "computed_ns")
    build = postgresql.insert if connection.dialect.name == POSTGRESQL else sqlite.insert
    statement = build(book.hour).from_select(columns, rows)
    old, new = book.hour.c[book.amount], statement.excluded[book.amount]
    is_other = (func.abs(new - old) > _SAME * func.abs(old)) | (statement.excluded.quality != book.hour.c.quality)
    changes = {name: statement.excluded[name] for name in (book.amount, "quality", "computed_ns")}
    key = ("unit_run_id", "start_ns", book.key)
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changes, where=is_other))


def derive_day(
    connection: Connection, book: Book, node_ids: Sequence[int], span_ns: tuple[int, int], now_ns: int
) -> None:
    """Replace a day's figures by the sums of its hours, and the lifetime figures of the units that it touches."""
    hours, days, (start_ns, end_ns) = book.hour.c, book.day, span_ns
    query = (
        select(
            hours.unit_run_id,
            hours[book.key],
            func.sum(hours[book.amount]),
            worst_of(book, hours.quality),
            hours.node_id,
        )
        .where(hours.node_id.in_(node_ids), hours.start_ns >= start_ns, hours.start_ns < end_ns)
        .group_by(hours.unit_run_id, hours[book.key], hours.node_id)
    )
    rows: list[bulk.Row] = [
        (run_id, start_ns, key_id, amount, book.qualities[rank], node_id, now_ns)
        for run_id, key_id, amount, rank, node_id in connection.execute(query)
    ]
    connection.execute(delete(days).where(days.c.node_id.in_(node_ids), days.c.start_ns == start_ns))
    columns = ("unit_run_id", "start_ns", book.key, book.amount, "quality", "node_id", "computed_ns")
    bulk.insert(connection, days, columns, rows)
    _sum_units(connection, book, node_ids, start_ns)


def worst(qualities: Iterable[str], order: Sequence[str]) -> str:
    """Return the worst of some qualities; `order` has the best first."""
    return max(qualities, key=order.index)


def worst_of(book: Book, quality: ColumnElement[str]) -> ColumnElement[int]:
    """Return the rank of the worst quality among rows."""
    ranks = {name: rank for rank, name in enumerate(book.qualities)}
    return func.max(case(ranks, value=quality, else_=len(book.qualities) - 1))


def _sum_units(connection: Connection, book: Book, node_ids: Sequence[int], start_ns: int) -> None:
    usage, runs = schema.usage_day.c, schema.unit_runs.c
    here = (
        select(runs.unit_id)
        .join(schema.usage_day, usage.unit_run_id == runs.id)
        .where(usage.node_id.in_(node_ids), usage.start_ns == start_ns, runs.unit_id.is_not(None))
    )
    sum_units(connection, book, here)


def sum_units(connection: Connection, book: Book, unit_ids: Select[Any] | Sequence[int]) -> None:
    """Lifetime figures are the sum of a unit's days: nothing is added on, a key that is gone goes."""
    runs, days, units = schema.unit_runs.c, book.day.c, book.unit
    query = (
        select(runs.unit_id, days[book.key], func.sum(days[book.amount]), worst_of(book, days.quality))
        .join(schema.unit_runs, runs.id == days.unit_run_id)
        .where(runs.unit_id.in_(unit_ids))
        .group_by(runs.unit_id, days[book.key])
    )
    rows: list[bulk.Row] = [
        (unit_id, key_id, total, book.qualities[rank]) for unit_id, key_id, total, rank in connection.execute(query)
    ]
    connection.execute(delete(units).where(units.c.unit_id.in_(unit_ids)))
    bulk.upsert(connection, units, ("unit_id", book.key), {book.amount: Merge.NEW, "quality": Merge.NEW}, rows)
