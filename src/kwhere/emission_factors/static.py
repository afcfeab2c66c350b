"""One factor per country and year, shipped with the package: Ember's yearly electricity data.

Lifecycle, average, of what a country produces. An unknown country is an error; the world's mean is given only to whom
asks for `WORLD`.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.timespan import Span
from kwhere.emission_factors.plugin import ProviderPlugin, ProviderSettings
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System

NAME = "static"
WORLD = "WORLD"
ALWAYS = Span(datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
"""A yearly figure is in force until a table with a newer one is shipped."""
_FILE = "ember_yearly.csv"


@dataclass(frozen=True, slots=True)
class Country:
    """One row of the table."""

    iso3: str
    iso2: str
    name: str
    year: int
    grams_per_kwh: float

    @property
    def zone(self) -> str:
        """Return the word for it in settings and factors: two letters, or WORLD."""
        return self.iso2 or self.iso3


@dataclass(frozen=True, slots=True)
class Table:
    """The table with what its head says of itself."""

    source: str
    licence: str
    retrieved: datetime
    countries: tuple[Country, ...]

    def find(self, zone: str) -> Country:
        """Return the row of a country by two or three letters. Raises ConfigError that names what there is."""
        wanted = zone.strip().upper()
        for country in self.countries:
            if wanted and wanted in (country.iso2, country.iso3):
                return country
        known = " ".join(sorted(country.iso2 for country in self.countries if country.iso2))
        raise ConfigError(
            f"zone: expected a country of two or three letters (ISO 3166), or WORLD for the world's mean, "
            f"found {zone!r}; known: {known}"
        )


def parse_table(text: str) -> Table:
    """Return the table in `text`: lines `# key: value`, then CSV. Raises ValueError for what is not so."""
    lines = text.splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return Table(
        head["source"],
        head["licence"],
        datetime.fromisoformat(head["retrieved"]).replace(tzinfo=UTC),
        tuple(
            Country(row["iso3"], row["iso2"], row["name"], int(row["year"]), float(row["grams_per_kwh"]))
            for row in rows
        ),
    )


@cache
def shipped_table() -> Table:
    """Return the table of the package."""
    return parse_table((files("kwhere.emission_factors") / "data" / _FILE).read_text(encoding="utf-8"))


class StaticProvider:
    """A country's yearly mean, whenever asked."""

    name = NAME
    refresh_seconds = 86400.0

    def __init__(self, table: Table) -> None:
        self._table = table

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the one factor of a country, in force always. Raises ConfigError for an unknown country."""
        country = self._table.find(zone)
        return (
            Factor(
                provider=self.name,
                zone=country.zone,
                span=ALWAYS,
                grams_per_kwh=country.grams_per_kwh,
                # The source dates no single figure: known at the latest when the table was retrieved.
                published_at=self._table.retrieved,
                basis=Basis.AVERAGE,
                scope=Scope.LIFECYCLE,
                system=System.PRODUCTION,
                quality=Quality.STATIC,
                source=f"{self._table.source}; {country.name} {country.year}; {self._table.licence}",
            ),
        )

    def zones(self) -> Mapping[str, str]:
        """Return every zone with its name, to choose from."""
        return {country.zone: country.name for country in self._table.countries}


class StaticSettings(ProviderSettings):
    """Nothing to set."""


def _build(settings: StaticSettings, clock: Clock) -> StaticProvider:
    return StaticProvider(shipped_table())


plugin = ProviderPlugin(
    name=NAME,
    summary="Yearly mean of a country, shipped with the package (Ember, CC BY 4.0).",
    settings_class=StaticSettings,
    basis=Basis.AVERAGE,
    build=_build,
)
