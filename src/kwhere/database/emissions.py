"""Grams of CO2e: derived from usage and the factors in force, replaced when either changes.

grams = sum over 5-minute buckets of energy x PUE x factor(t) / 3.6e6 (J and g/kWh); once buckets are gone, the hour's
energy x PUE x the factor's mean over the hour.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, delete, func, literal, select

from kwhere.database import bulk, schema
from kwhere.database.bulk import Merge
from kwhere.database.factors import QUALITIES, BucketFactor, factors_in_force
from kwhere.database.grid import HOUR_NS
from kwhere.database.reading.figures import energy_total
from kwhere.database.reading.site import zones_by_cluster
from kwhere.database.retention import buckets_from
from kwhere.database.settings import SiteSettings

SETTLED_NS = 900_000_000_000
"""A quarter of an hour after its end an hour is settled: what changes its grams from then on is a correction."""
_MICROJOULES_PER_KWH = 3.6e12
_hour, _day = schema.emissions_hour, schema.emissions_day


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of a node whose grams are to be derived, and why."""

    node_id: int
    start_ns: int
    cause: str


@dataclass(frozen=True, slots=True)
class _Grams:
    value: float
    quality: str


def derive_hour(connection: Connection, site: SiteSettings, hour: Hour, now_ns: int) -> None:
    """Replace the hour's grams of every unit run, by every source of the node's zone."""
    zone = _zone(connection, site, hour.node_id)
    basis = "buckets" if hour.start_ns >= buckets_from(connection) else "hours"
    found: dict[tuple[int, int], _Grams] = {}
    if zone is not None:
        for source_id, factors in factors_in_force(connection, zone, hour.start_ns, HOUR_NS).items():
            grams = (
                _from_buckets(connection, hour, factors, site.pue_ratio)
                if basis == "buckets"
                else (_from_hour(connection, hour, factors, site.pue_ratio))
            )
            quality = worst(factor.quality for factor in factors.values())
            found.update({(run_id, source_id): _Grams(value, quality) for run_id, value in grams.items()})
    _correct(connection, hour, found, basis, now_ns)
    _write_hour(connection, hour, found, now_ns)


def worst(qualities: Iterable[str]) -> str:
    """Return the worst of some qualities."""
    return max(qualities, key=QUALITIES.index)


def _zone(connection: Connection, site: SiteSettings, node_id: int) -> str | None:
    cluster_id: int = connection.execute(
        select(schema.nodes.c.cluster_id).where(schema.nodes.c.id == node_id)
    ).scalar_one()
    return zones_by_cluster(connection, site).get(cluster_id)


def _from_buckets(
    connection: Connection, hour: Hour, factors: Mapping[int, BucketFactor], pue: float
) -> dict[int, float]:
    """A bucket without a factor gives no grams; the factor of each bucket is its mean over those five minutes."""
    usage = schema.usage_5m
    weights = {start_ns: factor.grams_per_kwh * pue / _MICROJOULES_PER_KWH for start_ns, factor in factors.items()}
    weight = case(weights, value=usage.c.start_ns, else_=literal(0.0))
    query = (
        select(usage.c.unit_run_id, func.sum(energy_total(usage) * weight))
        .where(
            usage.c.node_id == hour.node_id,
            usage.c.start_ns >= hour.start_ns,
            usage.c.start_ns < hour.start_ns + HOUR_NS,
        )
        .group_by(usage.c.unit_run_id)
    )
    return {row[0]: float(row[1]) for row in connection.execute(query)}


def _from_hour(connection: Connection, hour: Hour, factors: Mapping[int, BucketFactor], pue: float) -> dict[int, float]:
    usage = schema.usage_hour
    mean = sum(factor.grams_per_kwh for factor in factors.values()) / len(factors)
    query = select(usage.c.unit_run_id, energy_total(usage)).where(
        usage.c.node_id == hour.node_id, usage.c.start_ns == hour.start_ns
    )
    return {row[0]: row[1] * pue * mean / _MICROJOULES_PER_KWH for row in connection.execute(query)}


