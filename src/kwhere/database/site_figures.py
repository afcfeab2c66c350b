"""Cost and water by the hour: derived from usage and what a kWh costs or takes at its time."""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, select

from kwhere.database import bulk, schema
from kwhere.database.derived import Book, Worth
from kwhere.database.emissions import MICROJOULES_PER_KWH
from kwhere.database.grid import BUCKET_NS, HOUR_NS, from_ns
from kwhere.database.settings import SiteSettings
from kwhere.energy.steps import Steps
from kwhere.energy.tariff import Tariff
from kwhere.energy.water import WaterUse, litres_per_kwh

WHOLE, PARTIAL = "whole", "partial"
FIGURES = Book(
    schema.figures_hour,
    schema.figures_day,
    schema.unit_figures,
    schema.figure_corrections,
    key="kind_id",
    amount="amount",
    qualities=(WHOLE, PARTIAL),
)
LITRES = "litres"


class FigureKind(StrEnum):
    """What is derived beside grams."""

    COST = "cost"
    WATER = "water"


@dataclass(frozen=True, slots=True)
class SiteTerms:
    """What a kWh costs and takes by time, read once from the settings."""

    tariffs: Steps[Tariff]
    currency: str
    water: Steps[WaterUse]

    @property
    def has_any(self) -> bool:
        """Return whether cost or water is on."""
        return bool(self.tariffs.starts_ns or self.water.starts_ns)


def site_terms(site: SiteSettings) -> SiteTerms:
    """Return the terms of the settings."""
    return SiteTerms(
        Steps.of((site.start_ns(entry.since), entry.tariff()) for entry in site.cost.tariffs),
        site.cost.currency,
        Steps.of((site.start_ns(entry.since), entry.use()) for entry in site.water),
    )


def figure_worths(
    connection: Connection, site: SiteSettings, terms: SiteTerms, start_ns: int, pue: Steps[float]
) -> list[Worth]:
    """Return what a microjoule costs and takes in the hour from `start_ns`; what is off, or not yet on, is left out."""
    buckets = range(start_ns, start_ns + HOUR_NS, BUCKET_NS)
    prices: list[tuple[int, float]] = []
    litres: list[tuple[int, float]] = []
    for begin in buckets:
        ratio = pue.at(begin) or 1.0
        tariff, water = terms.tariffs.at(begin), terms.water.at(begin)
        if tariff is not None:
            price = tariff.price_at(from_ns(begin).astimezone(site.tz))
            prices.append((begin, price * ratio / MICROJOULES_PER_KWH))
        if water is not None:
            litres.append((begin, litres_per_kwh(water, ratio) / MICROJOULES_PER_KWH))
    found = ((FigureKind.COST, terms.currency, prices), (FigureKind.WATER, LITRES, litres))
    return [
        Worth(_kind_id(connection, kind, measure), tuple(per_uj), WHOLE if len(per_uj) == len(buckets) else PARTIAL)
        for kind, measure, per_uj in found
        if per_uj
    ]


def _kind_id(connection: Connection, kind: FigureKind, measure: str) -> int:
    kinds = schema.figure_kinds.c
    query = select(kinds.id).where(kinds.kind == str(kind), kinds.measure == measure)
    held = connection.execute(query).scalar_one_or_none()
    if held is None:
        bulk.upsert(connection, schema.figure_kinds, ("kind", "measure"), {}, [(str(kind), measure)])
        held = connection.execute(query).scalar_one()
    return int(held)
