"""Grams of CO2e: derived from usage and the factors in force, replaced when either changes.

grams = sum over 5-minute buckets of energy x PUE(t) x factor(t) / 3.6e6 (J and g/kWh); once buckets are gone, the
hour's energy x the mean of PUE x factor over the hour.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from kwhere.core.quantities import JOULES_PER_KWH
from kwhere.database import schema
from kwhere.database.derived import Book, Worth, worst
from kwhere.database.factors import QUALITIES, BucketFactor, factors_in_force
from kwhere.database.grid import HOUR_NS
from kwhere.database.reading.site import zones_by_cluster
from kwhere.database.settings import SiteSettings
from kwhere.energy.steps import Steps

EMISSIONS = Book(
    schema.emissions_hour,
    schema.emissions_day,
    schema.unit_emissions,
    schema.corrections,
    key="source_id",
    amount="grams",
    qualities=QUALITIES,
)
MICROJOULES_PER_KWH = JOULES_PER_KWH * 1e6


def gram_worths(
    connection: Connection, site: SiteSettings, node_ids: Sequence[int], start_ns: int, pue: Steps[float]
) -> dict[int, list[Worth]]:
    """Return by node the grams per microjoule in the hour from `start_ns`, by every source of its zone."""
    zones = zones_by_cluster(connection, site)
    nodes = schema.nodes.c
    rows = connection.execute(select(nodes.id, nodes.cluster_id).where(nodes.id.in_(node_ids)))
    zone_of = {node_id: zones.get(cluster_id) for node_id, cluster_id in rows}
    by_zone: dict[str | None, list[Worth]] = {None: []}
    for zone in set(zone_of.values()):
        if zone is not None:
            found = factors_in_force(connection, zone, start_ns, HOUR_NS)
            by_zone[zone] = [_worth(source_id, factors, pue) for source_id, factors in found.items()]
    return {node_id: by_zone[zone] for node_id, zone in zone_of.items()}


def _worth(source_id: int, factors: Mapping[int, BucketFactor], pue: Steps[float]) -> Worth:
    per_uj = tuple(
        (begin, factor.grams_per_kwh * (pue.at(begin) or 1.0) / MICROJOULES_PER_KWH)
        for begin, factor in sorted(factors.items())
    )
    return Worth(source_id, per_uj, worst((factor.quality for factor in factors.values()), QUALITIES))