def _correct(
    connection: Connection, hour: Hour, found: Mapping[tuple[int, int], _Grams], basis: str, now_ns: int
) -> None:
    """Keep the old value where a settled hour changes, however early that value was found."""
    if now_ns < hour.start_ns + HOUR_NS + SETTLED_NS:
        return
    held = connection.execute(
        select(_hour.c.unit_run_id, _hour.c.source_id, _hour.c.grams).where(
            _hour.c.node_id == hour.node_id, _hour.c.start_ns == hour.start_ns
        )
    )
    rows: list[bulk.Row] = []
    for row in held:
        new = found.get((row.unit_run_id, row.source_id), _Grams(0.0, "")).value
        if abs(new - row.grams) > 1e-9 * max(1.0, abs(row.grams)):
            change = (row.grams, new, hour.cause, basis, now_ns)
            rows.append((row.unit_run_id, hour.start_ns, row.source_id, *change))
    columns = ("unit_run_id", "start_ns", "source_id", "old_grams", "new_grams", "cause", "basis", "recorded_ns")
    bulk.insert(connection, schema.corrections, columns, rows)


def _write_hour(connection: Connection, hour: Hour, found: Mapping[tuple[int, int], _Grams], now_ns: int) -> None:
    connection.execute(delete(_hour).where(_hour.c.node_id == hour.node_id, _hour.c.start_ns == hour.start_ns))
    columns = ("unit_run_id", "start_ns", "source_id", "grams", "quality", "node_id", "computed_ns")
    rows: list[bulk.Row] = [
        (run_id, hour.start_ns, source_id, grams.value, grams.quality, hour.node_id, now_ns)
        for (run_id, source_id), grams in found.items()
    ]
    bulk.insert(connection, _hour, columns, rows)


def derive_day(connection: Connection, node_id: int, start_ns: int, end_ns: int, now_ns: int) -> None:
    """Replace the day's grams by the sums of its hours, and the lifetime grams of the units that it touches."""
    query = (
        select(_hour.c.unit_run_id, _hour.c.source_id, func.sum(_hour.c.grams), _worst_of(_hour.c.quality))
        .where(_hour.c.node_id == node_id, _hour.c.start_ns >= start_ns, _hour.c.start_ns < end_ns)
        .group_by(_hour.c.unit_run_id, _hour.c.source_id)
    )
    rows: list[bulk.Row] = [
        (run_id, start_ns, source_id, grams, QUALITIES[rank], node_id, now_ns)
        for run_id, source_id, grams, rank in connection.execute(query)
    ]
    connection.execute(delete(_day).where(_day.c.node_id == node_id, _day.c.start_ns == start_ns))
    columns = ("unit_run_id", "start_ns", "source_id", "grams", "quality", "node_id", "computed_ns")
    bulk.insert(connection, _day, columns, rows)
    _sum_units(connection, node_id, start_ns)


def _worst_of(quality: ColumnElement[str]) -> ColumnElement[int]:
    ranks = {name: rank for rank, name in enumerate(QUALITIES)}
    return func.max(case(ranks, value=quality, else_=len(QUALITIES) - 1))


def _sum_units(connection: Connection, node_id: int, start_ns: int) -> None:
    """Lifetime grams are the sum of a unit's days: nothing is added on, a source of another zone goes."""
    usage, runs, grams = schema.usage_day.c, schema.unit_runs.c, schema.unit_emissions
    here = (
        select(runs.unit_id)
        .join(schema.usage_day, usage.unit_run_id == runs.id)
        .where(usage.node_id == node_id, usage.start_ns == start_ns, runs.unit_id.is_not(None))
    )
    query = (
        select(runs.unit_id, _day.c.source_id, func.sum(_day.c.grams), _worst_of(_day.c.quality))
        .join(schema.unit_runs, runs.id == _day.c.unit_run_id)
        .where(runs.unit_id.in_(here))
        .group_by(runs.unit_id, _day.c.source_id)
    )
    rows: list[bulk.Row] = [
        (unit_id, source_id, total, QUALITIES[rank]) for unit_id, source_id, total, rank in connection.execute(query)
    ]
    connection.execute(delete(grams).where(grams.c.unit_id.in_(here)))
    merges = {"grams": Merge.NEW, "quality": Merge.NEW}
    bulk.upsert(connection, grams, ("unit_id", "source_id"), merges, rows)
