"""What is derived from energy by the hour, grams as well as cost and water: found anew, kept only where it changed.

amount = sum over 5-minute buckets of energy x what one unit of energy is worth then; once buckets are gone, the hour's
energy x the mean of that over the hour.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, case, delete, func, literal, select

from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.grid import BUCKET_NS, HOUR_NS
from kwhere.database.reading.figures import energy_total

SETTLED_NS = 900_000_000_000
"""A quarter of an hour after its end an hour is settled: what changes it from then on is a correction."""
BUCKETS_PER_HOUR = HOUR_NS // BUCKET_NS
_SAME = 1e-12
"""Two amounts that differ by less, relatively, are one: sums are taken in another order."""
_CORRECTED = 1e-9


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of a node whose figures are to be derived, and why."""

    node_id: int
    start_ns: int
    cause: str


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
    """What a microjoule is worth, by start of the bucket; a bucket without is left out."""

    key_id: int
    per_uj: Mapping[int, float]
    quality: str

    @property
    def uniform(self) -> float | None:
        """Return the one worth of the whole hour; None where it changes within, or lacks a bucket."""
        values = set(self.per_uj.values())
        return values.pop() if len(values) == 1 and len(self.per_uj) == BUCKETS_PER_HOUR else None

    @property
    def mean(self) -> float:
        """Return the mean over the buckets that have one."""
        return sum(self.per_uj.values()) / len(self.per_uj)


_Key = tuple[int, int]
"""Unit run and key."""


def derive(
    connection: Connection, book: Book, hour: Hour, worths: Sequence[Worth], *, has_buckets: bool, now_ns: int
) -> None:
    """Replace the hour's figures of every unit run; `has_buckets`: its 5-minute usage is still there."""
    found = _amounts(connection, hour, worths, has_buckets=has_buckets)
    qualities = {worth.key_id: worth.quality for worth in worths}
    held = _held(connection, book, hour)
    if now_ns >= hour.start_ns + HOUR_NS + SETTLED_NS:
        _correct(connection, book, hour, held, found, "buckets" if has_buckets else "hours", now_ns)
    _write(connection, book, hour, held, found, qualities, now_ns)


def _amounts(connection: Connection, hour: Hour, worths: Sequence[Worth], *, has_buckets: bool) -> dict[_Key, float]:
    """What is worth the same all hour long needs no buckets: a twelfth of the rows."""
    found: dict[_Key, float] = {}
    flat = [(worth.key_id, worth.uniform if has_buckets else worth.mean) for worth in worths]
    whole = [(key_id, value) for key_id, value in flat if value is not None]
    if whole:
        rows = connection.execute(_HOUR_ENERGY, {"node": hour.node_id, "start": hour.start_ns}).all()
        for key_id, value in whole:
            found |= {(run_id, key_id): energy_uj * value for run_id, energy_uj in rows}
    uneven = [worth for worth, (_, value) in zip(worths, flat, strict=True) if value is None]
    if uneven:
        for run_id, *amounts in connection.execute(_bucket_query(hour, uneven)):
            found |= {(run_id, worth.key_id): float(value) for worth, value in zip(uneven, amounts, strict=True)}
    return found


_hour_usage = schema.usage_hour
_HOUR_ENERGY = select(_hour_usage.c.unit_run_id, energy_total(_hour_usage)).where(
    _hour_usage.c.node_id == bindparam("node"), _hour_usage.c.start_ns == bindparam("start")
)


def _bucket_query(hour: Hour, worths: Sequence[Worth]) -> Select[Any]:
    usage = schema.usage_5m
    energy = energy_total(usage)
    sums = [func.sum(energy * case(dict(worth.per_uj), value=usage.c.start_ns, else_=literal(0.0))) for worth in worths]
    return (
        select(usage.c.unit_run_id, *sums)
        .where(
            usage.c.node_id == hour.node_id,
            usage.c.start_ns >= hour.start_ns,
            usage.c.start_ns < hour.start_ns + HOUR_NS,
        )
        .group_by(usage.c.unit_run_id)
    )


def _held(connection: Connection, book: Book, hour: Hour) -> dict[_Key, tuple[float, str]]:
    columns = book.hour.c
    query = select(columns.unit_run_id, columns[book.key], columns[book.amount], columns.quality).where(
        columns.node_id == hour.node_id, columns.start_ns == hour.start_ns
    )
    return {(run_id, key_id): (amount, quality) for run_id, key_id, amount, quality in connection.execute(query)}


