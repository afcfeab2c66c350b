"""What every provider that asks a service does, whatever the service says: one suite over all of them."""

import gzip
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests import emission_services as services
from tests.emission_services import NOON, SECRET, TOKEN, HandClock, Route, Said, Service

from kwhere.core.errors import ConfigError, KwhereError, NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.cached import CachedProvider
from kwhere.emission_factors.choose import Chooser, QualityChange
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.registry import find_providers
from kwhere.emission_factors.settings import EmissionFactorSettings
from kwhere.emission_factors.static import StaticProvider, shipped_table

DOCS = Path(__file__).parents[2] / "docs" / "emission-factors.md"
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Kind:
    """A provider, the service it asks, and what its factors are."""

    name: str
    route: Callable[[HandClock], Route]
    zone: str
    basis: Basis
    scope: Scope
    system: System
    keyed: bool = False
    foreign_zone: str | None = None
    """One that it knows not to have."""
    forecasts: bool = False
    measures: bool = True
    """Whether it reports what was: not marginal, no forecasts alone, no file that speaks for the future too."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    path: str = ""
    """What its address ends with."""


KINDS = [
    Kind("rte", services.rte_route, "FR", Basis.AVERAGE, Scope.DIRECT, System.PRODUCTION, foreign_zone="DE"),
    *(
        Kind(
            "electricity_maps",
            services.electricity_maps_route,
            "FR",
            Basis.AVERAGE,
            Scope.LIFECYCLE,
            System.CONSUMPTION,
            keyed=True,
            forecasts=True,
            settings={"version": version},
            label=f"electricity_maps_{version}",
        )
        for version in ("v3", "v4")
    ),
    Kind(
        "neso",
        services.neso_route,
        "GB",
        Basis.AVERAGE,
        Scope.DIRECT,
        System.CONSUMPTION,
        foreign_zone="FR",
        forecasts=True,
    ),
    Kind(
        "neso",
        services.neso_route,
        "GB-RG10",
        Basis.AVERAGE,
        Scope.DIRECT,
        System.CONSUMPTION,
        foreign_zone="GB-18",
        forecasts=True,
        measures=False,
        label="neso_regional",
    ),
    *(
        Kind(
            name,
            lambda clock, signal=signal: services.watttime_route(clock, signal),  # type: ignore[misc]
            "CAISO_NORTH",
            basis,
            Scope.DIRECT,
            System.CONSUMPTION,
            keyed=True,
            forecasts=True,
            measures=basis is Basis.AVERAGE,
            settings={"username": "site"},
        )
        for name, signal, basis in (
            ("watttime", "co2_moer", Basis.MARGINAL),
            ("watttime_average", "co2_aoer", Basis.AVERAGE),
        )
    ),
    Kind(
        "entsoe",
        services.entsoe_route,
        "FR",
        Basis.AVERAGE,
        Scope.LIFECYCLE,
        System.PRODUCTION,
        keyed=True,
        foreign_zone="US",
        path="/api",
    ),
    Kind(
        "file",
        services.file_route,
        "FR",
        Basis.AVERAGE,
        Scope.LIFECYCLE,
        System.CONSUMPTION,
        measures=False,
        settings={"citation": "Contract 2026", "unit": "kg/MWh"},
        path="/factors.csv",
    ),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.label or kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


def only(wanted: Callable[[Kind], bool]) -> pytest.MarkDecorator:
    """Return the mark of a test for some kinds alone."""
    kinds = [kind for kind in KINDS if wanted(kind)]
    return pytest.mark.parametrize("kind", kinds, ids=[kind.label or kind.name for kind in kinds], indirect=True)


class World:
    """One service, its provider, a clock, a key on disk and a place for what is kept."""

    def __init__(self, kind: Kind, tmp_path: Path, stack: ExitStack) -> None:
        self.kind = kind
        self.clock = HandClock()
        self.service: Service = stack.enter_context(services.serving(kind.route(self.clock), self.clock))
        self.key_file = tmp_path / "key"
        self.key_file.write_text(SECRET + "\n")
        self.state_dir = tmp_path / "state"
        self.impatient = False

    def settings(self, **more: object) -> dict[str, object]:
        keyed: dict[str, object] = {"secret_file": str(self.key_file)} if self.kind.keyed else {}
        http = {"read_timeout_seconds": 0.3 if self.impatient else 20, "max_answer_bytes": 2_000_000}
        return {"url": self.service.url + self.kind.path, "http": http, **keyed, **self.kind.settings, **more}

    def provider(self, **more: object) -> CachedProvider:
        built = find_providers(()).build(self.kind.name, self.settings(**more), "key", self.clock, self.state_dir)
        assert isinstance(built, CachedProvider)
        return built

    def hours(self, start: float, end: float) -> Span:
        return Span(self.clock.now + start * HOUR, self.clock.now + end * HOUR)

    def count(self) -> int:
        return len(self.service.asked)


@pytest.fixture
def world(kind: Kind, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(kind, tmp_path, stack)


def known_of(provider: CachedProvider, world: World, span: Span) -> Sequence[Factor]:
    """Return what is known; a fault may be any error of ours that says no figure is there, and no other."""
    try:
        return provider.factors(world.kind.zone, span)
    except (Unavailable, SourceError, NoData):
        return ()


def check(factors: Sequence[Factor], world: World, span: Span) -> None:
    assert factors
    for factor in factors:
        assert (factor.basis, factor.scope, factor.system) == (world.kind.basis, world.kind.scope, world.kind.system)
        assert factor.provider == world.kind.name
        assert factor.zone == world.kind.zone
        assert factor.span.overlaps(span)
        assert 0 < factor.grams_per_kwh < 1000
        assert factor.published_at <= world.clock.now
        assert factor.source
    assert all(one.span.end <= other.span.start for one, other in pairwise(factors))


def test_factors_are_whole_in_order_and_say_what_they_are(world: World) -> None:
    span = world.hours(-48, 1)

    factors = world.provider().factors(world.kind.zone, span)

    check(factors, world, span)
    if world.kind.name != "file":
        assert factors[-1].span.start <= world.clock.now


def test_two_weeks_are_asked_in_pieces_that_the_service_takes(world: World) -> None:
    span = world.hours(-14 * 24, 1)
    provider = world.provider(**({"past_range": True} if world.kind.name == "electricity_maps" else {}))

    factors = provider.factors(world.kind.zone, span)

    check(factors, world, span)
    covered = sum((factor.span.seconds for factor in factors), 0.0)
    assert covered >= 13.5 * 86400


def refusals() -> list[tuple[str, Said]]:
    html = b"<!DOCTYPE html><html><head><title>502</title></head><body>Bad gateway</body></html>"
    return [
        ("case_energy_e4_a_500_with_html", Said(html, 500)),
        ("case_energy_e4_error_json", services.said({"error": {"code": "500 Internal", "message": "sorry"}}, 500)),
        ("case_energy_e4_error_json_and_200", services.said({"error": {"code": "400 Bad Request", "message": "no"}})),
        ("case_energy_e5_html_and_200", Said(html)),
        ("case_energy_e5_text", Said(b"upstream connect error or disconnect/reset before headers")),
        ("case_energy_e5_nothing", Said(b"")),
        ("case_energy_e6_null", Said(b"null")),
        ("case_energy_e6_empty_object", services.said({})),
        ("case_energy_e6_a_list", services.said([1, None, "x"])),
        ("other_bytes", Said(bytes(range(128, 256)))),
        ("deep_json", Said(b"[" * 100_000)),
        ("too_much", Said(b"x" * 2_100_000)),
        ("cut_off", Said(b'{"data": [', closes=True)),
        ("truncated_json", Said(b'{"data": [{"from": "2018-01-2')),
        ("bad_gzip", Said(gzip.compress(b"{}" * 500)[:20], headers={"Content-Encoding": "gzip"})),
        ("slow", Said(b"", slow=True)),
        ("redirect_to_another_host", Said(b"", 302, {"Location": "http://127.0.0.2:1/"})),
        ("redirects_in_a_circle", Said(b"", 302, {"Location": "/again"})),
        ("bad_request", services.said({"message": "unknown parameter"}, 400)),
        ("gone", services.said({"error": "gone"}, 410)),
        ("not_here", Said(html, 404)),
        ("denied", services.said({"error": "denied"}, 403)),
        ("unavailable", Said(b"", 503)),
    ]


@pytest.mark.parametrize("fault", [pytest.param(said, id=name) for name, said in refusals()])
def test_whatever_the_service_says_what_is_known_stays(world: World, fault: Said) -> None:
    """A fault is one of our errors where nothing is known, and no error at all where something is."""
    span = world.hours(-6, 1)
    world.impatient = fault.slow
    provider = world.provider()
    world.service.fault = fault
    assert not known_of(world.provider(), world, span)
    world.service.fault = None
    for old in world.state_dir.glob("*"):
        old.unlink()
    before = provider.factors(world.kind.zone, span)

    world.clock.ahead(hours=1)
    world.service.fault = fault
    after = provider.factors(world.kind.zone, span)

    assert after == before
    assert provider.fault(world.kind.zone)


def test_case_ceems_110_a_failure_is_not_kept(world: World) -> None:
    provider = world.provider()
    world.service.fault = Said(b"<html>", 500)
    with pytest.raises(Unavailable):
        provider.factors(world.kind.zone, world.hours(-2, 1))
    asked = world.count()
    with pytest.raises(Unavailable):
        provider.factors(world.kind.zone, world.hours(-2, 1))
    assert world.count() == asked, "it is left alone for a minute"
    assert provider.refresh_seconds == 60

    world.service.fault = None
    world.clock.ahead(seconds=61)

    check(provider.factors(world.kind.zone, world.hours(-2, 1)), world, world.hours(-2, 1))
    assert provider.fault(world.kind.zone) == ""
    assert provider.refresh_errors == 1


@pytest.mark.parametrize("fault", [Said(b"oops", 500), Said(b"<", closes=True), Said(b"[1]")])
def test_a_failure_that_repeats_looks_like_one(world: World, fault: Said) -> None:
    """It is logged on change, then hourly: with the time of the question in it each would be another."""
    provider = world.provider()
    provider.factors(world.kind.zone, world.hours(-2, 1))
    world.service.fault = fault
    texts = set()
    for _ in range(3):
        world.clock.ahead(hours=2)
        known_of(provider, world, world.hours(-2, 1))
        texts.add(provider.fault(world.kind.zone))

    assert len(texts) == 1, texts


def test_case_energy_e13_a_failing_service_is_asked_less_and_less(world: World) -> None:
    provider = world.provider()
    world.service.fault = Said(b"", 500)

    for _ in range(6 * 60):
        with pytest.raises(Unavailable):
            provider.factors(world.kind.zone, world.hours(-2, 1))
        world.clock.ahead(minutes=1)

    # 1, 2, 4, 8, 16, 32 minutes after the first, then once an hour: 7 + 4.
    assert provider.refresh_errors <= 12


@pytest.mark.parametrize("after", ["7200", "date"])
def test_case_energy_e13_too_many_requests_waits_as_long_as_it_is_told_even_over_a_restart(
    world: World, after: str
) -> None:
    world.clock.skew_seconds = -90 * 60  # a date is to be read against the service's own clock
    when = world.clock.now + 2 * HOUR
    header = after if after != "date" else when.strftime("%a, %d %b %Y %H:%M:%S GMT")
    world.service.fault = Said(b"slow down", 429, {"Retry-After": header})
    with pytest.raises(Unavailable) as refusal:
        world.provider().factors(world.kind.zone, world.hours(-2, 1))
    assert (refusal.value.reason, refusal.value.retry_after_seconds) == ("throttled", 7200)
    asked = world.count()
    world.service.fault = None

    world.clock.ahead(minutes=110)
    again = world.provider()
    with pytest.raises(Unavailable):
        again.factors(world.kind.zone, world.hours(-2, 1))
    assert world.count() == asked

    world.clock.ahead(minutes=11)
    assert again.factors(world.kind.zone, world.hours(-2, 1))


@only(lambda kind: kind.keyed)
def test_case_energy_e13_a_key_that_is_refused_is_not_shown_again_until_it_changes(world: World) -> None:
    provider = world.provider()
    world.key_file.write_text("wrong-key")
    with pytest.raises(Unavailable) as refusal:
        provider.factors(world.kind.zone, world.hours(-2, 1))
    assert refusal.value.reason == "denied"
    asked = world.count()

    for _ in range(50):
        world.clock.ahead(hours=1)
        with pytest.raises(Unavailable):
            provider.factors(world.kind.zone, world.hours(-2, 1))
    assert world.count() == asked

    world.key_file.write_text(SECRET)
    assert provider.factors(world.kind.zone, world.hours(-2, 1))


def test_case_energy_e13_the_service_is_asked_once_for_everyone(world: World) -> None:
    provider = world.provider()
    first = provider.factors(world.kind.zone, world.hours(-24, 1))
    asked = world.count()

    for _ in range(100):
        assert provider.factors(world.kind.zone, world.hours(-24, 1)) == first

    assert world.count() == asked


@only(lambda kind: kind.keyed)
def test_the_keys_file_may_be_missing_or_odd_and_its_text_is_in_no_error(world: World) -> None:
    provider = world.provider()
    for content in (None, "", "two words", "ké"):
        world.key_file.unlink(missing_ok=True)
        if content is not None:
            world.key_file.write_text(content)
        with pytest.raises(Unavailable, match="secret_file") as refusal:
            provider.factors(world.kind.zone, world.hours(-2, 1))
        with pytest.raises(ConfigError, match=r"^key\.secret_file") as at_start:
            world.provider()
        assert not content or content not in f"{refusal.value} {at_start.value}"
    assert world.count() == 0
    world.key_file.write_text(SECRET)
    assert provider.factors(world.kind.zone, world.hours(-2, 1))


@only(lambda kind: kind.keyed)
def test_a_key_in_the_environment_serves_as_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_KEY", SECRET)

    factors = world.provider(secret_file=None, secret_environment="SITE_KEY").factors(
        world.kind.zone, world.hours(-2, 1)
    )

    assert factors


@only(lambda kind: kind.keyed)
def test_no_key_is_in_any_text(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Faults that tell the key back, logs at their most talkative, settings, and what is kept on disk."""
    caplog.set_level(logging.DEBUG)
    texts = [repr(world.settings())]
    echo = f"you sent {SECRET} and {TOKEN}"
    world.provider().factors(world.kind.zone, world.hours(-2, 1))
    for status in (200, 400, 401, 403, 404, 429, 500):
        provider = world.provider()
        for body in (echo.encode(), json.dumps({"error": {"message": echo}}).encode()):
            world.service.fault = Said(body, status)
            world.clock.ahead(hours=2)
            known_of(provider, world, world.hours(-6, 1))
            texts.append(provider.fault(world.kind.zone))
    world.service.fault = None
    texts += [path.read_text() for path in world.state_dir.iterdir()]
    texts += [record.getMessage() for record in caplog.records]
    texts += [str(vars(record)) for record in caplog.records]

    assert not [text for text in texts if SECRET in text]
    assert not [text for text in texts if TOKEN in text and world.kind.name.startswith("watttime")]
    if world.kind.name != "entsoe":  # whose service wants it there
        assert not [asked for asked in world.service.asked if SECRET in asked.path or SECRET in str(asked.query)]


