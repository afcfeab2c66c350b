"""The site's own constant, with the citation that goes with it wherever it is shown."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import Field

from kwhere.core.clock import Clock
from kwhere.core.timespan import Span
from kwhere.emission_factors.plugin import ProviderPlugin, ProviderSettings
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.static import ALWAYS

NAME = "fixed"


class FixedSettings(ProviderSettings):
    """A constant needs a value and where it is from."""

    grams_per_kwh: float = Field(ge=0, le=5000, allow_inf_nan=False, description="Grams of CO2e per kWh.")
    citation: str = Field(min_length=1, description="Where the figure is from, with its year.")
    published: datetime | None = Field(default=None, description="When it was published; none: unknown, taken as 1970.")
    scope: Scope = Field(default=Scope.LIFECYCLE, description="`lifecycle`, or `direct` for the stack alone.")
    system: System = Field(default=System.CONSUMPTION, description="`production` or `consumption` of the zone.")


class FixedProvider:
    """One figure for every zone and time."""

    name = NAME
    refresh_seconds = 86400.0

    def __init__(self, settings: FixedSettings) -> None:
        self._settings = settings

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the constant, in force always."""
        published = self._settings.published or ALWAYS.start
        return (
            Factor(
                provider=self.name,
                zone=zone,
                span=ALWAYS,
                grams_per_kwh=self._settings.grams_per_kwh,
                published_at=published if published.tzinfo else published.replace(tzinfo=UTC),
                basis=Basis.AVERAGE,
                scope=self._settings.scope,
                system=self._settings.system,
                quality=Quality.STATIC,
                source=self._settings.citation,
            ),
        )


def _build(settings: FixedSettings, clock: Clock) -> FixedProvider:
    return FixedProvider(settings)


plugin = ProviderPlugin(
    name=NAME,
    summary="A constant that the site sets, with its citation.",
    settings_class=FixedSettings,
    basis=Basis.AVERAGE,
    build=_build,
)
