import contextlib
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.iso_week import IsoWeek
from kwhere.core.wall_clock import first_instant
from kwhere.database.grid import Grid, from_ns, to_ns

ZONES = st.sampled_from(sorted(available_timezones() - {"localtime"}))
SECONDS = st.integers(0, 55 * 365 * 86_400)
LOCAL = SECONDS.map(lambda seconds: datetime.fromisoformat("1990-01-01T00:00") + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("zone", "local", "instant"),
    [
        pytest.param("Europe/Paris", "2026-10-19T02:30", "2026-10-19T00:30Z", id="an-ordinary-night"),
        pytest.param("Europe/Paris", "2026-03-29T02:30", "2026-03-29T01:00Z", id="skipped"),
        pytest.param("Europe/Paris", "2026-03-29T02:00", "2026-03-29T01:00Z", id="the-first-second-that-is-skipped"),
        pytest.param("Europe/Paris", "2026-03-29T03:00", "2026-03-29T01:00Z", id="the-first-second-after"),
        pytest.param("Europe/Paris", "2026-10-25T02:30", "2026-10-25T00:30Z", id="comes-twice"),
        pytest.param("Europe/Paris", "2026-10-25T03:00", "2026-10-25T02:00Z", id="after-the-hour-that-came-twice"),
        pytest.param("America/New_York", "2026-03-08T02:30", "2026-03-08T07:00Z", id="skipped-in-New-York"),
        pytest.param("America/New_York", "2026-11-01T01:30", "2026-11-01T05:30Z", id="twice-in-New-York"),
        pytest.param("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-03T15:30Z", id="skipped-by-half-an-hour"),
        pytest.param("Australia/Lord_Howe", "2026-04-05T01:40", "2026-04-04T14:40Z", id="twice-for-half-an-hour"),
        pytest.param("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T03:00Z", id="a-day-without-midnight"),
        pytest.param("Pacific/Apia", "2011-12-30T06:00", "2011-12-30T10:00Z", id="a-day-that-never-was"),
    ],
)
def test_a_local_time_is_one_instant_case_users_51(zone: str, local: str, instant: str) -> None:
    found = first_instant(datetime.fromisoformat(local), ZoneInfo(zone))

    assert found == datetime.fromisoformat(instant)


@given(zone=ZONES, local=LOCAL)
def test_before_the_instant_clocks_show_less_and_from_it_on_as_much_case_users_51(zone: str, local: datetime) -> None:
    found = first_instant(local, ZoneInfo(zone))

    shown = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    before = (found - timedelta(seconds=1)).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    assert before < local <= shown


@pytest.mark.parametrize(
    ("zone", "week", "hours"),
    [
        ("Europe/Paris", "2026-W53", 168),
        ("Europe/Paris", "2026-W43", 169),
        ("Europe/Paris", "2026-W13", 167),
        ("Australia/Lord_Howe", "2026-W40", 167.5),
        ("America/New_York", "2026-W44", 169),
        ("UTC", "2026-W43", 168),
    ],
)
def test_a_week_has_its_true_length_case_users_52(zone: str, week: str, hours: float) -> None:
    span = IsoWeek.parse(week).span(ZoneInfo(zone))

    assert (span.end - span.start) == timedelta(hours=hours)


def test_the_53rd_week_ends_in_the_next_year_case_users_52() -> None:
    week = IsoWeek.parse("2026-W53")

    assert (week.monday, week.later(1), week.later(-53)) == (date(2026, 12, 28), IsoWeek(2027, 1), IsoWeek(2025, 52))
    assert week.span(ZoneInfo("Asia/Kolkata")).start == datetime(2026, 12, 27, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2025-W53", "2026-W00", "2026-W54", "2026W53", "2026-w53", "0000-W01", "", "\u0662\u0660\u0662\u0666-W01"]
)
def test_what_is_no_week_is_refused_case_users_52(text: str) -> None:
    with pytest.raises(ValueError, match="expected a week"):
        IsoWeek.parse(text)


@given(text=st.text(max_size=12) | st.from_regex(r"[0-9]{4}-W[0-9]{2}", fullmatch=True))
def test_any_text_is_a_week_or_refused(text: str) -> None:
    found = text
    with contextlib.suppress(ValueError):
        found = str(IsoWeek.parse(text))

    assert found == text


@given(zone=ZONES, day=st.dates(date(2005, 1, 1), date(2040, 1, 1)))
def test_weeks_touch_and_begin_with_the_days_of_the_account_case_users_52(zone: str, day: date) -> None:
    week, tz = IsoWeek.of(day), ZoneInfo(zone)

    span = week.span(tz)
    assert span.end == week.later(1).span(tz).start
    assert from_ns(Grid(tz).day_start(to_ns(span.start))) == span.start


@given(zone=ZONES, day=st.dates(date(2005, 1, 1), date(2040, 1, 1)), weekday=st.integers(0, 6), clock=st.times())
def test_its_moment_lies_within_it_or_at_its_end_case_users_51(zone: str, day: date, weekday: int, clock: time) -> None:
    week, tz = IsoWeek.of(day), ZoneInfo(zone)

    moment = week.instant(weekday, clock.replace(microsecond=0), tz)

    assert week.span(tz).start <= moment <= week.span(tz).end
