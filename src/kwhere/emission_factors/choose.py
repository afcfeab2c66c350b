"""Which factor is in force: the provider's own, its last good one, the country's static one, the world's if allowed.

What stands in is always of the same basis (average), says what it is, and every change of it is reported.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kwhere.core.clock import Clock
from kwhere.core.errors import ConfigError, NoData, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.emission_factors import static
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.provider import Basis, EmissionFactorProvider, Factor, Quality, ZoneChecker, may_know
from kwhere.emission_factors.registry import Providers, find_providers
from kwhere.emission_factors.settings import EmissionFactorSettings

_KEY = "emission_factors"


@dataclass(frozen=True, slots=True)
class QualityChange:
    """What is in force now is of another provider or quality than before."""

    zone: str
    before: str | None
    """Provider and quality; None: the first choice since the start."""
    after: str
    reason: str
    """Why the reporting provider's own is not in force; empty where it is."""


Report = Callable[[QualityChange], None]


class Chooser:
    """The reporting provider with its fallbacks, and those beside it. Not thread-safe: one pass asks."""

    def __init__(
        self,
        reporting: EmissionFactorProvider,
        fallback: EmissionFactorProvider,
        settings: EmissionFactorSettings,
        clock: Clock,
        *,
        beside: Sequence[EmissionFactorProvider] = (),
        report: Report = lambda change: None,
    ) -> None:
        self._reporting = reporting
        self._fallback = fallback
        self._settings = settings
        self._clock = clock
        self._report = report
        self._known: dict[str, Sequence[Factor]] = {}
        self._last_good: dict[str, Factor] = {}
        self._in_force: dict[str, str] = {}
        self.beside = tuple(beside)
        """Providers whose figures stand beside the reported ones; asked by `factors` of their own."""

    @property
    def reporting_name(self) -> str:
        """Return the name of the reporting provider."""
        return self._reporting.name

    @property
    def refresh_seconds(self) -> float:
        """Return in how many seconds it is worth asking again: as the most lively of the providers has it."""
        return min(provider.refresh_seconds for provider in self.providers)

    @property
    def providers(self) -> tuple[EmissionFactorProvider, ...]:
        """Return the reporting provider and those beside it."""
        return (self._reporting, *self.beside)

    def beside_of(self, zone: str) -> tuple[EmissionFactorProvider, ...]:
        """Return the providers beside that may know `zone`: one of another country need not be asked."""
        return tuple(provider for provider in self.beside if may_know(provider, zone))

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return factors that cover `span` without overlap, in time order; the first and last may reach beyond it.

        Raises ConfigError for a zone that nobody knows, Unavailable where nothing may stand in.
        """
        reason = ""
        try:
            live = _in_order(self._averages(zone, span))
        except (Unavailable, NoData, SourceError) as error:
            live, reason = [], str(error)
        if isinstance(self._reporting, CachedProvider):
            reason = reason or self._reporting.fault(zone)
        live = live or [factor for factor in self._known.get(zone, ()) if factor.span.overlaps(span)]
        self._remember(zone, live)
        chosen = list(live)
        for gap in _gaps(live, span):
            chosen += self._stand_in(zone, gap, span, reason)
        chosen.sort(key=lambda factor: factor.span)
        self._tell(zone, self._now_of(chosen), reason)
        return tuple(chosen)

    def _averages(self, zone: str, span: Span) -> Sequence[Factor]:
        """Return what the reporting provider says. Raises SourceError for a marginal factor among it."""
        found = self._reporting.factors(zone, span)
        if any(factor.basis is not Basis.AVERAGE for factor in found):
            raise SourceError(f"{self._reporting.name}: expected average factors, found others; they are never mixed")
        return found

    def _remember(self, zone: str, live: Sequence[Factor]) -> None:
        if live:
            self._known[zone] = live
        real = [factor for factor in live if factor.quality not in (Quality.STATIC, Quality.FORECAST)]
        if real:
            self._last_good[zone] = real[-1]

    def _stand_in(self, zone: str, gap: Span, span: Span, reason: str) -> Iterator[Factor]:
        """Yield what covers a gap: the last good factor as far as it may reach, then the country's or the world's.

        At the edges of `span`, which move with every question, it reaches to where it would the next time too: the
        same factor is told again, and nobody has to recompute for it.
        """
        start, is_last = gap.start, gap.end == span.end
        good = self._last_good.get(zone)
        if good is not None and good.span.end <= start:
            reach = good.span.end + timedelta(hours=self._settings.last_good_hours)
            reach = reach if is_last else min(reach, gap.end)
            if start < reach:
                yield replace(
                    good,
                    span=Span(start, reach),
                    quality=Quality.ESTIMATED,
                    source=f"{good.source}; last good, of {good.span.start:%Y-%m-%d %H:%M} UTC",
                )
                start = reach
        if start >= gap.end:
            return
        factor = self._of_country(zone, gap, reason)
        if gap == span and start == gap.start:
            yield factor
            return
        begin = _midnight(start) if start == span.start else start
        yield replace(factor, span=Span(begin, _midnight(gap.end) + timedelta(days=1) if is_last else gap.end))

    def _now_of(self, chosen: Sequence[Factor]) -> Factor:
        """Return the factor in force now; the newest where none is."""
        now = datetime.fromtimestamp(self._clock.utc_ns() / NANOSECONDS_PER_SECOND, UTC)
        return next((factor for factor in chosen if factor.span.start <= now < factor.span.end), chosen[-1])

    def _of_country(self, zone: str, gap: Span, reason: str) -> Factor:
        try:
            return self._fallback.factors(country_of(zone), gap)[0]
        except ConfigError as error:
            if not self._settings.world_fallback:
                if reason:
                    raise Unavailable("no_factor", f"zone {zone}: {reason}; and {error}") from error
                raise
            return self._fallback.factors(static.WORLD, gap)[0]

    def _tell(self, zone: str, present: Factor, reason: str) -> None:
        after = f"{present.provider} {present.zone} {present.quality}"
        before = self._in_force.get(zone)
        if before != after:
            self._in_force[zone] = after
            self._report(QualityChange(zone, before, after, reason))


def _check_live_zones(provider: EmissionFactorProvider, zones: Mapping[str, str]) -> None:
    if not isinstance(provider, ZoneChecker):
        return
    for key, zone in zones.items():
        try:
            provider.check_zone(zone)
        except ConfigError as error:
            raise ConfigError(f"{key}: {str(error).removeprefix('zone: ')}") from error


def _check_zones(countries: EmissionFactorProvider, zones: Mapping[str, str]) -> None:
    for key, zone in zones.items():
        try:
            countries.factors(country_of(zone), static.ALWAYS)
        except ConfigError as error:
            raise ConfigError(f"{key}: {str(error).removeprefix('zone: ')}") from error


def country_of(zone: str) -> str:
    """Return the country of a provider's zone: what stands before the first - or _ (`US-CAL-CISO`, `DE_LU`)."""
    return zone.replace("_", "-").split("-", 1)[0]


