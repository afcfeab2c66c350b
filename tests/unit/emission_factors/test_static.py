"""The shipped table, and what is made of it."""

from datetime import UTC, datetime

import pytest

from kwhere.core.errors import ConfigError
from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Basis, Quality, Scope, System
from kwhere.emission_factors.static import StaticProvider, parse_table, shipped_table

TODAY = Span(datetime(2026, 11, 29, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("zone", "grams", "year"),
    [
        pytest.param("FR", 44.18, 2024, id="case_energy_e1"),  # not the world's 473
        ("FRA", 44.18, 2024),
        ("fr", 44.18, 2024),
        (" De ", 344.14, 2024),
        ("GBR", 210.89, 2024),
        ("US", 383.55, 2024),
        ("PL", 614.98, 2024),
        ("NO", 30.75, 2024),
        ("SWE", 35.82, 2024),
        ("IN", 708.32, 2024),
        ("CHN", 559.55, 2024),
        ("TR", 469.7, 2024),
        ("UA", 256.21, 2022),
        ("WORLD", 473.05, 2024),
    ],
)
def test_a_country_has_its_own_figure_with_year_source_and_licence(zone: str, grams: float, year: int) -> None:
    (factor,) = StaticProvider(shipped_table()).factors(zone, TODAY)

    assert factor.grams_per_kwh == grams
    assert (factor.basis, factor.scope, factor.system, factor.quality) == (
        Basis.AVERAGE,
        Scope.LIFECYCLE,
        System.PRODUCTION,
        Quality.STATIC,
    )
    assert factor.span.start <= TODAY.start
    assert factor.span.end >= TODAY.end
    assert f" {year}; CC BY 4.0" in factor.source
    assert "Ember" in factor.source
    assert factor.provider == "static"


@pytest.mark.parametrize(
    "zone",
    [
        pytest.param("XX", id="case_energy_e2"),
        pytest.param("", id="case_energy_e2-empty"),
        pytest.param("France", id="case_energy_e2-name"),
        pytest.param("EU", id="case_energy_e2-region"),
        pytest.param("world mean", id="case_energy_e2-almost-world"),
        pytest.param("CF", id="case_energy_e2-left-out"),
    ],
)
def test_an_unknown_country_is_an_error_that_names_what_there_is(zone: str) -> None:
    with pytest.raises(ConfigError, match=r"zone: expected .* WORLD .*AD|zone: expected .*known: .*FR.*US") as caught:
        StaticProvider(shipped_table()).factors(zone, TODAY)

    assert repr(zone) in str(caught.value)


def test_the_table_is_whole() -> None:
    table = shipped_table()
    countries = [country for country in table.countries if country.iso2]

    assert len(countries) == 208
    assert len({country.iso2 for country in countries}) == len({country.iso3 for country in countries}) == 208
    assert all(len(country.iso2) == 2 and len(country.iso3) == 3 for country in countries)
    assert all(10 < country.grams_per_kwh < 1500 for country in countries)
    assert all(2022 <= country.year <= 2024 for country in countries)
    assert table.licence.startswith("CC BY 4.0")


def test_zones_can_be_chosen_from() -> None:
    zones = StaticProvider(shipped_table()).zones()

    assert (zones["FR"], zones["WORLD"]) == ("France", "World")


def test_a_table_says_where_it_is_from() -> None:
    text = (
        "# source: S, https://s\n# licence: L\n# retrieved: 2026-01-02\n"
        "iso3,iso2,name,year,grams_per_kwh\nAAA,AA,A,2020,1.5\n"
    )

    table = parse_table(text)

    assert (table.source, table.licence, table.retrieved) == ("S, https://s", "L", datetime(2026, 1, 2, tzinfo=UTC))
    assert table.find("aaa").grams_per_kwh == 1.5
