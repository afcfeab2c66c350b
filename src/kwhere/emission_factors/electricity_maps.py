"""Nearly every grid, by the hour: Electricity Maps, versions 3 and 4 of its API. A key, by zones of one's plan.

Of what a zone consumes, imports traced; lifecycle or direct as set. Each figure says whether it is an estimate.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field, model_validator

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import Asker, KeyedSettings, Reply
from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.rows import (
    Origin,
    Row,
    in_order,
    objects,
    parse_grams,
    parse_time,
    pieces,
    some,
    span_of,
    up_to,
    utc_text,
)

NAME = "electricity_maps"
HISTORY = timedelta(hours=24)
MOST_ASKED = timedelta(days=10)
NOT_IN_PLAN = (403, 404)


class Version(StrEnum):
    """Version of the API."""

    V3 = "v3"
    V4 = "v4"


class Granularity(StrEnum):
    """Length of a figure, in the service's words."""

    FIVE_MINUTES = "5_minutes"
    QUARTER_HOUR = "15_minutes"
    HOUR = "hourly"

    @property
    def length(self) -> timedelta:
        """Return it as a length of time."""
        return {"5_minutes": timedelta(minutes=5), "15_minutes": timedelta(minutes=15)}.get(self, timedelta(hours=1))


class ElectricityMapsSettings(KeyedSettings):
    """A key is needed; what the plan allows decides the rest."""

    url: str = Field(default="https://api.electricitymaps.com", description="Address of the service, without version.")
    version: Version = Field(default=Version.V3, description="Version of the API: `v3` or `v4`.")
    scope: Scope = Field(default=Scope.LIFECYCLE, description="`lifecycle`, or `direct` for the stack alone.")
    system: System = Field(
        default=System.CONSUMPTION, description="`consumption`, or (v4) `production`: flows between zones not traced."
    )
    granularity: Granularity = Field(default=Granularity.HOUR, description="`hourly`, `15_minutes` or `5_minutes`.")
    estimates: bool = Field(default=True, description="Whether figures that the service estimates are taken.")
    past_range: bool = Field(default=False, description="Whether the plan allows times more than 24 hours ago.")

    @model_validator(mode="after")
    def _of_the_version(self) -> "ElectricityMapsSettings":
        if self.system is System.PRODUCTION and self.version is Version.V3:
            raise ValueError("system production needs version v4")
        return self

    def options(self) -> dict[str, str]:
        """Return the parameters of every question; what is the service's default is left out."""
        found = {"emissionFactorType": str(self.scope)}
        if self.granularity is not Granularity.HOUR:
            found["temporalGranularity"] = str(self.granularity)
        if not self.estimates:
            found["disableEstimations"] = "true"
        if self.system is System.PRODUCTION:
            found["flowTraced"] = "false"
        return found