@pytest.mark.parametrize("address", ["http://provider.example/", "https://user:pw@provider.example/", "ftp://x/"])
def test_an_address_that_would_give_a_key_away_is_refused(world: World, address: str) -> None:
    if not world.kind.keyed and address.startswith("http:"):
        return  # asks without a key

    with pytest.raises(ConfigError, match=r"^key\.url"):
        world.provider(url=address)


def test_a_key_in_the_settings_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match=r"^key\.(secret|token): Extra"):
        world.provider(secret=SECRET)
    with pytest.raises(ConfigError, match=r"^key\.url: .*belongs in a file"):
        world.provider(url=f"{world.service.url}/?access_token={SECRET}")


def test_a_restart_remembers_and_asks_only_for_what_is_new(world: World) -> None:
    before = world.provider().factors(world.kind.zone, world.hours(-72, 1))
    asked = world.count()
    world.clock.ahead(minutes=5)
    world.service.fault = Said(b"", 500)

    again = world.provider().factors(world.kind.zone, Span(before[0].span.start, world.clock.now))

    assert again == before
    assert world.count() > asked


def test_what_is_told_again_keeps_its_first_publication_and_what_changes_is_published_anew(world: World) -> None:
    provider = world.provider()
    first = provider.factors(world.kind.zone, world.hours(-12, -6))
    held = {factor.span: factor for factor in first}
    world.clock.ahead(hours=1)

    second = provider.factors(world.kind.zone, world.hours(-13, -7))

    assert len(second) > 3
    for factor in second:
        known = held[factor.span]
        if (factor.grams_per_kwh, factor.quality) == (known.grams_per_kwh, known.quality):
            assert factor.published_at == known.published_at
        else:
            assert factor.published_at > known.published_at


