"""Great Britain, by the half hour: NESO's Carbon Intensity API, national or by region. No key.

Direct emissions of what is consumed. A slot without an actual value has a forecast, which is taken and says so;
regions have forecasts alone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, SourceError
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import Asker, LiveSettings
from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.rows import (
    Origin,
    Row,
    in_order,
    listed,
    objects,
    parse_grams,
    parse_time,
    pieces,
    some,
    up_to,
    utc_text,
)

NAME = "neso"
COUNTRY = "GB"
MOST_ASKED = timedelta(days=13)
"""The service answers for up to 14 days at once."""
LONGEST_SLOT = timedelta(hours=3)
SOURCE = "NESO Carbon Intensity API (direct, consumption); CC BY 4.0"
_ZONE = re.compile(r"GB(-(?:(?P<region>[1-9]|1[0-7])|(?P<postcode>[A-Z]{1,2}[0-9][0-9A-Z]?)))?")
_MINUTE = "%Y-%m-%dT%H:%MZ"


class NesoSettings(LiveSettings):
    """Nothing needs to be set."""

    url: str = Field(default="https://api.carbonintensity.org.uk", description="Address of the service.")


class NesoProvider:
    """`GB`, one of its regions (`GB-1` … `GB-17`), or where a postcode lies (`GB-RG10`)."""

    name = NAME

    def __init__(self, settings: NesoSettings, clock: Clock) -> None:
        self._settings = settings
        self._asker = Asker(settings.url, settings.http, clock)
        self.refresh_seconds = settings.refresh_seconds

    def check_zone(self, zone: str) -> None:
        """Raise ConfigError for a zone outside Great Britain."""
        self._place_of(zone)

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors within `span` of slots that have begun."""
        return self._asked(zone, span, ahead=False)

    def forecast(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the forecast within `span`, up to 48 hours ahead."""
        return self._asked(zone, span, ahead=True)

    def _asked(self, zone: str, span: Span, *, ahead: bool) -> Sequence[Factor]:
        own, suffix = self._place_of(zone)
        rows: list[Row] = []
        count, said_at, place = 0, self._asker.now(), NAME
        for piece in pieces(span, MOST_ASKED):
            edges = f"/intensity/{utc_text(piece.start, _MINUTE)}/{utc_text(piece.end, _MINUTE)}"
            path = f"/regional{edges}{suffix}" if suffix else edges
            reply = self._asker.get(path, label=f"/regional/intensity{suffix}" if suffix else "/intensity")
            said_at, place = reply.said_at, reply.place
            slots = list(read_slots(reply.json(), place))
            count += len(slots)
            rows += (row for slot in slots if (row := parse_slot(slot, forecast_alone=ahead)) is not None)
        kept = rows if ahead else up_to(rows, said_at)
        found = some(in_order(kept, span), count, place)
        origin = Origin(NAME, own, Basis.AVERAGE, Scope.DIRECT, System.CONSUMPTION, SOURCE)
        return origin.factors(found, self._asker.now())

    def _place_of(self, zone: str) -> tuple[str, str]:
        """Return the zone in its usual writing, and the end of the path that asks for it."""
        own = self._settings.own_zone(zone).strip().upper()
        match = _ZONE.fullmatch(own)
        if match is None:
            raise ConfigError(
                f"zone: expected GB, GB-1 … GB-17 or GB and the first half of a postcode (GB-RG10), found {zone!r}"
            )
        if match["region"]:
            return own, f"/regionid/{match['region']}"
        return own, f"/postcode/{match['postcode']}" if match["postcode"] else ""


def read_slots(document: object, place: str) -> Iterator[Mapping[str, object]]:
    """Yield the half hours of a national answer, or of a regional one, which nests them. Raises SourceError."""
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        raise SourceError(f"{place}: {str(document['error'].get('message') or document['error'])[:200]}")
    if isinstance(document, dict) and isinstance(document.get("data"), dict):
        document = {"data": [document["data"]]}
    for item in listed(document, ["data"], place):
        if isinstance(item.get("data"), list):
            yield from objects(item["data"])
        else:
            yield item


def parse_slot(slot: Mapping[str, object], *, forecast_alone: bool) -> Row | None:
    """Return a half hour's figure: the actual one unless `forecast_alone`, else the forecast, marked as one."""
    intensity = slot.get("intensity")
    span = _span(parse_time(slot.get("from")), parse_time(slot.get("to")))
    if span is None or not isinstance(intensity, dict):
        return None
    actual = None if forecast_alone else parse_grams(intensity.get("actual"))
    if actual is not None:
        return Row(span, actual, Quality.MEASURED)
    forecast = parse_grams(intensity.get("forecast"))
    return None if forecast is None else Row(span, forecast, Quality.FORECAST)


def _span(start: datetime | None, end: datetime | None) -> Span | None:
    if start is None or end is None or not timedelta(0) < end - start <= LONGEST_SLOT:
        return None
    return Span(start, end)


plugin = ProviderPlugin(
    name=NAME,
    summary="Great Britain and its regions by the half hour (NESO): direct emissions of consumption. No key.",
    settings_class=NesoSettings,
    basis=Basis.AVERAGE,
    build=NesoProvider,
    is_live=True,
)