def without_asking(settings: EmissionFactorSettings) -> EmissionFactorSettings:
    """Return settings that ask no service: for whom is not the server. A live reporting provider becomes `static`."""
    plugin = find_providers().plugins.get(settings.reporting)
    reporting = static.NAME if plugin is not None and plugin.is_live else settings.reporting
    return settings.model_copy(update={"reporting": reporting, "beside": ()})


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _in_order(factors: Sequence[Factor]) -> list[Factor]:
    return sorted(factors, key=lambda factor: factor.span)


def _gaps(factors: Sequence[Factor], span: Span) -> Iterator[Span]:
    """Yield the parts of `span` that no factor covers."""
    start = span.start
    for factor in factors:
        if start < factor.span.start and start < span.end:
            yield Span(start, min(factor.span.start, span.end))
        start = max(start, factor.span.end)
    if start < span.end:
        yield Span(start, span.end)


def build_chooser(
    settings: EmissionFactorSettings,
    clock: Clock,
    *,
    providers: Providers | None = None,
    zones: Mapping[str, str] | None = None,
    state_dir: Path | None = None,
    report: Report = lambda change: None,
) -> Chooser:
    """Return the chooser that the settings describe. Raises ConfigError that names the wrong key.

    `zones` are zones in the settings by their key: one that nobody can know is found here and not at night. Live
    providers keep what they said in `state_dir`.
    """
    known = providers or find_providers()
    for name in settings.providers:
        known.plugin(name, f"{_KEY}.providers")
    reporting = known.plugin(settings.reporting, f"{_KEY}.reporting")
    if reporting.basis is not Basis.AVERAGE:
        raise ConfigError(
            f"{_KEY}.reporting: {settings.reporting} gives marginal factors, which no footprint is made of; "
            f"name it in {_KEY}.beside"
        )
    build = {
        name: known.build(name, settings.providers.get(name, {}), f"{_KEY}.providers.{name}", clock, state_dir)
        for name in dict.fromkeys((settings.reporting, *settings.beside))
    }
    fallback = static.StaticProvider(static.shipped_table())
    if settings.reporting == static.NAME:
        _check_zones(fallback, zones or {})
    _check_live_zones(build[settings.reporting], zones or {})
    beside = [build[name] for name in settings.beside if name != settings.reporting]
    return Chooser(build[settings.reporting], fallback, settings, clock, beside=beside, report=report)
