"""Grams of CO2e: derived from usage and the factors in force, replaced when either changes.

grams = sum over 5-minute buckets of energy x PUE(t) x factor(t) / 3.6e6 (J and g/kWh); once buckets are gone, the
hour's energy x the mean of PUE x factor over the hour.
"""

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
    connection: Connection, site: SiteSettings, node_id: int, start_ns: int, pue: Steps[float]
) -> list[Worth]:
    """Return grams per microjoule in the hour from `start_ns`, by every source of the node's zone."""
    zone = _zone(connection, site, node_id)
    if zone is None:
        return []
    found = factors_in_force(connection, zone, start_ns, HOUR_NS)
    return [_worth(source_id, factors, pue) for source_id, factors in found.items()]


def _worth(source_id: int, factors: dict[int, BucketFactor], pue: Steps[float]) -> Worth:
    per_uj = {
        begin: factor.grams_per_kwh * (pue.at(begin) or 1.0) / MICROJOULES_PER_KWH for begin, factor in factors.items()
    }
    return Worth(source_id, per_uj, worst((factor.quality for factor in factors.values()), QUALITIES))


def _zone(connection: Connection, site: SiteSettings, node_id: int) -> str | None:
    cluster_id: int = connection.execute(
        select(schema.nodes.c.cluster_id).where(schema.nodes.c.id == node_id)
    ).scalar_one()
    return zones_by_cluster(connection, site).get(cluster_id)
