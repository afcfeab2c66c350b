"""The country that a time zone suggests."""

from pathlib import Path

import pytest

from kwhere.emission_factors.static import shipped_table
from kwhere.emission_factors.zones import country_of_time_zone, propose_country, system_time_zone


@pytest.mark.parametrize(
    ("zone", "country"),
    [
        ("Europe/Paris", "FR"),
        ("Europe/Zurich", "CH"),
        ("America/Los_Angeles", "US"),
        ("US/Pacific", "US"),
        ("GB", "GB"),
        ("PRC", "CN"),
        ("Asia/Calcutta", "IN"),
        ("posix/Europe/Berlin", "DE"),
        ("Etc/UTC", None),
        ("UTC", None),
        ("CET-1CEST", None),
        ("", None),
    ],
)
def test_a_time_zone_suggests_a_country(zone: str, country: str | None) -> None:
    assert country_of_time_zone(zone) == country


def machine(directory: Path, link: str | None, text: str | None) -> tuple[Path, Path]:
    localtime, timezone = directory / "localtime", directory / "timezone"
    if link is not None:
        localtime.symlink_to(link)
    if text is not None:
        timezone.write_text(text)
    return localtime, timezone


@pytest.mark.parametrize(
    ("tz", "link", "text", "country"),
    [
        (None, "/usr/share/zoneinfo/Europe/Paris", None, "FR"),
        (None, "../usr/share/zoneinfo/Europe/Oslo", "Etc/UTC\n", "NO"),
        (None, None, "Asia/Tokyo\n", "JP"),
        ("Europe/Rome", "/usr/share/zoneinfo/Europe/Paris", None, "IT"),
        (":Europe/Rome", None, None, "IT"),
        ("/usr/share/zoneinfo/Europe/Rome", None, None, "IT"),
        ("CET-1CEST", "/usr/share/zoneinfo/Europe/Paris", None, None),
        (None, "/usr/share/zoneinfo/Etc/UTC", None, None),
        pytest.param(None, None, None, None, id="case_energy_e2"),
        (None, "/somewhere/else", "not a zone\n", None),
        (None, None, "", None),
    ],
)
def test_the_zone_in_force_is_asked_and_nothing_is_guessed(
    tmp_path: Path, tz: str | None, link: str | None, text: str | None, country: str | None
) -> None:
    localtime, timezone = machine(tmp_path, link, text)

    assert propose_country({} if tz is None else {"TZ": tz}, localtime, timezone) == country


def test_every_shipped_country_but_kosovo_has_a_time_zone_that_suggests_it() -> None:
    from kwhere.emission_factors.zones import _tables

    suggested = set(_tables()[0].values())

    assert {country.iso2 for country in shipped_table().countries if country.iso2} - suggested == {"XK"}


@pytest.mark.parametrize(
    ("named", "zone"),
    [("Europe/Paris", "Europe/Paris"), (":Asia/Tokyo", "Asia/Tokyo"), ("CET-1CEST", "UTC"), ("../etc/passwd", "UTC")],
)
def test_the_systems_time_zone_is_one_that_is_known(tmp_path: Path, named: str, zone: str) -> None:
    assert system_time_zone({"TZ": named}, tmp_path / "none", tmp_path / "none") == zone


def test_a_machine_that_tells_no_time_zone_keeps_utc(tmp_path: Path) -> None:
    assert system_time_zone({}, tmp_path / "none", tmp_path / "none") == "UTC"
