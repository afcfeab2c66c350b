"""Each provider's own shapes and traps, with figures worked out by hand."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.emission_services import (
    NOON,
    SECRET,
    TOKEN,
    Asked,
    HandClock,
    Route,
    Said,
    Service,
    electricity_maps_route,
    rte_route,
    said,
    serving,
    text,
    watttime_route,
)

from kwhere.core.errors import ConfigError, NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.choose import build_chooser
from kwhere.emission_factors.electricity_maps import read_zones
from kwhere.emission_factors.provider import Basis, EmissionFactorProvider, Factor, Quality, Scope, System
from kwhere.emission_factors.registry import find_providers
from kwhere.emission_factors.settings import EmissionFactorSettings

HOUR = timedelta(hours=1)
LAST_HOURS = Span(NOON - 3 * HOUR, NOON + HOUR)
KEYED = {"electricity_maps": {}, "watttime": {"username": "site"}, "watttime_average": {"username": "site"}}


@contextmanager
def provided(
    name: str, route: Route | Callable[[HandClock], Route], tmp_path: Path, **settings: object
) -> Iterator[tuple[EmissionFactorProvider, Service, HandClock]]:
    """Yield a provider of `name`, without its cache, before a service that answers by `route`."""
    clock = HandClock()
    key = tmp_path / "key"
    key.write_text(SECRET)
    keyed = {"secret_file": key, **KEYED[name]} if name in KEYED else {}
    with serving(lambda asked: Said(b""), clock) as service:
        made = route(clock) if settings.pop("makes_route", False) else route  # type: ignore[arg-type]
        service.route = made  # type: ignore[assignment]
        plugin = find_providers(()).plugins[name]
        chosen = plugin.settings_class.model_validate({"url": service.url, **keyed, **settings})
        yield plugin.build(chosen, clock), service, clock


def always(document: object) -> Route:
    return lambda asked: said(document)


def told(factors: Sequence[Factor]) -> list[tuple[str, float, str]]:
    return [(f"{factor.span.start:%H:%M}", factor.grams_per_kwh, str(factor.quality)) for factor in factors]


# RTE


def test_rte_is_asked_as_its_service_wants_it(tmp_path: Path) -> None:
    with provided("rte", rte_route, tmp_path, makes_route=True) as (provider, service, _):
        factors = provider.factors("FR", Span(NOON - HOUR, NOON + HOUR))

    (asked,) = service.asked
    assert asked.path == "/api/explore/v2.1/catalog/datasets/eco2mix-national-tr/records"
    assert asked.query["select"] == "taux_co2,date_heure"
    assert asked.query["timezone"] == "UTC"
    assert "taux_co2 is not null" in asked.query["where"]
    assert asked.query["order_by"] == "date_heure desc"
    # Half an hour late: the quarter that began at 11:30 is the last, and 20 + 11 (cut to an integer) its figure.
    assert told(factors) == [(at, 31.0, "measured") for at in ("11:00", "11:15", "11:30")]
    assert (factors[0].scope, factors[0].system) == (Scope.DIRECT, System.PRODUCTION)


def test_rte_rows_of_the_future_are_null_and_others_may_be_no_integers(tmp_path: Path) -> None:
    rows = [
        {"taux_co2": None, "date_heure": "2026-11-29T12:15:00+00:00"},
        {"taux_co2": 17.5, "date_heure": "2026-11-29T12:00:00+00:00"},
        {"taux_co2": "18", "date_heure": "2026-11-29T12:45:00+01:00"},
        {"date_heure": "2026-11-29T11:30:00+00:00"},
        {"taux_co2": 99, "date_heure": "2026-11-29T11:15:00"},
        {"taux_co2": 16, "date_heure": "2026-11-29T12:45:00+00:00"},
        "nonsense",
    ]
    with provided("rte", always({"total_count": 7, "results": rows}), tmp_path) as (provider, _, _clock):
        factors = provider.factors("FR", LAST_HOURS)

    assert told(factors) == [("11:45", 18.0, "measured"), ("12:00", 17.5, "measured")]


def test_rte_just_after_midnight_has_nothing_and_that_is_no_zero(tmp_path: Path) -> None:
    with (
        provided("rte", always({"total_count": 0, "results": []}), tmp_path) as (provider, _, _clock),
        pytest.raises(NoData, match="no rows"),
    ):
        provider.factors("FR", LAST_HOURS)


def test_case_energy_e6_all_null_is_no_figure(tmp_path: Path) -> None:
    rows = [{"taux_co2": None, "date_heure": "2026-11-29T12:00:00+00:00"}]
    with (
        provided("rte", always({"results": rows}), tmp_path) as (provider, _, _clock),
        pytest.raises(NoData, match="none of 1 rows"),
    ):
        provider.factors("FR", LAST_HOURS)


@pytest.mark.parametrize("zone", ["DE", "fr", "FR-IDF", ""])
def test_rte_is_france_alone(tmp_path: Path, zone: str) -> None:
    with (
        provided("rte", always({}), tmp_path) as (provider, service, _),
        pytest.raises(ConfigError, match="the only one"),
    ):
        provider.factors(zone, LAST_HOURS)
    assert not service.asked


# NESO


def half_hour(start: str, end: str, **intensity: object) -> dict[str, object]:
    return {"from": f"2026-11-29T{start}Z", "to": f"2026-11-29T{end}Z", "intensity": intensity}


def test_case_energy_e8_a_slot_without_an_actual_value_has_its_forecast_and_says_so(tmp_path: Path) -> None:
    slots = [
        half_hour("11:00", "11:30", forecast=266, actual=263, index="moderate"),
        half_hour("11:30", "12:00", forecast=250, actual=0, index="very low"),
        half_hour("12:00", "12:30", forecast=240, actual=None, index="moderate"),
        half_hour("12:30", "13:00", forecast=230, actual=None, index="moderate"),
        half_hour("10:30", "11:00", forecast=None, actual=None, index="moderate"),
        {"from": "2026-11-29T10:00Z", "to": "2026-11-29T10:30Z", "intensity": None},
        {"from": "2026-11-29T09:30Z", "to": "2026-11-29T09:30Z", "intensity": {"actual": 5}},
    ]
    with provided("neso", always({"data": slots}), tmp_path) as (provider, service, _):
        factors = provider.factors("GB", LAST_HOURS)

    # 0 is what was measured; null is not 0; the slot that has not begun is no figure yet.
    assert told(factors) == [("11:00", 263.0, "measured"), ("11:30", 0.0, "measured"), ("12:00", 240.0, "forecast")]
    assert service.asked[0].path == "/intensity/2026-11-29T09:00Z/2026-11-29T13:00Z"


@pytest.mark.parametrize(
    ("zone", "end"), [("GB-13", "/regionid/13"), ("GB-RG10", "/postcode/RG10"), ("gb-sw1a", "/postcode/SW1A")]
)
@pytest.mark.parametrize("as_list", [True, False])
def test_neso_nests_regions_and_gives_them_forecasts_alone(tmp_path: Path, zone: str, end: str, as_list: bool) -> None:
    region = {"regionid": 13, "shortname": "London", "data": [half_hour("12:00", "12:30", forecast=90, index="low")]}
    with provided("neso", always({"data": [region] if as_list else region}), tmp_path) as (provider, service, _):
        factors = provider.factors(zone, LAST_HOURS)

    assert told(factors) == [("12:00", 90.0, "forecast")]
    assert service.asked[0].path == f"/regional/intensity/2026-11-29T09:00Z/2026-11-29T13:00Z{end}"


@pytest.mark.parametrize("zone", ["GB-0", "GB-18", "GB-RG10 1AA", "GB-../x", "UK", "FR", ""])
def test_neso_knows_its_zones(tmp_path: Path, zone: str) -> None:
    with (
        provided("neso", always({}), tmp_path) as (provider, service, _),
        pytest.raises(ConfigError, match="GB-1 … GB-17"),
    ):
        provider.factors(zone, LAST_HOURS)
    assert not service.asked


def test_case_energy_e4_an_error_that_neso_sends_is_read(tmp_path: Path) -> None:
    document = {"error": {"code": "400 Bad Request", "message": "Please enter a valid date in ISO8601 format"}}
    with (
        provided("neso", always(document), tmp_path) as (provider, _, _clock),
        pytest.raises(SourceError, match="valid date"),
    ):
        provider.factors("GB", LAST_HOURS)


# Electricity Maps


def test_electricity_maps_history_and_the_hour_that_runs(tmp_path: Path) -> None:
    with provided("electricity_maps", electricity_maps_route, tmp_path, makes_route=True) as (provider, service, _):
        factors = provider.factors("FR", LAST_HOURS)

    assert [asked.path for asked in service.asked] == ["/v3/carbon-intensity/history", "/v3/carbon-intensity/latest"]
    assert service.asked[0].headers["auth-token"] == SECRET
    assert service.asked[0].query == {"zone": "FR", "emissionFactorType": "lifecycle"}
    # 09:00 and 10:00 are measured; later ones are estimates, and say so.
    assert told(factors) == [
        ("09:00", 29.0, "measured"),
        ("10:00", 30.0, "measured"),
        ("11:00", 31.0, "estimated"),
        ("12:00", 32.0, "estimated"),
    ]
    assert factors[0].published_at == NOON - 3 * HOUR + timedelta(minutes=41)


@pytest.mark.parametrize(
    ("refused", "hours"), [("latest", ["09:00", "10:00", "11:00"]), ("history", ["12:00"]), ("neither", ["09:00"])]
)
def test_electricity_maps_plans_with_half_of_it(tmp_path: Path, refused: str, hours: list[str]) -> None:
    with provided("electricity_maps", electricity_maps_route, tmp_path, makes_route=True) as (provider, service, _):
        good = service.route
        service.route = lambda asked: said({"error": "plan"}, 403) if asked.path.endswith(refused) else good(asked)
        factors = provider.factors("FR", LAST_HOURS)

    assert [at for at, _, _ in told(factors)][: len(hours)] == hours


def test_electricity_maps_null_other_scope_and_no_integer(tmp_path: Path) -> None:
    def item(hour: int, value: object, **more: object) -> dict[str, object]:
        return {"carbonIntensity": value, "datetime": f"2026-11-29T{hour:02}:00:00.000Z", **more}

    items = [
        item(9, 67.25, isEstimated=False),
        item(10, None, isEstimated=False),
        item(11, 50, isEstimated=False, emissionFactorType="direct"),
        item(12, 60, emissionFactorType=None),
        item(13, 1, isEstimated=False),
    ]
    with provided("electricity_maps", always({"zone": "FR", "history": items}), tmp_path) as (provider, _, _clock):
        factors = provider.factors("FR", Span(NOON - 3 * HOUR, NOON + 3 * HOUR))

    assert told(factors) == [("09:00", 67.25, "measured"), ("12:00", 60.0, "estimated")]


def said_of(zone: object) -> dict[str, object]:
    return {"zone": zone, "history": [{"carbonIntensity": 400, "datetime": "2026-11-29T11:00:00.000Z"}]}


@pytest.mark.parametrize("said", ["DE", "FR-COR", ""])
def test_case_energy_e1_electricity_maps_of_another_zone_is_refused(tmp_path: Path, said: str) -> None:
    with (
        provided("electricity_maps", always(said_of(said)), tmp_path) as (provider, _, _clock),
        pytest.raises(SourceError, match=f"expected figures of zone FR, found {said!r}"),
    ):
        provider.factors("FR", LAST_HOURS)


@pytest.mark.parametrize("said", ["FR", "fr", None, 7])
def test_case_energy_e1_electricity_maps_of_the_zone_or_of_none_named(tmp_path: Path, said: object) -> None:
    with provided("electricity_maps", always(said_of(said)), tmp_path) as (provider, _, _clock):
        assert [(factor.zone, factor.grams_per_kwh) for factor in provider.factors("FR", LAST_HOURS)] == [("FR", 400)]


def test_electricity_maps_of_another_sort(tmp_path: Path) -> None:
    settings = {"version": "v4", "scope": "direct", "system": "production", "granularity": "15_minutes"}
    items = [{"carbonIntensity": 9, "datetime": "2026-11-29T11:45:00Z", "isEstimated": False}]
    with provided("electricity_maps", always({"zone": "FR", "data": items}), tmp_path, **settings, estimates=False) as (
        provider,
        service,
        _,
    ):
        (factor,) = provider.factors("FR", LAST_HOURS)

    assert service.asked[0].path == "/v4/carbon-intensity/history"
    assert service.asked[0].query == {
        "zone": "FR",
        "emissionFactorType": "direct",
        "temporalGranularity": "15_minutes",
        "disableEstimations": "true",
        "flowTraced": "false",
    }
    assert (factor.scope, factor.system, factor.span.seconds) == (Scope.DIRECT, System.PRODUCTION, 900)


def test_case_energy_e12_zones_with_lists_are_read(tmp_path: Path) -> None:
    document = {
        "FR": {"zoneName": "France", "access": ["*"]},
        "US-CAL-CISO": {"countryName": "USA", "zoneName": "California ISO", "access": ["carbon-intensity/latest"]},
        "XX": {"zoneName": None, "tier": 3},
        "odd": ["list"],
    }

    assert read_zones(document, "p") == {"FR": "France", "US-CAL-CISO": "USA, California ISO", "XX": "XX"}


@pytest.mark.parametrize("status", [403, 404])
def test_case_energy_e12_a_zone_outside_the_plan_names_those_inside(tmp_path: Path, status: int) -> None:
    def route(asked: Asked) -> Said:
        if asked.path == "/v3/zones":
            return said({"DE": {"zoneName": "Germany", "access": ["*"]}})
        return said({"status": "error", "message": "Zone not in plan"}, status)

    with (
        provided("electricity_maps", route, tmp_path) as (provider, _, _clock),
        pytest.raises(Unavailable, match="Zone not in plan; zones of this key: DE") as refusal,
    ):
        provider.factors("FR", LAST_HOURS)
    assert refusal.value.reason == "zone"


def test_version_three_cannot_leave_flows_untraced() -> None:
    settings = {"secret_environment": "KEY", "system": "production"}

    with pytest.raises(ConfigError, match="needs version v4"):
        find_providers(()).build("electricity_maps", settings, "key", HandClock())


@pytest.mark.parametrize(
    "settings", [{}, {"secret_file": "/x", "secret_environment": "KEY"}, {"secret_environment": "not a name"}]
)
def test_a_key_is_in_one_place(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"^key\.(secret_environment)?: |^key: |^key\."):
        find_providers(()).build("electricity_maps", settings, "key", HandClock())


# WattTime


def moer(value: object, units: object = "lbs_co2_per_mwh", **meta: object) -> Route:
    points = [{"point_time": "2026-11-29T11:00:00+00:00", "value": value, "version": "2026-03-01"}]
    document = {"data": points, "meta": {"signal_type": "co2_moer", "units": units, **meta}}
    return lambda asked: said({"token": TOKEN}) if asked.path == "/login" else said(document)


def test_case_energy_e10_pounds_per_megawatt_hour_become_grams_and_stay_marginal(tmp_path: Path) -> None:
    with provided("watttime", moer(900), tmp_path) as (provider, _, _clock):
        (factor,) = provider.factors("CAISO_NORTH", LAST_HOURS)

    # 900 lb/MWh × 0.45359237 kg/lb = 408.233133 kg/MWh = g/kWh.
    assert factor.grams_per_kwh == pytest.approx(408.233133)
    assert (factor.basis, factor.span.seconds) == (Basis.MARGINAL, 300)


@pytest.mark.parametrize(
    ("units", "words"), [(None, "found 'None'"), ("lbs_nox_per_mwh", "lbs_nox"), ("percentile", "percentile")]
)
def test_case_energy_e10_another_unit_is_refused_not_guessed(tmp_path: Path, units: object, words: str) -> None:
    with (
        provided("watttime", moer(900, units), tmp_path) as (provider, _, _clock),
        pytest.raises(SourceError, match=words),
    ):
        provider.factors("CAISO_NORTH", LAST_HOURS)


def test_case_energy_e10_another_signal_is_refused(tmp_path: Path) -> None:
    with (
        provided("watttime", moer(900, signal_type="co2_aoer"), tmp_path) as (provider, _, _clock),
        pytest.raises(SourceError, match="co2_aoer"),
    ):
        provider.factors("CAISO_NORTH", LAST_HOURS)


def test_case_energy_e10_a_marginal_provider_never_reports() -> None:
    settings = EmissionFactorSettings(
        reporting="watttime", providers={"watttime": {"username": "site", "secret_environment": "KEY"}}
    )

    with pytest.raises(ConfigError, match="marginal factors, which no footprint is made of"):
        build_chooser(settings, HandClock())


@pytest.mark.parametrize("status", [401, 403])
def test_watttime_renews_its_token_once_then_stops(tmp_path: Path, status: int) -> None:
    def old(clock: HandClock) -> Route:
        return watttime_route(clock, "co2_moer")

    with provided("watttime", old, tmp_path, makes_route=True) as (provider, service, clock):
        assert provider.factors("CAISO_NORTH", LAST_HOURS)
        assert provider.factors("CAISO_NORTH", LAST_HOURS)
        assert [asked.path for asked in service.asked] == ["/login", "/v3/historical", "/v3/historical"]

        service.asked.clear()
        good, refusals = service.route, iter([True, False])

        def expired_once(asked: Asked) -> Said:
            if asked.path != "/login" and next(refusals):
                return said({"error": "expired"}, status)
            return good(asked)

        service.route = expired_once
        assert provider.factors("CAISO_NORTH", LAST_HOURS)
        assert [asked.path for asked in service.asked] == ["/v3/historical", "/login", "/v3/historical"]

        service.asked.clear()
        service.route = lambda asked: good(asked) if asked.path == "/login" else said({"error": "no"}, status)
        with pytest.raises(Unavailable) as refusal:
            provider.factors("CAISO_NORTH", LAST_HOURS)
        assert refusal.value.reason == {401: "denied", 403: "zone"}[status]
        assert [asked.path for asked in service.asked] == ["/v3/historical", "/login", "/v3/historical"]
        assert clock.now == NOON


def test_case_energy_e9_watttime_is_asked_in_true_utc(tmp_path: Path) -> None:
    start = datetime.fromisoformat("2026-11-29T16:00:00+07:00")
    with provided("watttime", moer(900), tmp_path) as (provider, service, _):
        provider.factors("CAISO_NORTH", Span(start, start + 4 * HOUR))

    query = service.asked[-1].query
    assert (query["start"], query["end"]) == ("2026-11-29T09:00:00Z", "2026-11-29T13:00:00Z")
    assert (query["region"], query["signal_type"]) == ("CAISO_NORTH", "co2_moer")


# The site's own file


def contract(tmp_path: Path, content: str, name: str = "contract.csv", **settings: object) -> EmissionFactorProvider:
    path = tmp_path / name
    path.write_text(content)
    plugin = find_providers(()).plugins["file"]
    chosen = plugin.settings_class.model_validate({"path": path, "citation": "Contract 2026", **settings})
    return plugin.build(chosen, HandClock())


def test_a_file_speaks_for_its_zone_in_its_own_words_and_unit(tmp_path: Path) -> None:
    provider = contract(
        tmp_path,
        "# from the supplier\nfrom;region;t\n2026-11-29T10:00:00Z;A;0.05\n2026-11-29T11:00:00Z;A;0.06\n"
        "2026-11-29T10:00:00Z;B;0.9\n2026-11-29T12:00:00Z;A;0.07\n",
        unit="t/MWh",
        columns={"start": "from", "zone": "region", "grams_per_kwh": "t"},
        zones={"basement": "A"},
        quality="measured",
    )

    factors = provider.factors("basement", Span(NOON - HOUR, NOON + 5 * HOUR))

    # The last row lasts as long as the one before it.
    assert [(f"{f.span.start:%H:%M}", f"{f.span.end:%H:%M}", round(f.grams_per_kwh, 9)) for f in factors] == [
        ("11:00", "12:00", 60.0),
        ("12:00", "13:00", 70.0),
    ]
    assert {(f.zone, f.source, f.quality) for f in factors} == {("A", "Contract 2026", Quality.MEASURED)}


def test_a_file_of_json_deep_within(tmp_path: Path) -> None:
    row = {
        "start": "2026-01-01T00:00Z",
        "end": "2027-01-01T00:00Z",
        "grams_per_kwh": 12.5,
        "published_at": "2025-12-01T00:00Z",
    }
    provider = contract(tmp_path, json.dumps({"a": {"rows": [row]}}), "x.json", rows_at="a.rows")

    (factor,) = provider.factors("FR", LAST_HOURS)

    assert factor.grams_per_kwh == 12.5
    assert f"{factor.published_at:%Y-%m-%d}" == "2025-12-01"


def test_local_times_need_a_zone_and_summer_time_is_summer_time(tmp_path: Path) -> None:
    content = "start,grams_per_kwh\n2026-07-01 00:00,10\n2026-12-01 00:00,20\n"
    with pytest.raises(SourceError, match=r"line 2: start: .* has no offset"):
        contract(tmp_path, content).factors("FR", LAST_HOURS)

    first, _ = contract(tmp_path, content, time_zone="Europe/Paris").factors(
        "FR", Span(NOON - 200 * 24 * HOUR, NOON + 10 * 24 * HOUR)
    )

    # Two hours ahead of UTC in July, one in December.
    assert (text(first.span.start), text(first.span.end)) == ("2026-06-30T22:00:00Z", "2026-11-30T23:00:00Z")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("2026-10-25 02:30", "comes twice"),
        ("2026-03-29 02:30", "is skipped"),
        ("noon", "expected a time"),
        ("", "expected start, found none"),
        ("1850-01-01 00:00", "between 1990 and 2100"),
    ],
)
def test_a_time_that_nobody_can_guess_is_an_error_with_its_line(tmp_path: Path, cell: str, words: str) -> None:
    content = f"start,end,grams_per_kwh\n2026-01-01 00:00,2026-01-02 00:00,1\n{cell},2026-12-31 00:00,5\n"

    with pytest.raises(SourceError, match=f"line 3.*{words}"):
        contract(tmp_path, content, time_zone="Europe/Paris").factors("FR", LAST_HOURS)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("2026-11-29T00:00Z,,12", "line 2: needs an end"),
        ("2026-11-29T00:00Z,2026-11-28T00:00Z,12", "line 2: ends at"),
        ("2026-11-29T00:00Z,2026-11-30T00:00Z,x", "line 2: grams_per_kwh: expected a number"),
        ("2026-11-29T00:00Z,2026-11-30T00:00Z,-1", "line 2: grams_per_kwh: expected a number"),
        ("2026-11-29T00:00Z,2026-11-30T00:00Z", "line 2: expected 3 cells, found 2"),
        ("2026-11-29T00:00Z,2026-11-30T00:00Z,1\n2026-11-29T12:00Z,2026-12-01T00:00Z,2", "line 3: begins at .* line 2"),
    ],
)
def test_a_bad_row_names_its_line(tmp_path: Path, rows: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        contract(tmp_path, f"start,end,grams_per_kwh\n{rows}\n").factors("FR", LAST_HOURS)


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "expected a line with names"), ("a,b\n1,2\n", "expected a column start"), ("[1]", "row 1"), ("{", "JSON")],
)
def test_a_file_of_something_else_is_an_error(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        contract(tmp_path, content, "factors").factors("FR", LAST_HOURS)


def test_a_file_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    provider = contract(tmp_path, "")
    (tmp_path / "contract.csv").unlink()

    with pytest.raises(Unavailable, match=r"contract\.csv: No such file"):
        provider.factors("FR", LAST_HOURS)


def test_a_file_shows_its_token_to_its_server_and_to_nobody_else(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET)

    def route(asked: Asked) -> Said:
        if asked.headers.get("authorization") != f"Bearer {SECRET}":
            return said({"error": f"not {asked.headers.get('authorization')}"}, 401)
        return Said(b"start,end,grams_per_kwh\n2026-11-29T00:00Z,2026-11-30T00:00Z,9\n")

    settings = {"citation": "C", "http": {"token_file": str(token)}}
    with serving(route, HandClock()) as service:
        url = f"{service.url}/a.csv?area=7"
        provider = find_providers(()).build("file", {**settings, "url": url}, "key", HandClock())
        assert told(provider.factors("FR", LAST_HOURS)) == [("00:00", 9.0, "estimated")]
        assert (service.asked[0].path, service.asked[0].query) == ("/a.csv", {"area": "7"})

        token.write_text("other-token")
        again = find_providers(()).build("file", {**settings, "url": url}, "key", HandClock())
        with pytest.raises(Unavailable, match="not Bearer …") as refusal:
            again.factors("FR", LAST_HOURS)
    assert refusal.value.reason == "denied"


def test_what_a_file_no_longer_says_is_no_longer_so(tmp_path: Path) -> None:
    path, clock = tmp_path / "c.csv", HandClock()
    path.write_text("start,grams_per_kwh\n2026-11-29T10:00Z,1\n2026-11-29T11:00Z,2\n2026-11-29T12:00Z,3\n")
    provider = find_providers(()).build("file", {"citation": "C", "path": path}, "key", clock, tmp_path / "state")
    assert isinstance(provider, CachedProvider)
    assert [grams for _, grams, _ in told(provider.factors("FR", LAST_HOURS))] == [1, 2, 3]

    path.write_text("start,end,grams_per_kwh\n2026-11-29T10:00Z,2026-11-29T11:00Z,7\n")
    clock.ahead(minutes=16)

    assert [grams for _, grams, _ in told(provider.factors("FR", LAST_HOURS))] == [7]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "expected one of path and url"),
        ({"path": "/x", "url": "http://127.0.0.1/"}, "expected one of path and url"),
        ({"path": "/x", "time_zone": "Mars/Base"}, r"key\.time_zone: .*unknown time zone"),
        ({"path": "/x", "columns": {"grams": "g"}}, r"key\.columns: .*expected names among"),
        ({"path": "/x", "unit": "oz"}, r"key\.unit"),
    ],
)
def test_a_wrong_setting_of_a_file_is_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        find_providers(()).build("file", {"citation": "C", **settings}, "key", HandClock())


# Which factor, of which country


def test_case_energy_e1_france_is_frances_and_says_of_whom(tmp_path: Path) -> None:
    """A failing live provider of France is answered for by France's mean, labelled, never by another mean."""
    clock = HandClock()
    with serving(lambda asked: Said(b"", 500), clock) as service:
        settings = EmissionFactorSettings(reporting="rte", providers={"rte": {"url": service.url}}, world_fallback=True)
        chooser = build_chooser(settings, clock, zones={"site.zone": "FR"}, state_dir=tmp_path)

        (factor,) = chooser.factors("FR", LAST_HOURS)

    assert (factor.grams_per_kwh, factor.zone, factor.quality) == (44.18, "FR", Quality.STATIC)
    assert "France" in factor.source


def test_case_energy_e2_a_zone_of_another_country_is_found_at_the_start() -> None:
    settings = EmissionFactorSettings(reporting="rte")

    with pytest.raises(ConfigError, match=r"^site\.cluster_zones\.bonn: expected FR, the only one of provider rte"):
        build_chooser(settings, HandClock(), zones={"site.zone": "FR", "site.cluster_zones.bonn": "DE"})


def test_a_provider_beside_is_asked_only_about_its_own_zones() -> None:
    settings = EmissionFactorSettings(beside=("rte", "neso"))
    chooser = build_chooser(settings, HandClock(), zones={"site.zone": "GB"})

    assert [provider.name for provider in chooser.beside_of("GB")] == ["neso"]
    assert [provider.name for provider in chooser.beside_of("FR")] == ["rte"]
    assert chooser.refresh_seconds == 900
