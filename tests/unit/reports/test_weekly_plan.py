"""Which weeks a report owes: each once, whatever clocks, zones and absences do."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.iso_week import IsoWeek
from kwhere.reports.settings import Weekday, WeeklyReportSettings
from kwhere.reports.weekly_plan import due_at, newest_due, plan_weeks

PARIS = ZoneInfo("Europe/Paris")
ZONES = st.sampled_from(sorted(available_timezones() - {"localtime"})).map(ZoneInfo)


def settings(**changes: Any) -> WeeklyReportSettings:
    return WeeklyReportSettings.model_validate({"time": "02:30", **changes})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "day", "week", "due"),
    [
        pytest.param("Europe/Paris", "monday", "2026-W53", "2027-01-04T01:30Z", id="across-the-year"),
        pytest.param("Europe/Paris", "sunday", "2026-W12", "2026-03-29T01:00Z", id="skipped-in-Paris"),
        pytest.param("Europe/Paris", "sunday", "2026-W42", "2026-10-25T00:30Z", id="twice-in-Paris"),
        pytest.param("America/New_York", "sunday", "2026-W09", "2026-03-08T07:00Z", id="skipped-in-New-York"),
        pytest.param("Australia/Lord_Howe", "sunday", "2026-W39", "2026-10-03T15:30Z", id="skipped-on-Lord-Howe"),
        pytest.param("Asia/Kolkata", "monday", "2026-W43", "2026-10-25T21:00Z", id="half-an-hour-off"),
        pytest.param("Pacific/Apia", "friday", "2011-W51", "2011-12-30T10:00Z", id="on-a-day-that-never-was"),
    ],
)
def test_a_report_is_due_at_one_instant_case_users_51(zone: str, day: str, week: str, due: str) -> None:
    assert due_at(settings(day=day), ZoneInfo(zone), IsoWeek.parse(week)) == at(due)


@pytest.mark.parametrize("week", ["2026-W13", "2026-W43"])
def test_it_is_due_once_in_the_night_that_clocks_change_case_users_51(week: str) -> None:
    zone, report = PARIS, settings(day="sunday")
    night = IsoWeek.parse(week).later(1).instant(6, report.time, zone) - timedelta(hours=6)
    looks = [night + timedelta(minutes=minute) for minute in range(12 * 60)]

    found = [newest_due(report, zone, look) for look in looks]

    assert sum(one != other for one, other in pairwise(found)) == 1


def test_a_new_report_begins_with_the_newest_week_that_is_over() -> None:
    plan = plan_weeks(settings(), PARIS, at("2027-01-04T02:00Z"), (), ())

    assert (plan.due, plan.missed) == ((IsoWeek(2026, 53),), ())


def test_weeks_that_nobody_wrote_are_caught_up_to_a_bound_and_the_others_told_once() -> None:
    report, known = settings(catch_up_weeks=3), {IsoWeek(2026, 45)}
    now = at("2027-01-11T02:00Z")

    plan = plan_weeks(report, PARIS, now, known, known)
    later = plan_weeks(report, PARIS, now, known, known | set(plan.missed))

    assert plan.due == (IsoWeek(2026, 52), IsoWeek(2026, 53), IsoWeek(2027, 1))
    assert [str(week) for week in plan.missed] == [f"2026-W{number}" for number in range(46, 52)]
    assert (later.due, later.missed) == (plan.due, ())


def test_what_was_missed_is_written_when_the_bound_is_raised() -> None:
    known = {IsoWeek(2026, 50), IsoWeek(2026, 51), IsoWeek(2026, 52)}
    written = {IsoWeek(2026, 50), IsoWeek(2026, 52)}

    plan = plan_weeks(settings(catch_up_weeks=10), PARIS, at("2026-12-29T12:00Z"), written, known)

    assert plan.due == (IsoWeek(2026, 51),)


@given(
    zones=st.lists(ZONES, min_size=1, max_size=3),
    start=st.datetimes(at("2011-12-01").replace(tzinfo=None), at("2038-01-01").replace(tzinfo=None)),
    steps=st.lists(st.timedeltas(timedelta(days=-3), timedelta(days=20)), max_size=25),
    day=st.sampled_from(Weekday),
    clock=st.times(),
    bound=st.integers(1, 5),
)
def test_each_week_is_written_once_and_none_is_forgotten_case_users_51(
    zones: list[ZoneInfo], start: datetime, steps: list[timedelta], day: Weekday, clock: Any, bound: int
) -> None:
    report = settings(day=day, time=clock.replace(microsecond=0).isoformat(), catch_up_weeks=bound)
    now, latest = start.replace(tzinfo=UTC), start.replace(tzinfo=UTC)
    written: list[IsoWeek] = []
    missed: set[IsoWeek] = set()
    for number, step in enumerate([timedelta(), *steps]):
        now += step
        latest = max(latest, now)
        zone = zones[number % len(zones)]
        plan = plan_weeks(report, zone, now, set(written), {*written, *missed})
        assert not missed & set(plan.missed)
        written += plan.due
        missed |= set(plan.missed)
        for week in plan.due:
            assert week.span(zone).end <= due_at(report, zone, week) <= now

    assert len(written) == len(set(written))
    first, last = min(written), max(written)
    owed = {first.later(n) for n in range(600) if first.later(n) <= last}
    assert owed == {*written, *missed}
