"""What is derived from energy by the hour, grams as well as cost and water: found anew, kept only where it changed.

amount = sum over 5-minute buckets of energy x what one unit of energy is worth then; once buckets are gone, the hour's
energy x the mean of that over the hour.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, bindparam, case, delete, func, literal, select

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


_Key = tuple[int, int]
"""Unit run and key."""
_Amount = tuple[float, str, int]
"""Amount, quality, node: a plain tuple, for there are millions."""


def derive(connection: Connection, book: Book, hours: Hours, now_ns: int) -> None:
    """Replace the hour's figures of every unit run of the nodes."""
    found = _amounts(connection, hours)
    held = _held(connection, book, hours)
    if now_ns >= hours.start_ns + HOUR_NS + SETTLED_NS:
        _correct(connection, book, hours, held, found, now_ns)
    _write(connection, book, hours, held, found, now_ns)


def _amounts(connection: Connection, hours: Hours) -> dict[_Key, _Amount]:
    """What is worth the same all hour long needs no buckets: a twelfth of the rows."""
    flat: dict[int, list[tuple[int, float, str]]] = defaultdict(list)
    uneven: dict[tuple[Worth, ...], list[int]] = defaultdict(list)
    for node in hours.nodes:
        values = [(worth, worth.uniform if hours.has_buckets else worth.mean) for worth in node.worths]
        flat[node.node_id] = [(worth.key_id, value, worth.quality) for worth, value in values if value is not None]
        uneven[tuple(worth for worth, value in values if value is None)].append(node.node_id)
    found: dict[_Key, _Amount] = {}
    nodes = [node_id for node_id, worths in flat.items() if worths]
    if nodes:
        rows = connection.execute(_HOUR_ENERGY, {"nodes": nodes, "start": hours.start_ns}).all()
        for run_id, node_id, energy_uj in rows:
            for key_id, value, quality in flat[node_id]:
                found[run_id, key_id] = (energy_uj * value, quality, node_id)
    for worths, node_ids in uneven.items():
        if worths:
            found |= _from_buckets(connection, hours, worths, node_ids)
    return found


_hour_usage, _bucket_usage = schema.usage_hour, schema.usage_5m
_HOUR_ENERGY = select(_hour_usage.c.unit_run_id, _hour_usage.c.node_id, energy_total(_hour_usage)).where(
    _hour_usage.c.node_id.in_(bindparam("nodes", expanding=True)), _hour_usage.c.start_ns == bindparam("start")
)


def _from_buckets(
    connection: Connection, hours: Hours, worths: Sequence[Worth], node_ids: Sequence[int]
) -> dict[_Key, _Amount]:
    """Return the amounts of nodes whose buckets are worth the same."""
    usage = _bucket_usage.c
    energy = energy_total(_bucket_usage)
    sums = [func.sum(energy * case(dict(worth.per_uj), value=usage.start_ns, else_=literal(0.0))) for worth in worths]
    query = (
        select(usage.unit_run_id, usage.node_id, *sums)
        .where(
            usage.node_id.in_(node_ids),
            usage.start_ns >= hours.start_ns,
            usage.start_ns < hours.start_ns + HOUR_NS,
        )
        .group_by(usage.unit_run_id, usage.node_id)
    )
    return {
        (run_id, worth.key_id): (float(amount), worth.quality, node_id)
        for run_id, node_id, *amounts in connection.execute(query).all()
        for worth, amount in zip(worths, amounts, strict=True)
    }


def _held(connection: Connection, book: Book, hours: Hours) -> dict[_Key, _Amount]:
    columns = book.hour.c
    query = select(
        columns.unit_run_id, columns[book.key], columns[book.amount], columns.quality, columns.node_id
    ).where(columns.node_id.in_(hours.node_ids), columns.start_ns == hours.start_ns)
    return {
        (run_id, key_id): (amount, quality, node_id)
        for run_id, key_id, amount, quality, node_id in connection.execute(query).all()
    }


def _correct(
    connection: Connection,
    book: Book,
    hours: Hours,
    held: Mapping[_Key, _Amount],
    found: Mapping[_Key, _Amount],
    now_ns: int,
) -> None:
    """Keep the old value where a settled hour changes, however early that value was found."""
    causes = {node.node_id: node.cause for node in hours.nodes}
    basis = "buckets" if hours.has_buckets else "hours"
    rows: list[bulk.Row] = []
    for key, (old, _, node_id) in held.items():
        new = found[key][0] if key in found else 0.0
        if abs(new - old) > _CORRECTED * max(1.0, abs(old)):
            rows.append((key[0], hours.start_ns, key[1], old, new, causes[node_id], basis, now_ns))
    columns = (
        *("unit_run_id", "start_ns", book.key, f"old_{book.amount}", f"new_{book.amount}"),
        *("cause", "basis", "recorded_ns"),
    )
    bulk.insert(connection, book.corrections, columns, rows)


def _write(
    connection: Connection,
    book: Book,
    hours: Hours,
    held: Mapping[_Key, _Amount],
    found: Mapping[_Key, _Amount],
    now_ns: int,
) -> None:
    """Write what is new or another; where a line is gone all of the hour is written anew."""
    if any(key not in found for key in held):
        columns = book.hour.c
        here = (columns.node_id.in_(hours.node_ids), columns.start_ns == hours.start_ns)
        connection.execute(delete(book.hour).where(*here))
        held = {}
    rows: list[bulk.Row] = []
    for key, (amount, quality, node_id) in found.items():
        old = held.get(key)
        if old is None or old[1] != quality or abs(amount - old[0]) > _SAME * abs(old[0]):
            rows.append((key[0], hours.start_ns, key[1], amount, quality, node_id, now_ns))
    merges = {book.amount: Merge.NEW, "quality": Merge.NEW, "node_id": Merge.KEEP, "computed_ns": Merge.NEW}
    bulk.upsert(connection, book.hour, ("unit_run_id", "start_ns", book.key), merges, rows)


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
    """Lifetime figures are the sum of a unit's days: nothing is added on, a key that is gone goes."""
    usage, runs, days, units = schema.usage_day.c, schema.unit_runs.c, book.day.c, book.unit
    here = (
        select(runs.unit_id)
        .join(schema.usage_day, usage.unit_run_id == runs.id)
        .where(usage.node_id.in_(node_ids), usage.start_ns == start_ns, runs.unit_id.is_not(None))
    )
    query = (
        select(runs.unit_id, days[book.key], func.sum(days[book.amount]), worst_of(book, days.quality))
        .join(schema.unit_runs, runs.id == days.unit_run_id)
        .where(runs.unit_id.in_(here))
        .group_by(runs.unit_id, days[book.key])
    )
    rows: list[bulk.Row] = [
        (unit_id, key_id, total, book.qualities[rank]) for unit_id, key_id, total, rank in connection.execute(query)
    ]
    connection.execute(delete(units).where(units.c.unit_id.in_(here)))
    bulk.upsert(connection, units, ("unit_id", book.key), {book.amount: Merge.NEW, "quality": Merge.NEW}, rows)
