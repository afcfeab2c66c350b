"""France, by the quarter of an hour: RTE's eCO2mix, published by ODRÉ. No key.

Direct emissions of what France produces: imports, building and fuel chains are not in it, so it is far below a
lifecycle figure of what is consumed. Rows of the future are there, without a value.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import Asker, LiveSettings, Reply
from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.rows import (
    Origin,
    Row,
    in_order,
    listed,
    parse_grams,
    parse_time,
    some,
    span_of,
    up_to,
    utc_text,
)

NAME = "rte"
ZONE = "FR"
STEP = timedelta(minutes=15)
PAGE_ROWS = 100
"""The most that the service gives at once."""
MOST_ROWS = 9900
"""Beyond this it refuses to page."""
SOURCE = "RTE éCO2mix by ODRÉ, taux_co2 (direct, production); Licence Ouverte 2.0"


class RteSettings(LiveSettings):
    """Nothing needs to be set."""

    url: str = Field(default="https://odre.opendatasoft.com", description="Address of the Opendatasoft portal.")
    dataset: str = Field(
        default="eco2mix-national-tr",
        pattern=r"^[a-z0-9-]+$",
        description="Dataset with `taux_co2` by quarter hours.",
    )


class RteProvider:
    """France alone."""

    name = NAME

    def __init__(self, settings: RteSettings, clock: Clock) -> None:
        self._settings = settings
        self._asker = Asker(settings.url, settings.http, clock)
        self.refresh_seconds = settings.refresh_seconds

    def check_zone(self, zone: str) -> None:
        """Raise ConfigError for any zone but France."""
        if self._settings.own_zone(zone) != ZONE:
            raise ConfigError(f"zone: expected {ZONE}, the only one of provider {NAME}, found {zone!r}")

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors of France within `span`."""
        self.check_zone(zone)
        rows: list[Row] = []
        count, replies = 0, []
        for reply, records in self._pages(span):
            replies.append(reply)
            count += len(records)
            rows += (row for record in records if (row := parse_record(record)) is not None)
        found = some(in_order(up_to(rows, replies[-1].said_at), span), count, replies[-1].place)
        origin = Origin(NAME, ZONE, Basis.AVERAGE, Scope.DIRECT, System.PRODUCTION, SOURCE)
        return origin.factors(found, self._asker.now())

    def _pages(self, span: Span) -> Iterator[tuple[Reply, list[dict[str, object]]]]:
        """Yield answers with their records, newest first. By instants, not by days: a day begins without rows."""
        path = f"/api/explore/v2.1/catalog/datasets/{self._settings.dataset}/records"
        where = (
            f"taux_co2 is not null and date_heure > date'{utc_text(span.start - STEP)}' "
            f"and date_heure < date'{utc_text(span.end)}'"
        )
        for offset in range(0, MOST_ROWS, PAGE_ROWS):
            params = {
                "select": "taux_co2,date_heure",
                "where": where,
                "order_by": "date_heure desc",
                "limit": str(PAGE_ROWS),
                "offset": str(offset),
                "timezone": "UTC",
            }
            reply = self._asker.get(path, params)
            records = [dict(record) for record in listed(reply.json(), ["results"], reply.place)]
            yield reply, records
            if len(records) < PAGE_ROWS:
                return


def parse_record(record: dict[str, object]) -> Row | None:
    """Return one record as a row; None where the value is null (the future) or makes no sense."""
    grams = parse_grams(record.get("taux_co2"))
    span = span_of(parse_time(record.get("date_heure")), STEP)
    return None if grams is None or span is None else Row(span, grams, Quality.MEASURED)


plugin = ProviderPlugin(
    name=NAME,
    summary="France by the quarter hour (RTE éCO2mix): direct emissions of production. No key.",
    settings_class=RteSettings,
    basis=Basis.AVERAGE,
    build=RteProvider,
    is_live=True,
)
