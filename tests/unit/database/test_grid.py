"""Hours and days of a site: they hold every moment once, in zones with half hours and with summer time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.database.grid import BUCKET_NS, DAY_NS, HOUR_NS, Grid, from_ns, to_ns

ZONES = ("UTC", "Europe/Paris", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns")
moments = st.integers(to_ns(datetime(2020, 1, 1, tzinfo=UTC)), to_ns(datetime(2035, 1, 1, tzinfo=UTC)))


@given(st.sampled_from(ZONES), moments)
def test_an_hour_holds_its_moment_and_whole_buckets(zone: str, moment_ns: int) -> None:
    grid = Grid(ZoneInfo(zone))

    start_ns = grid.hour_start(moment_ns)

    assert start_ns <= moment_ns < start_ns + HOUR_NS
    assert start_ns % BUCKET_NS == 0
    assert grid.hour_start(start_ns - 1) == start_ns - HOUR_NS
    if zone != "Australia/Lord_Howe":  # its summer is half an hour
        assert from_ns(start_ns).astimezone(grid.zone).minute == 0


@given(st.sampled_from(ZONES), moments)
def test_days_follow_one_another(zone: str, moment_ns: int) -> None:
    grid = Grid(ZoneInfo(zone))

    start_ns, end_ns = grid.day_start(moment_ns), grid.day_end(moment_ns)

    assert start_ns <= moment_ns < end_ns
    assert grid.day_start(end_ns) == end_ns
    assert DAY_NS - HOUR_NS <= end_ns - start_ns <= DAY_NS + HOUR_NS
    local = from_ns(start_ns).astimezone(grid.zone)
    assert (local.hour, local.minute) == (0, 0)


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-06-01", 24), ("2026-10-25", 25)])
def test_a_day_of_paris_has_its_hours(day: str, hours: int) -> None:
    grid = Grid(ZoneInfo("Europe/Paris"))
    noon_ns = to_ns(datetime.fromisoformat(f"{day}T12:00:00+00:00"))

    assert grid.day_end(noon_ns) - grid.day_start(noon_ns) == hours * HOUR_NS
    assert grid.date_of(noon_ns) == day


def test_what_64_bits_cannot_hold_becomes_their_last_moment() -> None:
    assert to_ns(datetime(9999, 1, 1, tzinfo=UTC)) == 2**63 - 1
    assert from_ns(2**63 - 1).year == 2262


@given(moments)
def test_moments_survive_to_the_microsecond(moment_ns: int) -> None:
    assert to_ns(from_ns(moment_ns)) == moment_ns // 1000 * 1000
    assert from_ns(moment_ns) - timedelta(microseconds=1) < from_ns(moment_ns)
