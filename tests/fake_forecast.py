"""A provider of emission factors that looks ahead, without a service."""

from collections.abc import Sequence
from datetime import timedelta

from tests.emission_services import NOON

from kwhere.core.errors import ConfigError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System

HOUR = timedelta(hours=1)


class Ahead:
    """A provider of one zone with a forecast by the hour from noon."""

    refresh_seconds = 900.0

    def __init__(self, name: str, *grams: float) -> None:
        self.name = name
        self.grams = grams
        self.zone = "GB"
        self.asked: list[Span] = []

    def check_zone(self, zone: str) -> None:
        if zone != self.zone:
            raise ConfigError(f"zone: expected {self.zone}")

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        return ()

    def forecast(self, zone: str, span: Span) -> Sequence[Factor]:
        self.asked.append(span)
        if not self.grams:
            raise Unavailable("timeout", "no answer")
        first = NOON.replace(minute=0)
        kinds = (Basis.AVERAGE, Scope.DIRECT, System.CONSUMPTION, Quality.FORECAST)
        return [
            Factor(self.name, zone, Span(first + n * HOUR, first + (n + 1) * HOUR), grams, NOON, *kinds, "source")
            for n, grams in enumerate(self.grams)
        ]
