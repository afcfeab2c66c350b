"""What lies ahead: the greenest window of each provider that forecasts, for the zones of the site."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kwhere.core.errors import KwhereError
from kwhere.core.timespan import Span
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.provider import EmissionFactorProvider, Factor, ForecastProvider, may_know
from kwhere.emission_factors.windows import Window, greenest_window, mean_over

HORIZON = timedelta(hours=72)
"""What is asked for, always: one question serves whoever wants less of it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One provider's forecast for one zone, with the window in it that emits least."""

    zone: str
    """The site's name of it."""
    factors: Sequence[Factor]
    window: Window | None
    """None: the forecast does not reach that far."""
    now_grams_per_kwh: float | None
    """Mean of the window that begins now."""
    mean_grams_per_kwh: float
    """Mean of all that is forecast within the span."""


@dataclass(frozen=True, slots=True)
class Outlooks:
    """Of every zone and provider that has one, and why others have none."""

    items: list[Outlook] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Reason by provider and zone."""


def look_ahead(
    providers: Sequence[EmissionFactorProvider],
    zones: Sequence[str],
    now: datetime,
    within: timedelta,
    length: timedelta,
) -> Outlooks:
    """Return the windows of `length` that emit least within `within` from now; one that fails hinders no other."""
    found = Outlooks()
    span = Span(now, now + min(within, HORIZON))
    for zone in zones:
        for provider in forecasters(providers, zone):
            try:
                factors = provider.forecast(zone, Span(now, now + HORIZON))
            except KwhereError as error:
                found.missing[f"{provider.name} {zone}"] = str(error)
                continue
            ahead = [factor for factor in factors if factor.span.overlaps(span)]
            if ahead:
                found.items.append(_outlook(zone, ahead, span, length))
            else:
                found.missing[f"{provider.name} {zone}"] = "the forecast does not reach the present"
    return found


def _outlook(zone: str, factors: Sequence[Factor], span: Span, length: timedelta) -> Outlook:
    parts = [Span(max(f.span.start, span.start), min(f.span.end, span.end)) for f in factors]
    weighted = sum(factor.grams_per_kwh * part.seconds for factor, part in zip(factors, parts, strict=True))
    return Outlook(
        zone=zone,
        factors=factors,
        window=greenest_window(factors, span, length),
        now_grams_per_kwh=mean_over(factors, Span(span.start, span.start + length)),
        mean_grams_per_kwh=weighted / sum(part.seconds for part in parts),
    )


def forecasters(providers: Sequence[EmissionFactorProvider], zone: str) -> Iterator[ForecastProvider]:
    """Yield the providers that look ahead and may know `zone`."""
    for provider in providers:
        if isinstance(provider, CachedProvider) and not provider.has_forecast:
            continue
        if isinstance(provider, ForecastProvider) and may_know(provider, zone):
            yield provider