@pytest.mark.parametrize("skew_hours", [-3, 3])
def test_a_wrong_clock_of_ours_makes_no_measurement_of_the_future(world: World, skew_hours: float) -> None:
    """The service says the time; we ask for our own idea of now, and get no figure that it calls later than now."""
    world.clock.skew_seconds = skew_hours * 3600
    ours = world.clock.now + skew_hours * HOUR

    try:
        factors = world.provider().factors(world.kind.zone, Span(ours - 24 * HOUR, ours + HOUR))
    except NoData:
        factors = ()

    if world.kind.name != "file":
        assert all(factor.span.start <= world.clock.now for factor in factors)
    assert all(factor.published_at <= ours for factor in factors)
    assert factors


@pytest.mark.parametrize(
    "now", ["2026-10-25T00:05:00", "2026-10-25T01:30:00", "2026-03-29T01:00:00", "2026-12-31T23:59"]
)
def test_midnight_and_changes_of_clocks_leave_no_hole(world: World, now: str) -> None:
    world.clock.now = datetime.fromisoformat(now).replace(tzinfo=UTC)
    span = world.hours(-12, 0)

    factors = world.provider().factors(world.kind.zone, span)

    assert factors[0].span.start <= span.start
    assert factors[-1].span.end >= span.end - timedelta(minutes=75)
    assert all(one.span.end == other.span.start for one, other in pairwise(factors))