def _correct(
    connection: Connection,
    book: Book,
    hour: Hour,
    held: Mapping[_Key, tuple[float, str]],
    found: Mapping[_Key, float],
    basis: str,
    now_ns: int,
) -> None:
    """Keep the old value where a settled hour changes, however early that value was found."""
    rows: list[bulk.Row] = []
    for key, (old, _) in held.items():
        new = found.get(key, 0.0)
        if abs(new - old) > _CORRECTED * max(1.0, abs(old)):
            rows.append((key[0], hour.start_ns, key[1], old, new, hour.cause, basis, now_ns))
    columns = (
        *("unit_run_id", "start_ns", book.key, f"old_{book.amount}", f"new_{book.amount}"),
        *("cause", "basis", "recorded_ns"),
    )
    bulk.insert(connection, book.corrections, columns, rows)


def _write(
    connection: Connection,
    book: Book,
    hour: Hour,
    held: Mapping[_Key, tuple[float, str]],
    found: Mapping[_Key, float],
    qualities: Mapping[int, str],
    now_ns: int,
) -> None:
    """Write what is new or another; where a line is gone all of the hour is written anew."""
    if held.keys() - found.keys():
        table = book.hour
        connection.execute(delete(table).where(table.c.node_id == hour.node_id, table.c.start_ns == hour.start_ns))
        held = {}
    nothing = (None, "")
    rows: list[bulk.Row] = []
    for key, amount in found.items():
        old, quality = held.get(key, nothing)
        its = qualities[key[1]]
        if old is None or quality != its or abs(amount - old) > _SAME * abs(old):
            rows.append((key[0], hour.start_ns, key[1], amount, its, hour.node_id, now_ns))
    merges = {book.amount: Merge.NEW, "quality": Merge.NEW, "node_id": Merge.KEEP, "computed_ns": Merge.NEW}
    bulk.upsert(connection, book.hour, ("unit_run_id", "start_ns", book.key), merges, rows)


def derive_day(connection: Connection, book: Book, node_id: int, span_ns: tuple[int, int], now_ns: int) -> None:
    """Replace the day's figures by the sums of its hours, and the lifetime figures of the units that it touches."""
    hours, days, (start_ns, end_ns) = book.hour.c, book.day, span_ns
    query = (
        select(hours.unit_run_id, hours[book.key], func.sum(hours[book.amount]), _worst_of(book, hours.quality))
        .where(hours.node_id == node_id, hours.start_ns >= start_ns, hours.start_ns < end_ns)
        .group_by(hours.unit_run_id, hours[book.key])
    )
    rows: list[bulk.Row] = [
        (run_id, start_ns, key_id, amount, book.qualities[rank], node_id, now_ns)
        for run_id, key_id, amount, rank in connection.execute(query)
    ]
    connection.execute(delete(days).where(days.c.node_id == node_id, days.c.start_ns == start_ns))
    columns = ("unit_run_id", "start_ns", book.key, book.amount, "quality", "node_id", "computed_ns")
    bulk.insert(connection, days, columns, rows)
    _sum_units(connection, book, node_id, start_ns)


def worst(qualities: Iterable[str], order: Sequence[str]) -> str:
    """Return the worst of some qualities; `order` has the best first."""
    return max(qualities, key=order.index)


def _worst_of(book: Book, quality: ColumnElement[str]) -> ColumnElement[int]:
    ranks = {name: rank for rank, name in enumerate(book.qualities)}
    return func.max(case(ranks, value=quality, else_=len(book.qualities) - 1))


def _sum_units(connection: Connection, book: Book, node_id: int, start_ns: int) -> None:
    """Lifetime figures are the sum of a unit's days: nothing is added on, a key that is gone goes."""
    usage, runs, days, units = schema.usage_day.c, schema.unit_runs.c, book.day.c, book.unit
    here = (
        select(runs.unit_id)
        .join(schema.usage_day, usage.unit_run_id == runs.id)
        .where(usage.node_id == node_id, usage.start_ns == start_ns, runs.unit_id.is_not(None))
    )
    query = (
        select(runs.unit_id, days[book.key], func.sum(days[book.amount]), _worst_of(book, days.quality))
        .join(schema.unit_runs, runs.id == days.unit_run_id)
        .where(runs.unit_id.in_(here))
        .group_by(runs.unit_id, days[book.key])
    )
    rows: list[bulk.Row] = [
        (unit_id, key_id, total, book.qualities[rank]) for unit_id, key_id, total, rank in connection.execute(query)
    ]
    connection.execute(delete(units).where(units.c.unit_id.in_(here)))
    bulk.upsert(connection, units, ("unit_id", book.key), {book.amount: Merge.NEW, "quality": Merge.NEW}, rows)
