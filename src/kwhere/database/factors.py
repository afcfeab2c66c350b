"""Emission factors as a time series with provenance: what was published when, and what was in force."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Select, select, update

from kwhere.database import bulk, schema
from kwhere.database.booking import touch
from kwhere.database.choices import read_choice, write_choice
from kwhere.database.grid import BUCKET_NS, Grid, to_ns
from kwhere.emission_factors.provider import Factor, Quality

_factors, _sources = schema.factors.c, schema.factor_sources.c
_REPORTING = "factors.reporting"
QUALITIES = tuple(str(quality) for quality in Quality)
"""Best first."""


@dataclass(frozen=True, slots=True)
class BucketFactor:
    """The factor of one 5-minute bucket."""

    grams_per_kwh: float
    quality: str


@dataclass(frozen=True, slots=True)
class _Piece:
    start_ns: int
    end_ns: int
    grams_per_kwh: float
    quality: str


def keep_factors(
    connection: Connection, zone: str, factors: Iterable[Factor], now_ns: int, *, reporting: bool
) -> list[Factor]:
    """Keep factors for `zone` that are news and return them; what was published before stays beside.

    They are kept under the zone that was asked for, though a fallback may be of a wider one; `source` tells. Those of
    the site's reporting provider and its fallbacks are marked as such.
    """
    news: list[Factor] = []
    by_source: dict[int, list[Factor]] = defaultdict(list)
    ids: dict[tuple[str, ...], int] = {}
    for factor in factors:
        words = (factor.provider, zone, str(factor.basis), str(factor.scope), str(factor.system))
        if words not in ids:
            ids[words] = _source_id(connection, words, reporting)
        by_source[ids[words]].append(factor)
    for source_id, told in by_source.items():
        news += _keep_of_source(connection, source_id, told, now_ns)
    return news


def _keep_of_source(connection: Connection, source_id: int, told: Sequence[Factor], now_ns: int) -> list[Factor]:
    """Keep what of one source is not kept already, all in two statements, and return it."""
    by_key = {(to_ns(f.span.start), to_ns(f.span.end), to_ns(f.published_at)): f for f in told}
    held = _held(connection, source_id, min(start for start, _, _ in by_key), max(start for start, _, _ in by_key))
    news = {key: factor for key, factor in by_key.items() if held.get(key) != factor.grams_per_kwh}
    merges = dict.fromkeys(("grams_per_kwh", "quality", "source", "recorded_ns"), bulk.Merge.NEW)
    key_columns = ("source_id", "start_ns", "end_ns", "published_ns")
    rows = [
        (source_id, *key, factor.grams_per_kwh, str(factor.quality), factor.source, now_ns)
        for key, factor in news.items()
    ]
    bulk.upsert(connection, schema.factors, key_columns, merges, rows)
    return list(news.values())


def report_by(connection: Connection, provider: str, now_ns: int) -> bool:
    """Say which provider the site reports by; return whether that is news. Marks of another are taken back."""
    if read_choice(connection, _REPORTING) == provider:
        return False
    write_choice(connection, _REPORTING, provider, now_ns, "server")
    connection.execute(update(schema.factor_sources).values(reporting=False))
    return True


def _source_id(connection: Connection, words: tuple[str, ...], reporting: bool) -> int:
    names = ("provider", "zone", "basis", "scope", "system")
    merges = {"reporting": bulk.Merge.NEW if reporting else bulk.Merge.KEEP}
    bulk.upsert(connection, schema.factor_sources, names, merges, [(*words, reporting)])
    query = select(_sources.id).where(*(_sources[name] == word for name, word in zip(names, words, strict=True)))
    found: int = connection.execute(query).scalar_one()
    return found


def _held(
    connection: Connection, source_id: int, first_start_ns: int, last_start_ns: int
) -> dict[tuple[int, int, int], float]:
    """Return what is kept of a source by start, end and publication, of spans that start within."""
    query = select(_factors.start_ns, _factors.end_ns, _factors.published_ns, _factors.grams_per_kwh).where(
        _factors.source_id == source_id, _factors.start_ns.between(first_start_ns, last_start_ns)
    )
    rows = connection.execute(query)
    return {(row.start_ns, row.end_ns, row.published_ns): row.grams_per_kwh for row in rows}


def touch_hours(
    connection: Connection, grid: Grid, factors: Sequence[Factor], node_ids: Sequence[int], now_ns: int
) -> int:
    """Mark the hours that news of factors change and that have usage; return how many."""
    count = 0
    usage = schema.node_hour.c
    reaches = _reaches(grid, factors, now_ns)
    for node_id in node_ids:
        starts: set[int] = set()
        for first_ns, end_ns in reaches:
            query = select(usage.start_ns).where(
                usage.node_id == node_id, usage.start_ns >= first_ns, usage.start_ns < end_ns
            )
            starts.update(connection.execute(query).scalars())
        touch(connection, node_id, "hour", starts, "factor")
        count += len(starts)
    return count


def _reaches(grid: Grid, factors: Sequence[Factor], now_ns: int) -> list[tuple[int, int]]:
    """Return the times that factors change, from the start of an hour: thousands in a row are one reach."""
    found: list[tuple[int, int]] = []
    for factor in sorted(factors, key=lambda each: each.span):
        first_ns, end_ns = grid.hour_start(to_ns(factor.span.start)), min(to_ns(factor.span.end), now_ns)
        if found and first_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_ns))
        elif first_ns < end_ns:
            found.append((first_ns, end_ns))
    return found


def factors_in_force(
    connection: Connection, zone: str, start_ns: int, length_ns: int
) -> dict[int, dict[int, BucketFactor]]:
    """Return, per source of `zone`, the factor of each bucket of [start, start + length): its mean by time.

    Where publications overlap the newest wins. A bucket that none covers is left out, and a source without any too. Of
    the sources that the site reports by, each bucket is the one's with the best quality alone: the others stood in.
    """
    end_ns = start_ns + length_ns
    pieces: dict[int, list[_Piece]] = defaultdict(list)
    reporting: set[int] = set()
    for row in connection.execute(_within(zone, start_ns, end_ns)):
        pieces[row.source_id].append(_Piece(row.start_ns, row.end_ns, row.grams_per_kwh, row.quality))
        if row.reporting:
            reporting.add(row.source_id)
    found: dict[int, dict[int, BucketFactor]] = {}
    for source_id, held in pieces.items():
        buckets = {begin: _mean(held, begin, begin + BUCKET_NS) for begin in range(start_ns, end_ns, BUCKET_NS)}
        found[source_id] = {begin: factor for begin, factor in buckets.items() if factor is not None}
    _keep_best(found, reporting)
    return {source_id: buckets for source_id, buckets in found.items() if buckets}


def _keep_best(found: dict[int, dict[int, BucketFactor]], reporting: set[int]) -> None:
    best: dict[int, tuple[int, int]] = {}
    for source_id in sorted(reporting):
        for begin, factor in found[source_id].items():
            best[begin] = min(best.get(begin, (len(QUALITIES), 0)), (QUALITIES.index(factor.quality), source_id))
    for source_id in reporting:
        kept = {begin: factor for begin, factor in found[source_id].items() if best[begin][1] == source_id}
        found[source_id] = kept


def _within(zone: str, start_ns: int, end_ns: int) -> Select[Any]:
    """Oldest publication first: the later ones are laid over them."""
    columns = (_factors.source_id, _factors.start_ns, _factors.end_ns, _factors.grams_per_kwh, _factors.quality)
    return (
        select(*columns, _sources.reporting)
        .join(schema.factor_sources, _sources.id == _factors.source_id)
        .where(_sources.zone == zone, _factors.start_ns < end_ns, _factors.end_ns > start_ns)
        .order_by(_factors.published_ns, _factors.start_ns, _factors.id)
    )


def _mean(pieces: Sequence[_Piece], start_ns: int, end_ns: int) -> BucketFactor | None:
    """Mean over the covered time of a bucket; the edges of publications cut it."""
    inside = [piece for piece in pieces if piece.start_ns < end_ns and piece.end_ns > start_ns]
    if not inside:
        return None
    if len(inside) == 1 or (inside[-1].start_ns <= start_ns and inside[-1].end_ns >= end_ns):
        return BucketFactor(inside[-1].grams_per_kwh, inside[-1].quality)
    edges = {start_ns, end_ns}
    for piece in inside:
        edges.update(edge for edge in (piece.start_ns, piece.end_ns) if start_ns < edge < end_ns)
    ordered = sorted(edges)
    weighted, covered_ns, quality = 0.0, 0, inside[-1].quality
    for begin, end in pairwise(ordered):
        over = [piece for piece in inside if piece.start_ns <= begin and piece.end_ns >= end]
        if over:
            weighted += over[-1].grams_per_kwh * (end - begin)
            covered_ns += end - begin
            quality = over[-1].quality
    return BucketFactor(weighted / covered_ns, quality)
