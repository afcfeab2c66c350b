"""The seam to a provider of emission factors."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

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

    name: str
    refresh_seconds: float

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return the factors in force in `zone` within `span`, in time order, clipped to nothing."""
        ...