def test_case_energy_e9_times_are_asked_with_a_true_offset(world: World) -> None:
    """+07:00 for UTC would be another seven hours; a bare + in an address would be a blank."""
    far = datetime.fromisoformat("2026-11-29T19:00:00+07:00")
    assert far == NOON

    factors = world.provider().factors(world.kind.zone, Span(far - 6 * HOUR, far))

    assert factors[0].span.start.utcoffset() == timedelta(0)
    assert NOON - 7 * HOUR <= factors[0].span.start <= NOON - 6 * HOUR
    said = [value for asked in world.service.asked for value in (asked.path, *asked.query.values())]
    assert not [value for value in said if "+07" in value or " 07" in value]


@only(lambda kind: kind.foreign_zone is not None)
def test_case_energy_e2_a_zone_that_is_not_the_providers_is_an_error(world: World) -> None:
    assert world.kind.foreign_zone is not None
    provider = world.provider()

    with pytest.raises(ConfigError, match=r"^zone: expected"):
        provider.factors(world.kind.foreign_zone, world.hours(-2, 1))
    with pytest.raises(ConfigError, match=r"^zone: expected"):
        provider.check_zone(world.kind.foreign_zone)
    assert world.count() == 0


def test_the_sites_name_of_a_zone_is_translated(world: World) -> None:
    provider = world.provider(zones={"basement": world.kind.zone})

    check(provider.factors("basement", world.hours(-2, 1)), world, world.hours(-2, 1))


