"""The seam to a provider of emission factors."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from kwhere.core.errors import ConfigError
from kwhere.core.timespan import Span


class Basis(StrEnum):
    """Average answers "what is my footprint", marginal "what if I shift load"; never mixed."""

    AVERAGE = "average"
    MARGINAL = "marginal"


class Scope(StrEnum):
    """Lifecycle counts building and fuel chains, direct only the stack."""

    LIFECYCLE = "lifecycle"
    DIRECT = "direct"


class System(StrEnum):
    """Of what a zone produces, or of what it consumes (imports traced)."""

    PRODUCTION = "production"
    CONSUMPTION = "consumption"


class Quality(StrEnum):
    """Best first."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    FORECAST = "forecast"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class Factor:
    """Grams of CO2e per kWh over a span, with all that tells where it is from."""

    provider: str
    zone: str
    span: Span
    grams_per_kwh: float
    published_at: datetime
    basis: Basis
    scope: Scope
    system: System
    quality: Quality
    source: str
    """Citation with year and licence, for people."""


class EmissionFactorProvider(Protocol):
    """Asked centrally by the server. Raises ConfigError for an unknown zone, Unavailable, SourceError."""

    @property
    def name(self) -> str:
        """Return its name, as in the settings."""
        ...

    @property
    def refresh_seconds(self) -> float:
        """Return in how many seconds it is worth asking again."""
        ...

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors in force in `zone` within `span`, in time order, clipped to nothing."""
        ...


@runtime_checkable
class ForecastProvider(Protocol):
    """A provider that also looks ahead."""

    @property
    def name(self) -> str:
        """Return its name, as in the settings."""
        ...

    def forecast(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return forecast factors that touch `span`, in time order, without overlap; raises like `factors`."""
        ...


@runtime_checkable
class KeyedProvider(Protocol):
    """A provider that shows a key: one that was refused is not shown again until it changes."""

    def key_digest(self) -> str:
        """Return a digest of the key at present; never the key. Raises Unavailable where it cannot be read."""
        ...


@runtime_checkable
class ZoneChecker(Protocol):
    """A provider that knows its zones without asking."""

    def check_zone(self, zone: str) -> None:
        """Raise ConfigError where `zone` is none of its zones."""
        ...


def may_know(provider: object, zone: str) -> bool:
    """Return whether it is worth asking `provider` about `zone`: one of another country need not be."""
    try:
        if isinstance(provider, ZoneChecker):
            provider.check_zone(zone)
    except ConfigError:
        return False
    return True