class ElectricityMapsProvider:
    """Zones in the service's own words: `FR`, `DE`, `US-CAL-CISO`."""

    name = NAME

    def __init__(self, settings: ElectricityMapsSettings, clock: Clock) -> None:
        self._settings = settings
        self._asker = Asker(settings.url, settings.http, clock, has_secret=True)
        self.refresh_seconds = settings.refresh_seconds

    def key_digest(self) -> str:
        """Return a digest of the key at present."""
        return self._settings.digest()

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors within `span`: of the last 24 hours, or of all of it where the plan allows."""
        rows: list[Row] = []
        count, reply = 0, None
        for reply in self._answers(zone, span):
            items = list(self._items(reply, zone))
            count += len(items)
            rows += self._rows(items)
        assert reply is not None
        return self._made(zone, up_to(rows, reply.said_at), span, count, reply)

    def forecast(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the forecast within `span`; the plan decides whether there is one."""
        reply = self._ask("forecast", zone, {})
        items = list(self._items(reply, zone))
        updated = _updated(reply.json())
        rows = [Row(row.span, row.grams_per_kwh, Quality.FORECAST, updated) for row in self._rows(items)]
        return self._made(zone, rows, span, len(items), reply)

    def zones(self) -> Mapping[str, str]:
        """Return the zones of the plan with their names."""
        reply = self._get("/zones", {})
        return read_zones(reply.json(), reply.place)

    def _answers(self, zone: str, span: Span) -> Iterator[Reply]:
        recent = self._asker.now() - HISTORY
        if self._settings.past_range and span.start < recent:
            for piece in pieces(Span(span.start, min(span.end, self._asker.now())), MOST_ASKED):
                edges = {"start": utc_text(piece.start), "end": utc_text(piece.end)}
                yield self._ask("past-range", zone, edges)
        try:
            yield self._ask("history", zone, {})
        except Unavailable as error:
            if error.reason != "zone":
                raise
            yield self._ask("latest", zone, {})  # a plan may have this alone
            return
        try:  # the hour that runs is not in the history
            yield self._ask("latest", zone, {})
        except (SourceError, Unavailable) as error:
            if isinstance(error, Unavailable) and error.reason != "zone":
                raise

    def _ask(self, what: str, zone: str, more: Mapping[str, str]) -> Reply:
        params = {"zone": self._settings.own_zone(zone), **self._settings.options(), **more}
        try:
            return self._get(f"/carbon-intensity/{what}", params)
        except Unavailable as error:
            if error.reason == "zone":
                raise Unavailable("zone", f"{error}{self._hint()}") from error
            raise

    def _get(self, path: str, params: Mapping[str, str]) -> Reply:
        secret = self._settings.read_secret()
        return self._asker.get(
            f"/{self._settings.version}{path}",
            params,
            {"auth-token": secret},
            secrets=[secret],
            zone_statuses=NOT_IN_PLAN,
        )

    def _hint(self) -> str:
        """Return which zones the plan has, where it tells."""
        try:
            return f"; zones of this key: {', '.join(list(self.zones())[:20])}"
        except KwhereError:
            return ""

    def _items(self, reply: Reply, zone: str) -> Iterator[Mapping[str, object]]:
        """Yield the figures of an answer: a list under one of three names, or the answer itself.

        Raises SourceError for an answer about another zone: grams of the wrong country look right.
        """
        document = reply.json()
        if not isinstance(document, dict):
            raise SourceError(f"{reply.place}: expected an object")
        wanted, said = self._settings.own_zone(zone), document.get("zone")
        if isinstance(said, str) and said.casefold() != wanted.casefold():
            raise SourceError(f"{reply.place}: expected figures of zone {wanted}, found {said[:40]!r}")
        for name in ("history", "data", "forecast"):
            if isinstance(document.get(name), list):
                yield from objects(document[name])
                return
        if "carbonIntensity" not in document:
            keys = ", ".join(sorted(map(str, document))[:6])
            raise SourceError(f"{reply.place}: expected carbonIntensity, found an object with {keys or 'nothing'}")
        yield document

    def _rows(self, items: Sequence[Mapping[str, object]]) -> list[Row]:
        return [row for item in items if (row := self._row(item)) is not None]

    def _row(self, item: Mapping[str, object]) -> Row | None:
        """Return one figure; None where it is null, of the other scope, or an estimate that is not wanted."""
        grams = parse_grams(item.get("carbonIntensity"))
        span = span_of(parse_time(item.get("datetime")), self._settings.granularity.length)
        scope = item.get("emissionFactorType") or self._settings.scope
        if grams is None or span is None or scope != self._settings.scope:
            return None
        measured = item.get("isEstimated") is False
        if not measured and not self._settings.estimates:
            return None
        return Row(span, grams, Quality.MEASURED if measured else Quality.ESTIMATED, _updated(item))

    def _made(self, zone: str, rows: Sequence[Row], span: Span, count: int, reply: Reply) -> Sequence[Factor]:
        settings = self._settings
        source = f"Electricity Maps {settings.version} ({settings.scope}, {settings.system}); by licence of one's plan"
        own = settings.own_zone(zone)
        found = some(in_order(rows, span), count, reply.place)
        return Origin(NAME, own, Basis.AVERAGE, settings.scope, settings.system, source).factors(
            found, self._asker.now()
        )


def _updated(item: object) -> datetime | None:
    return parse_time(item.get("updatedAt")) if isinstance(item, dict) else None


def read_zones(document: object, place: str) -> dict[str, str]:
    """Return zones with their names. With a key each also has a list of what it may: values are not all texts."""
    if not isinstance(document, dict):
        raise SourceError(f"{place}: expected an object of zones")
    found = {}
    for zone, facts in document.items():
        if isinstance(facts, dict):
            names = (facts.get("countryName"), facts.get("zoneName"))
            found[str(zone)] = ", ".join(name for name in names if isinstance(name, str)) or str(zone)
    return found


plugin = ProviderPlugin(
    name=NAME,
    summary="Nearly every grid by the hour (Electricity Maps v3, v4): consumption, lifecycle or direct. Needs a key.",
    settings_class=ElectricityMapsSettings,
    basis=Basis.AVERAGE,
    build=ElectricityMapsProvider,
    is_live=True,
)