def test_a_forecast_looks_ahead_and_says_so(world: World) -> None:
    span = world.hours(0, 24)
    provider = world.provider()
    if not world.kind.forecasts:
        with pytest.raises(NoData, match="no forecast"):
            provider.forecast(world.kind.zone, span)
        return

    factors = provider.forecast(world.kind.zone, span)
    asked = world.count()
    again = provider.forecast(world.kind.zone, span)

    check(factors, world, span)
    assert {factor.quality for factor in factors} == {Quality.FORECAST}
    assert factors[-1].span.end >= span.end
    assert (again, world.count()) == (factors, asked)


@only(lambda kind: kind.measures)
def test_case_energy_e4_the_chooser_keeps_the_last_good_then_the_country_and_tells(world: World) -> None:
    country = world.kind.zone if world.kind.zone in ("FR", "GB") else "US"
    changes: list[QualityChange] = []
    settings = EmissionFactorSettings(reporting=world.kind.name, last_good_hours=6, world_fallback=False)
    provider = world.provider(zones={country: world.kind.zone})
    chooser = Chooser(provider, StaticProvider(shipped_table()), settings, world.clock, report=changes.append)
    good = chooser.factors(country, world.hours(-48, 1))
    live_until = max(f.span.end for f in good if f.provider == world.kind.name and "last good" not in f.source)

    world.service.fault = Said(b"<html>oops</html>", 500)
    world.clock.ahead(hours=4)
    standing_in = chooser.factors(country, world.hours(-48, 1))
    world.clock.ahead(hours=8)
    of_the_country = chooser.factors(country, world.hours(-48, 1))
    world.service.fault = None
    world.clock.ahead(hours=2)
    recovered = chooser.factors(country, world.hours(-48, 1))

    now = standing_in[-1]
    assert (now.provider, now.quality) == (world.kind.name, Quality.ESTIMATED)
    assert "last good" in now.source
    assert now.span.start == live_until
    assert (of_the_country[-1].provider, of_the_country[-1].zone) == ("static", country)
    assert recovered[-1].provider == world.kind.name
    told = [(change.after.split()[0], "500" in change.reason) for change in changes]
    assert (told[0], told[-1]) == ((world.kind.name, False), (world.kind.name, False))
    assert told[-2] == ("static", True)
    for chosen in (good, standing_in, of_the_country, recovered):
        assert all(one.span.end == other.span.start for one, other in pairwise(chosen))


def test_every_provider_has_its_row_and_its_settings_are_described() -> None:
    rows = DOCS.read_text()
    plugins = find_providers(()).plugins

    assert not [name for name in plugins if f"| `{name}` |" not in rows]
    for plugin in plugins.values():
        for name, about in plugin.settings_class.model_fields.items():
            assert about.description, name
            assert f"`{name}`" in rows, f"{plugin.name}.{name}"
        assert plugin.settings_class.model_config["frozen"]
        assert plugin.settings_class.model_config["extra"] == "forbid"


def test_the_suite_leaves_no_live_provider_out() -> None:
    live = {name for name, plugin in find_providers(()).plugins.items() if plugin.is_live}

    assert live == {kind.name for kind in KINDS}


def test_errors_are_ours() -> None:
    assert issubclass(Unavailable, KwhereError)
