"""Europe, from the mix: ENTSO-E's actual generation by type times our own table of types. A token by e-mail.

Of what a zone produces; flows between zones are not traced. The service wants its token in the address, so no address
of it is ever in a message.
"""

import csv
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from functools import cache
from importlib.resources import files

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, NoData
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import Asker, KeyedSettings
from kwhere.emission_factors.entsoe_document import read_generation
from kwhere.emission_factors.generation_mix import Generation, mix_rows
from kwhere.emission_factors.plugin import ProviderPlugin
from kwhere.emission_factors.provider import Basis, Factor, Scope, System
from kwhere.emission_factors.rows import Origin, in_order, pieces, some, up_to, utc_text

NAME = "entsoe"
MOST_ASKED = timedelta(days=30)
CODE_LENGTH = 16
_MINUTE = "%Y%m%d%H%M"


class EntsoeSettings(KeyedSettings):
    """A token is needed."""

    url: str = Field(default="https://web-api.tp.entsoe.eu/api", description="Address of the service.")
    scope: Scope = Field(default=Scope.LIFECYCLE, description="`lifecycle`, or `direct` for the stack alone.")


@cache
def zone_codes() -> Mapping[str, str]:
    """Return the code of each zone by its name."""
    text = (files("kwhere.emission_factors") / "data" / "entsoe_zones.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["zone"]: row["code"] for row in rows}


class EntsoeProvider:
    """Zones by name (`FR`, `DE_LU`, `NO_2`) or by their code of 16 characters."""

    name = NAME

    def __init__(self, settings: EntsoeSettings, clock: Clock) -> None:
        self._settings = settings
        self._asker = Asker(settings.url, settings.http, clock, has_secret=True)
        self.refresh_seconds = settings.refresh_seconds

    def key_digest(self) -> str:
        """Return a digest of the token at present."""
        return self._settings.digest()

    def check_zone(self, zone: str) -> None:
        """Raise ConfigError for a zone without a code."""
        self._code(zone)

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors within `span`, as far as the mix is there."""
        code = self._code(zone)
        generation: list[Generation] = []
        said_at, empty = self._asker.now(), ""
        for piece in pieces(_whole_hours(span), MOST_ASKED):
            secret = self._settings.read_secret()
            reply = self._asker.get("", self._params(code, piece, secret), secrets=[secret])
            said_at = reply.said_at
            try:
                generation += read_generation(reply.text(), reply.place)
            except NoData as error:
                empty = str(error)
        if not generation:
            raise NoData(empty or f"{NAME}: no generation in zone {zone} for this time")
        rows = up_to(mix_rows(generation, self._settings.scope), said_at)
        found = some(in_order(rows, span), len(rows), f"{NAME}: zone {zone}")
        scope = self._settings.scope
        source = f"ENTSO-E generation by type × factors of IPCC and others ({scope}, production); terms of ENTSO-E"
        own = self._settings.own_zone(zone)
        return Origin(NAME, own, Basis.AVERAGE, scope, System.PRODUCTION, source).factors(found, self._asker.now())

    def _params(self, code: str, span: Span, secret: str) -> Mapping[str, str]:
        return {
            "securityToken": secret,
            "documentType": "A75",
            "processType": "A16",
            "in_Domain": code,
            "periodStart": utc_text(span.start, _MINUTE),
            "periodEnd": utc_text(span.end, _MINUTE),
        }

    def _code(self, zone: str) -> str:
        own = self._settings.own_zone(zone).strip()
        codes = zone_codes()
        found = codes.get(own.upper().replace("-", "_"))
        if found is not None:
            return found
        if len(own) == CODE_LENGTH and own.isascii():
            return own
        raise ConfigError(
            f"zone: expected a zone of ENTSO-E or its code of {CODE_LENGTH} characters, found {zone!r}; "
            f"known: {' '.join(sorted(codes))}"
        )


def _whole_hours(span: Span) -> Span:
    """Return `span` widened to hours: the service answers for whole market periods."""
    start = span.start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    end = span.end.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return Span(start, end if end == span.end else end + timedelta(hours=1))


plugin = ProviderPlugin(
    name=NAME,
    summary="Europe by the quarter hour or hour, from the mix (ENTSO-E) and our table of types. Needs a token.",
    settings_class=EntsoeSettings,
    basis=Basis.AVERAGE,
    build=EntsoeProvider,
    is_live=True,
)
