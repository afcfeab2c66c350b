"""Fallbacks, in their order, with every change of quality told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.emission_services import HandClock

from kwhere.core.clock import SystemClock
from kwhere.core.errors import ConfigError, NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.choose import Chooser, QualityChange, build_chooser, country_of, without_asking
from kwhere.emission_factors.plugin import ProviderPlugin, ProviderSettings
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.registry import Providers, find_providers
from kwhere.emission_factors.settings import EmissionFactorSettings
from kwhere.emission_factors.static import StaticProvider, shipped_table

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
FRANCE = 44.18


def hours(start: float, end: float) -> Span:
    return Span(NOON + timedelta(hours=start), NOON + timedelta(hours=end))


def live(start: float, end: float, grams: float, quality: Quality = Quality.MEASURED) -> Factor:
    return Factor(
        "live", "FR", hours(start, end), grams, NOON, Basis.AVERAGE, Scope.DIRECT, System.CONSUMPTION, quality, "L"
    )


class Live:
    """A live provider that a test scripts."""

    name = "live"
    refresh_seconds = 300.0

    def __init__(self) -> None:
        self.answer: Sequence[Factor] | Exception = ()

    def factors(self, zone: str, span: Span) -> Sequence[Factor]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def chooser(provider: Live, **settings: object) -> tuple[Chooser, list[QualityChange]]:
    changes: list[QualityChange] = []
    fallback = StaticProvider(shipped_table())
    chosen = EmissionFactorSettings.model_validate({"reporting": "live", **settings})
    # A day later: what is newest is what is told.
    clock = HandClock(NOON + timedelta(days=1))
    return Chooser(provider, fallback, chosen, clock, report=changes.append), changes


def grams(factors: Sequence[Factor]) -> list[tuple[float, float, float]]:
    """Return start and end in hours from noon, and grams."""
    return [
        (
            (f.span.start - NOON).total_seconds() / 3600,
            (f.span.end - NOON).total_seconds() / 3600,
            f.grams_per_kwh,
        )
        for f in factors
    ]


def test_a_live_figure_is_in_force_while_there_is_one() -> None:
    provider = Live()
    provider.answer = [live(0, 0.5, 20), live(0.5, 1, 30)]
    choose, changes = chooser(provider)

    assert grams(choose.factors("FR", hours(0, 1))) == [(0, 0.5, 20), (0.5, 1, 30)]
    assert changes == [QualityChange("FR", None, "live FR measured", "")]


@pytest.mark.parametrize("error", [Unavailable("timeout", "no answer"), SourceError("html"), NoData("later")])
def test_the_last_good_figure_stands_in_for_some_hours_then_the_countrys(error: Exception) -> None:
    provider = Live()
    provider.answer = [live(0, 1, 20)]
    choose, changes = chooser(provider, last_good_hours=2)
    choose.factors("FR", hours(0, 1))

    provider.answer = error
    found = choose.factors("FR", hours(1, 5))

    # The country's reaches to midnight, so that it is the same when the next question ends later.
    assert grams(found) == [(1, 3, 20), (3, 12, FRANCE)]
    assert [factor.quality for factor in found] == [Quality.ESTIMATED, Quality.STATIC]
    assert "last good, of 2026-11-29 12:00 UTC" in found[0].source
    assert [change.after for change in changes] == ["live FR measured", "static FR static"]
    assert changes[-1].reason == str(error)


def test_a_gap_within_live_figures_is_filled_and_nothing_overlaps() -> None:
    provider = Live()
    provider.answer = [live(1, 2, 20), live(3, 4, 30)]
    choose, _ = chooser(provider)

    assert grams(choose.factors("FR", hours(0, 5))) == [
        (-12, 1, FRANCE),
        (1, 2, 20),
        (2, 3, FRANCE),
        (3, 4, 30),
        (4, 10, 30),
    ]


def test_without_any_live_figure_the_countrys_one_is_given_whole() -> None:
    choose, _ = chooser(Live())

    (factor,) = choose.factors("FR", hours(0, 1))

    assert factor == StaticProvider(shipped_table()).factors("FR", hours(0, 1))[0]


def test_a_forecast_is_never_the_last_good_figure() -> None:
    provider = Live()
    provider.answer = [live(0, 1, 20, Quality.FORECAST)]
    choose, _ = chooser(provider)
    choose.factors("FR", hours(0, 1))

    provider.answer = ()

    assert [f.provider for f in choose.factors("FR", hours(1, 2))] == ["static"]


def test_the_world_stands_in_only_where_it_is_allowed() -> None:
    choose, _ = chooser(Live())
    with pytest.raises(ConfigError, match="'ZZ'"):
        choose.factors("ZZ", hours(0, 1))

    choose, changes = chooser(Live(), world_fallback=True)
    assert choose.factors("ZZ", hours(0, 1))[0].zone == "WORLD"
    assert changes[0].after == "static WORLD static"


def test_a_failing_provider_of_an_unknown_country_is_unavailable() -> None:
    provider = Live()
    provider.answer = Unavailable("timeout", "no answer")
    choose, _ = chooser(provider)

    with pytest.raises(Unavailable, match=r"no answer; and zone"):
        choose.factors("ZZ", hours(0, 1))


def test_recovery_is_told_too() -> None:
    provider = Live()
    choose, changes = chooser(provider, last_good_hours=0)
    choose.factors("FR", hours(0, 1))
    choose.factors("FR", hours(1, 2))
    provider.answer = [live(2, 3, 20)]
    choose.factors("FR", hours(2, 3))

    assert [(change.before, change.after) for change in changes] == [
        (None, "static FR static"),
        ("static FR static", "live FR measured"),
    ]


@pytest.mark.parametrize(
    ("zone", "country"), [("US-CAL-CISO", "US"), ("DE_LU", "DE"), ("FR", "FR"), ("WORLD", "WORLD")]
)
def test_a_zone_lies_in_a_country(zone: str, country: str) -> None:
    assert country_of(zone) == country


def test_the_default_is_the_country_table() -> None:
    choose = build_chooser(EmissionFactorSettings(), SystemClock(), zones={"site.zone": "FR"})

    assert choose.factors("FR", hours(0, 1))[0].grams_per_kwh == FRANCE
    assert choose.refresh_seconds == 86400


def test_a_fixed_figure_carries_its_citation_and_every_zone() -> None:
    settings = EmissionFactorSettings.model_validate(
        {
            "reporting": "fixed",
            "beside": ["static"],
            "providers": {"fixed": {"grams_per_kwh": 12.5, "citation": "Contract 2026", "published": "2026-01-01"}},
        }
    )
    choose = build_chooser(settings, SystemClock())

    (factor,) = choose.factors("basement", hours(0, 1))

    assert (factor.grams_per_kwh, factor.source, factor.zone) == (12.5, "Contract 2026", "basement")
    assert factor.published_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert [provider.name for provider in choose.beside] == ["static"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reporting": "oracle"}, r"emission_factors\.reporting: expected one of electricity_maps, .*, found 'oracle'"),
        ({"beside": ["oracle"]}, r"emission_factors\.providers\.oracle: expected one of"),
        ({"providers": {"oracle": {}}}, r"emission_factors\.providers: expected one of"),
        ({"reporting": "fixed"}, r"emission_factors\.providers\.fixed\.grams_per_kwh: Field required"),
        (
            {"reporting": "fixed", "providers": {"fixed": {"grams_per_kwh": -1, "citation": "x"}}},
            r"emission_factors\.providers\.fixed\.grams_per_kwh: .*greater",
        ),
        (
            {"reporting": "fixed", "providers": {"fixed": {"grams_per_kwh": "nan", "citation": "x"}}},
            r"emission_factors\.providers\.fixed\.grams_per_kwh",
        ),
        (
            {"reporting": "fixed", "providers": {"fixed": {"grams_per_kwh": 1, "citation": "x", "grams": 1}}},
            r"emission_factors\.providers\.fixed\.grams: Extra",
        ),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build_chooser(EmissionFactorSettings.model_validate(settings), SystemClock())


def test_case_energy_e2_an_unknown_country_in_the_settings_is_named_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"^site\.cluster_zones\.lyon: expected a country"):
        build_chooser(EmissionFactorSettings(), SystemClock(), zones={"site.cluster_zones.lyon": "XX"})


def test_marginal_factors_are_never_the_reported_ones() -> None:
    found = find_providers()
    marginal = replace(found.plugins["static"], name="marginal", basis=Basis.MARGINAL)
    providers = Providers({**found.plugins, "marginal": marginal}, ())

    with pytest.raises(ConfigError, match="marginal"):
        build_chooser(EmissionFactorSettings(reporting="marginal"), SystemClock(), providers=providers)


class OutsidePoint:
    """An entry point of another distribution."""

    def __init__(self, name: str, loaded: object) -> None:
        self.name = name
        self.value = f"other:{name}"
        self._loaded = loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_outside_providers_are_found_and_broken_ones_refused() -> None:
    good = ProviderPlugin("good", "Good.", ProviderSettings, Basis.AVERAGE, lambda settings, clock: Live())
    points = [
        OutsidePoint("good", good),
        OutsidePoint("static", replace(good, name="static")),
        OutsidePoint("odd", 7),
        OutsidePoint("broken", ImportError("no module")),
    ]

    found = find_providers(points)  # type: ignore[arg-type]

    assert set(found.plugins) == {*find_providers(()).plugins, "good"}
    assert len(found.refused) == 3


@pytest.mark.parametrize("answer", [Unavailable("timeout", "no answer"), NoData("later"), ()])
def test_case_energy_e4_what_was_known_of_the_past_stays_when_the_provider_goes(
    answer: Sequence[Factor] | Exception,
) -> None:
    """Two days are asked for again and again: the hours that were measured do not become the country's mean."""
    provider = Live()
    provider.answer = [live(-48, 0, 20)]
    choose, _ = chooser(provider, last_good_hours=6)
    choose.factors("FR", hours(-48, 1))

    provider.answer = answer

    assert grams(choose.factors("FR", hours(-46, 3))) == [(-48, 0, 20), (0, 6, 20)]


def test_while_a_provider_is_away_the_same_factors_are_told_again() -> None:
    """Every factor that is news makes hours be derived anew."""
    provider = Live()
    provider.answer = [live(-48, -20, 20)]
    choose, _ = chooser(provider, last_good_hours=6)
    choose.factors("FR", hours(-48, 1))
    provider.answer = Unavailable("timeout", "no answer")

    first = choose.factors("FR", hours(-47, 2))

    assert choose.factors("FR", hours(-46.75, 2.25)) == first


def test_a_marginal_factor_among_the_reported_ones_is_refused() -> None:
    provider = Live()
    provider.answer = [replace(live(0, 1, 800), basis=Basis.MARGINAL)]
    choose, changes = chooser(provider)

    assert [factor.provider for factor in choose.factors("FR", hours(0, 1))] == ["static"]
    assert "never mixed" in changes[-1].reason


def test_whoever_is_no_server_asks_no_service() -> None:
    settings = EmissionFactorSettings(reporting="rte", beside=("neso",))

    assert without_asking(settings) == EmissionFactorSettings(reporting="static")
    assert without_asking(EmissionFactorSettings(reporting="fixed")).reporting == "fixed"
