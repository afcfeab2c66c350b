"""ENTSO-E: its XML, its curves, the mix, its zones, and its token that travels in the address."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.emission_services import (
    NOON,
    SECRET,
    HandClock,
    Said,
    entsoe_document,
    entsoe_refusal,
    entsoe_route,
    entsoe_series,
    serving,
)

from kwhere.core.errors import ConfigError, NoData, SourceError, Unavailable
from kwhere.core.timespan import Span
from kwhere.emission_factors.entsoe import zone_codes
from kwhere.emission_factors.entsoe_document import read_generation
from kwhere.emission_factors.generation_mix import Generation, generation_types, mix_rows
from kwhere.emission_factors.provider import EmissionFactorProvider, Quality, Scope
from kwhere.emission_factors.registry import find_providers
from kwhere.emission_factors.rows import Row

START = datetime(2026, 11, 29, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def power(text: str, code: str) -> list[tuple[str, float, float]]:
    """Return start, minutes and megawatts of one type."""
    return [
        (f"{one.span.start:%H:%M}", one.span.seconds / 60, one.megawatts)
        for one in read_generation(text, "p")
        if one.code == code
    ]


def factors(rows: list[Row]) -> list[tuple[str, float, Quality]]:
    return [(f"{row.span.start:%H:%M}", round(row.grams_per_kwh, 6), row.quality) for row in rows]


def test_a_sequential_curve_has_its_positions_and_no_others() -> None:
    text = entsoe_document(entsoe_series("B14", START, {1: 100, 3: 300}, hours=3, curve="A01"))

    assert power(text, "B14") == [("10:00", 60, 100), ("12:00", 60, 300)]


def test_a_compressed_curve_repeats_what_it_leaves_out_to_its_end() -> None:
    text = entsoe_document(entsoe_series("B14", START, {1: 100, 3: 300}, hours=5, curve="A03"))

    assert [megawatts for _, _, megawatts in power(text, "B14")] == [100, 100, 300, 300, 300]


def test_a_position_that_makes_no_sense_is_a_hole_not_a_repeat() -> None:
    text = entsoe_document(entsoe_series("B14", START, {1: 100, 2: "n/a", 4: 400}, hours=4, curve="A03"))

    assert power(text, "B14") == [("10:00", 60, 100), ("13:00", 60, 400)]


def test_quarter_hours_and_hours_meet_in_one_mix() -> None:
    text = entsoe_document(
        entsoe_series("B14", START, {1: 300}, hours=1, resolution="PT60M"),
        entsoe_series("B04", START, {1: 100, 2: 100, 3: 300, 4: 0}, hours=1, resolution="PT15M", curve="A01"),
    )

    rows = mix_rows(read_generation(text, "p"), Scope.LIFECYCLE)

    # (300 · 12 + 100 · 490) / 400 = 131.5; (3600 + 147000) / 600 = 251; nuclear alone 12.
    assert factors(rows) == [
        ("10:00", 131.5, Quality.MEASURED),
        ("10:15", 131.5, Quality.MEASURED),
        ("10:30", 251.0, Quality.MEASURED),
        ("10:45", 12.0, Quality.MEASURED),
    ]


def test_pumping_is_no_generation_and_storage_is_left_out_of_the_mix() -> None:
    text = entsoe_document(
        entsoe_series("B14", START, {1: 500}, hours=1),
        entsoe_series("B05", START, {1: 500}, hours=1),
        entsoe_series("B10", START, {1: 900}, hours=1, domain="out"),
        entsoe_series("B10", START, {1: 700}, hours=1),
        entsoe_series("B25", START, {1: 70}, hours=1),
    )

    (row,) = mix_rows(read_generation(text, "p"), Scope.DIRECT)

    # Half nuclear (0), half hard coal (760).
    assert row.grams_per_kwh == 380


def test_half_a_mix_is_no_mix() -> None:
    """Gas reports an hour later than nuclear: the last hour would look five times as clean."""
    hours = [Span(START + n * HOUR, START + (n + 1) * HOUR) for n in range(3)]
    nuclear = [Generation("B14", span, 600) for span in hours]
    gas = [Generation("B04", span, 400) for span in hours[:2]]
    oil = [Generation("B06", span, 20) for span in hours[:1]]

    rows = mix_rows([*nuclear, *gas, *oil], Scope.LIFECYCLE)

    # 10:00: (600 · 12 + 400 · 490 + 20 · 650) / 1020; 11:00 lacks 2 %; 12:00 lacks 40 %.
    assert factors(rows) == [
        ("10:00", round(216_200 / 1020, 6), Quality.MEASURED),
        ("11:00", 203.2, Quality.ESTIMATED),
    ]


def test_an_unknown_type_is_other_and_negative_power_is_none() -> None:
    span = Span(START, START + HOUR)

    (row,) = mix_rows([Generation("B99", span, 100), Generation("B19", span, -5)], Scope.LIFECYCLE)

    assert row.grams_per_kwh == 700


def test_nothing_generated_has_no_factor() -> None:
    span = Span(START, START + HOUR)

    assert mix_rows([], Scope.LIFECYCLE) == []
    assert mix_rows([Generation("B14", span, 0)], Scope.LIFECYCLE) == []
    assert mix_rows([Generation("B10", span, 10)], Scope.LIFECYCLE) == []


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (entsoe_refusal("999", "No matching data found"), NoData, "No matching data found .reason 999"),
        (entsoe_refusal("007", "Busy"), SourceError, "Busy"),
        ("<html></html>", SourceError, "expected GL_MarketDocument, found html"),
        ("<GL_MarketDocument>", SourceError, "expected XML"),
        ("not xml", SourceError, "expected XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', SourceError, "document type"),
    ],
)
def test_another_document_is_an_error_of_ours(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read_generation(text, "p")


@pytest.mark.parametrize("resolution", ["PT0M", "P1Y", "", "PT7"])
def test_a_period_of_no_known_step_is_left_out(resolution: str) -> None:
    text = entsoe_document(entsoe_series("B14", START, {1: 100}, hours=1, resolution=resolution))

    assert read_generation(text, "p") == []


def test_a_period_that_claims_too_much_is_left_out_before_it_fills_the_memory() -> None:
    text = entsoe_document(entsoe_series("B14", START, {1: 100}, hours=24 * 365 * 50, resolution="PT1M"))

    assert read_generation(text, "p") == []


def test_every_type_has_a_factor_or_is_storage_and_lifecycle_is_never_less_than_direct() -> None:
    types = generation_types()

    assert {f"B{n:02}" for n in range(1, 21)} | {"B25"} == set(types)
    assert {code for code, each in types.items() if each.lifecycle is None} == {"B10", "B25"}
    assert all((each.lifecycle or 0) >= (each.direct or 0) for each in types.values())
    assert all(each.source for each in types.values())


def test_lignite_is_what_its_formula_says() -> None:
    """101 kg CO2 per GJ of fuel at 38 %: 101 · 3.6 / 0.38 = 956.8; oil shale 107 at 33 %, peat 106 at 38 %."""
    direct = {code: generation_types()[code].direct for code in ("B02", "B07", "B08")}

    assert direct == {"B02": round(101 * 3.6 / 0.38), "B07": round(107 * 3.6 / 0.33), "B08": round(106 * 3.6 / 0.38)}


@pytest.mark.parametrize(("zone", "code"), sorted(zone_codes().items()))
def test_the_code_of_a_zone_has_its_check_character(zone: str, code: str) -> None:
    """The last of 16 characters checks the others: weights 16 to 2, modulus 37 (ENTSO-E's EIC reference manual)."""
    letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-"
    total = sum(letters.index(character) * weight for character, weight in zip(code, range(16, 1, -1), strict=False))

    assert len(code) == 16
    assert letters[36 - (total - 1) % 37] == code[-1], zone


def provider(url: str, tmp_path: Path) -> EmissionFactorProvider:
    key = tmp_path / "key"
    key.write_text(SECRET)
    plugin = find_providers(()).plugins["entsoe"]
    settings = plugin.settings_class.model_validate({"url": f"{url}/api", "secret_file": key})
    return plugin.build(settings, HandClock())


def test_the_service_is_asked_as_it_wants_it(tmp_path: Path) -> None:
    clock = HandClock()
    with serving(entsoe_route(clock), clock) as service:
        found = provider(service.url, tmp_path).factors("fr", Span(NOON - 90 * timedelta(minutes=1), NOON + HOUR))

    assert service.asked[0].path == "/api"
    assert service.asked[0].query == {
        "securityToken": SECRET,
        "documentType": "A75",
        "processType": "A16",
        "in_Domain": "10YFR-RTE------C",
        "periodStart": "202611291000",
        "periodEnd": "202611291300",
    }
    # Nuclear 8000, wind 1000 and gas 1000, then 1001: pumping is not in it.
    assert [round(factor.grams_per_kwh, 6) for factor in found] == [
        (8000 * 12 + 1000 * 11 + 1000 * 490) / 10_000,
        round((8000 * 12 + 1000 * 11 + 1001 * 490) / 10_001, 6),
    ]


def test_the_token_in_the_address_is_in_no_message_and_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock, texts = HandClock(), []
    answers = [
        Said(b"", 503),
        Said(f"<html>bad token {SECRET}</html>".encode(), 401),
        Said(b"", 302, {"Location": f"http://127.0.0.2:1/?securityToken={SECRET}"}),
        Said(b"", 302, {"Location": f"/api?securityToken={SECRET}"}),
        Said(entsoe_refusal("999", f"No matching data for {SECRET}").encode()),
        Said(b"<x", closes=True),
    ]
    with serving(entsoe_route(clock), clock) as service:
        asking = provider(service.url, tmp_path)
        for service.fault in answers:
            with pytest.raises((Unavailable, SourceError, NoData)) as refusal:
                asking.factors("FR", Span(NOON - HOUR, NOON))
            texts += [str(refusal.value), repr(refusal.value)]
            texts += [str(each) for each in (refusal.value.__cause__, refusal.value.__context__) if each]
    refused = provider("http://127.0.0.1:9", tmp_path)
    with pytest.raises(Unavailable) as closed:
        refused.factors("FR", Span(NOON - HOUR, NOON))
    texts.append(str(closed.value))

    texts += [record.getMessage() for record in caplog.records]
    assert not [text for text in texts if SECRET in text]
    assert any("/api" in text for text in texts)


@pytest.mark.parametrize("zone", ["DE_LU", "de-lu", "10Y1001A1001A82H"])
def test_a_zone_may_be_a_name_or_a_code(zone: str, tmp_path: Path) -> None:
    clock = HandClock()
    with serving(entsoe_route(clock), clock) as service:
        provider(service.url, tmp_path).factors(zone, Span(NOON - HOUR, NOON))

    assert service.asked[0].query["in_Domain"] == "10Y1001A1001A82H"


def test_an_unknown_zone_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found 'US'; known: AL AT BA"):
        provider("http://127.0.0.1:9", tmp_path).factors("US", Span(NOON - HOUR, NOON))
