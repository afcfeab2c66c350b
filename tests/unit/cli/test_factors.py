"""`kwhere factors` against a real HTTP server that answers as the API does."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.emission_services import Asked, HandClock, Said, Service, said, serving

from kwhere.cli.main import run_root


def factor(provider: str, grams: float, quality: str, start: str, *, reporting: bool, **more: str) -> dict[str, Any]:
    return {
        "provider": provider,
        "zone": "FR",
        "basis": "average",
        "scope": "direct",
        "system": "production",
        "quality": quality,
        "span": {"from": start, "to": "2026-11-29T12:15:00Z"},
        "grams_per_kwh": grams,
        "published_at": "2026-11-29T12:20:00Z",
        "source": "a source",
        "reporting": reporting,
        **more,
    }


FACTORS = [
    factor("static", 44.18, "static", "1970-01-01T00:00:00Z", reporting=True),
    factor("rte", 20.5, "measured", "2026-11-29T12:00:00Z", reporting=True),
    factor("watttime", 408.23, "estimated", "2026-11-29T12:00:00Z", reporting=False, basis="marginal"),
]
FORECAST = {
    "provider": "neso",
    "zone": "GB",
    "basis": "average",
    "scope": "direct",
    "system": "consumption",
    "published_at": "2026-11-29T12:00:00Z",
    "source": "NESO",
    "window": {"from": "2026-11-30T01:00:00Z", "to": "2026-11-30T05:00:00Z"},
    "grams_per_kwh": 75.0,
    "now_grams_per_kwh": 250.0,
    "mean_grams_per_kwh": 180.0,
    "points": [],
}
NOT_FAR = {**FORECAST, "zone": "FR", "provider": "watttime", "window": None, "grams_per_kwh": None}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")

    def route(asked: Asked) -> Said:
        if asked.path == "/api/v1/emission-factors":
            return said({"items": FACTORS, "next": None})
        if asked.query.get("zone") == "XX":
            return said({"title": "Not found", "detail": "zone 'XX': not a zone of this site"}, 404)
        items = [FORECAST, NOT_FAR] if asked.query.get("zone") != "none" else []
        missing = {} if asked.query.get("zone") == "none" else {"electricity_maps FR": "denied"}
        return said({"span": {}, "length_seconds": 14400, "items": items, "missing": missing})

    with serving(route, HandClock()) as found:
        yield found


def run(service: Service, tmp_path: Path, *words: str) -> int:
    return run_root(["factors", *words, "--server", service.url, "--state-dir", str(tmp_path)])


def test_factors_in_force_say_since_when_and_which_counts(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(service, tmp_path) == 0

    lines = capsys.readouterr().out.splitlines()
    header = "ZONE PROVIDER g_CO2e/kWh BASIS SCOPE SYSTEM QUALITY SINCE (UTC) PUBLISHED SOURCE"
    assert " ".join(lines[0].split()) == header.replace("_", " ")
    assert lines[1].split()[:3] == ["FR", "static", "44.2"]
    assert "always" in lines[1]
    assert lines[2].split()[:4] == ["*", "FR", "rte", "20.5"]
    assert "2026-11-29 12:00 " in lines[2]
    assert "marginal" in lines[3]


def test_factors_for_machines_keep_every_digit(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(service, tmp_path, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["items"] == FACTORS

    assert run(service, tmp_path, "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["grams_per_kwh"] for row in rows] == ["44.18", "20.5", "408.23"]
    assert rows[1]["from"] == "2026-11-29T12:00:00Z"
    assert [row["reporting"] for row in rows] == ["true", "true", "false"]


def test_a_span_and_a_zone_may_be_named(service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(service, tmp_path, "-S", "2026-11-28T00:00:00+00:00", "-z", "DE") == 0

    assert service.asked[0].query == {"from": "2026-11-28T00:00:00Z"}
    assert "no factor is in force" in capsys.readouterr().err


def test_the_greenest_hours(service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(service, tmp_path, "forecast", "--within", "12", "--length", "4") == 0

    said_out = capsys.readouterr()
    lines = said_out.out.splitlines()
    assert lines[1].split()[:7] == ["GB", "neso", "average", "2026-11-30", "01:00", "to", "05:00"]
    # 75 in place of 250: 70 % less.
    assert lines[1].split()[7:] == ["75.0", "250", "180", "70", "%"]
    assert lines[2].split()[3:5] == ["–", "–"]
    assert "electricity_maps FR: denied" in said_out.err
    assert service.asked[0].query == {"within": "12", "length": "4"}


@pytest.mark.parametrize("words", [[], ["forecast"]])
def test_80_columns_are_enough(
    service: Service,
    tmp_path: Path,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert run(service, tmp_path, *words) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "g CO2e/kWh" in lines[0]
    assert ("QUALITY" if not words else "GREENEST (UTC)") in lines[0]


def test_a_window_over_midnight_names_the_day_of_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    late = {**FORECAST, "window": {"from": "2026-11-30T22:00:00Z", "to": "2026-12-01T02:00:00Z"}}

    with serving(lambda _: said({"items": [late], "missing": {}}), HandClock()) as found:
        run(found, tmp_path, "forecast")

    assert "2026-11-30 22:00 to 12-01 02:00" in capsys.readouterr().out


def test_the_greenest_hours_for_machines(service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(service, tmp_path, "forecast", "--json") == 0
    assert json.loads(capsys.readouterr().out)["items"] == [FORECAST, NOT_FAR]

    assert run(service, tmp_path, "forecast", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["from"], row["grams_per_kwh"]) for row in rows] == [("2026-11-30T01:00:00Z", "75.0"), ("", "")]


def test_nobody_who_looks_ahead_and_a_foreign_zone_are_told(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(service, tmp_path, "forecast", "-z", "none") == 0
    assert "no provider of this site looks ahead" in capsys.readouterr().err

    assert run(service, tmp_path, "forecast", "-z", "XX") == 1
    assert "not a zone of this site" in capsys.readouterr().err


def test_a_server_named_before_the_subcommand_counts(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_root(["factors", "--server", service.url, "--state-dir", str(tmp_path), "forecast"]) == 0
    assert "GB" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["forecast", "--length", "0"], ["forecast", "--within", "100"], ["nonsense"]])
def test_a_wrong_word_is_a_usage_error(service: Service, tmp_path: Path, words: list[str]) -> None:
    assert run_root(["factors", *words]) == 2
    assert not service.asked
