"""Days, ISO weeks and months of the site."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.database.grid import HOUR_NS, Grid, to_ns
from kwhere.database.periods import periods
from kwhere.database.records import UsageBy

PARIS = Grid(ZoneInfo("Europe/Paris"))


def at(*words: int) -> int:
    return to_ns(datetime(*words, tzinfo=PARIS.zone))  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("inside", "key", "first", "hours"),
    [
        pytest.param((2026, 12, 31, 12), "2026-W53", (2026, 12, 28), 168, id="w53"),
        pytest.param((2027, 1, 3, 23, 59), "2026-W53", (2026, 12, 28), 168, id="w53-in-the-new-year"),
        pytest.param((2027, 1, 4), "2027-W01", (2027, 1, 4), 168, id="after-w53"),
        pytest.param((2026, 3, 25), "2026-W13", (2026, 3, 23), 167, id="spring"),
        pytest.param((2026, 10, 25, 2, 30), "2026-W43", (2026, 10, 19), 169, id="autumn"),
        pytest.param((2026, 10, 26), "2026-W44", (2026, 10, 26), 168, id="after-autumn"),
        pytest.param((2024, 12, 30), "2025-W01", (2024, 12, 30), 168, id="w01-in-the-old-year"),
        pytest.param((2021, 1, 1), "2020-W53", (2020, 12, 28), 168, id="w53-of-2020"),
    ],
)
def test_weeks_are_iso_weeks_of_their_true_length_case_users_52(
    inside: tuple[int, ...], key: str, first: tuple[int, ...], hours: int
) -> None:
    (week,) = periods(PARIS, UsageBy.WEEK, at(*inside), at(*inside) + 1)

    assert week.key == key
    assert week.start_ns == at(*first)
    assert week.end_ns - week.start_ns == hours * HOUR_NS


def test_a_year_of_53_weeks_case_users_52() -> None:
    weeks = periods(PARIS, UsageBy.WEEK, at(2025, 12, 29), at(2027, 1, 4))

    assert [weeks[0].key, weeks[-1].key, len(weeks)] == ["2026-W01", "2026-W53", 53]
    assert sum(week.end_ns - week.start_ns for week in weeks) == 53 * 168 * HOUR_NS


def test_months_and_days() -> None:
    months = periods(PARIS, UsageBy.MONTH, at(2026, 1, 31), at(2026, 3, 1) + 1)
    days = periods(PARIS, UsageBy.DAY, at(2026, 10, 25), at(2026, 10, 26))

    assert [month.key for month in months] == ["2026-01", "2026-02", "2026-03"]
    assert [(day.key, (day.end_ns - day.start_ns) // HOUR_NS) for day in days] == [("2026-10-25", 25)]


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)),  # noqa: DTZ001 - the strategy wants them naive
    st.integers(0, 200),
    st.sampled_from(sorted([UsageBy.DAY, UsageBy.WEEK, UsageBy.MONTH])),
    st.sampled_from(
        ["UTC", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "America/Sao_Paulo"]
    ),
)
def test_periods_follow_one_another_and_hold_the_span(start: datetime, days: int, by: UsageBy, zone: str) -> None:
    grid = Grid(ZoneInfo(zone))
    first, last = to_ns(start.replace(tzinfo=UTC)), to_ns(start.replace(tzinfo=UTC) + timedelta(days=days, seconds=1))

    found = periods(grid, by, first, last)

    assert found[0].start_ns <= first < found[0].end_ns
    assert found[-1].start_ns < last <= found[-1].end_ns
    assert all(one.end_ns == other.start_ns for one, other in pairwise(found))
    assert len({period.key for period in found}) == len(found)
