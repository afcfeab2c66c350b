"""What a kWh costs at a time: by hand, and over changes of clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.tariff import MINUTES_PER_DAY, Period, Tariff, cost

PARIS = ZoneInfo("Europe/Paris")
WORKDAYS = frozenset(range(5))
DAY_RATE = Tariff(0.10, (Period(WORKDAYS, 7 * 60, 22 * 60, 0.30),))
NIGHT_RATE = Tariff(0.30, (Period(frozenset(range(7)), 22 * 60, 6 * 60, 0.10),))


@pytest.mark.parametrize(
    ("tariff", "local", "expected"),
    [
        (DAY_RATE, "2026-01-05T06:59", 0.10),  # a Monday
        (DAY_RATE, "2026-01-05T07:00", 0.30),
        (DAY_RATE, "2026-01-05T21:59", 0.30),
        (DAY_RATE, "2026-01-05T22:00", 0.10),
        (DAY_RATE, "2026-01-10T12:00", 0.10),  # a Saturday
        (NIGHT_RATE, "2026-01-05T22:00", 0.10),
        (NIGHT_RATE, "2026-01-06T05:59", 0.10),
        (NIGHT_RATE, "2026-01-06T06:00", 0.30),
    ],
)
def test_price_by_weekday_and_time(tariff: Tariff, local: str, expected: float) -> None:
    assert tariff.price_at(datetime.fromisoformat(local)) == expected


@pytest.mark.parametrize(("local", "expected"), [("2026-01-09T23:00", 5.0), ("2026-01-10T01:00", 5.0)])
def test_a_night_belongs_to_the_day_it_began_on(local: str, expected: float) -> None:
    friday_night = Tariff(1.0, (Period(frozenset({4}), 22 * 60, 6 * 60, 5.0),))

    assert friday_night.price_at(datetime.fromisoformat(local)) == expected
    assert friday_night.price_at(datetime.fromisoformat("2026-01-09T01:00")) == 1.0  # Thursday's night


def test_the_first_period_that_holds_counts() -> None:
    tariff = Tariff(1.0, (Period(WORKDAYS, 600, 660, 3.0), Period(WORKDAYS, 0, MINUTES_PER_DAY, 2.0)))

    assert tariff.price_at(datetime.fromisoformat("2026-01-05T10:30")) == 3.0
    assert tariff.price_at(datetime.fromisoformat("2026-01-05T12:00")) == 2.0


@pytest.mark.parametrize(
    ("day", "hours", "cheap_hours"),
    # Night rate 22:00 to 06:00: 8 h of 24; the night of spring lacks an hour, that of autumn has one more.
    [("2026-03-28", 24, 8), ("2026-03-29", 23, 7), ("2026-10-25", 25, 9)],
)
def test_days_of_23_and_25_hours(day: str, hours: int, cheap_hours: int) -> None:
    start = datetime.fromisoformat(day).replace(tzinfo=PARIS).astimezone(UTC)
    next_day = datetime.fromisoformat(day) + timedelta(days=1)
    end = next_day.replace(tzinfo=PARIS).astimezone(UTC)
    buckets = int((end - start) / timedelta(minutes=5))

    prices = [NIGHT_RATE.price_at((start + timedelta(minutes=5 * n)).astimezone(PARIS)) for n in range(buckets)]

    assert (buckets // 12, prices.count(0.10) // 12) == (hours, cheap_hours)


def test_cost_by_hand() -> None:
    # 2 kWh x PUE 1.5 x 0.20 per kWh = 0.60
    assert cost(2 * 3_600_000_000_000, 1.5, 0.20) == pytest.approx(0.60)


@given(st.sets(st.integers(0, 6)), st.integers(0, MINUTES_PER_DAY - 1), st.integers(0, MINUTES_PER_DAY))
def test_a_period_holds_as_many_minutes_of_a_week_as_it_is_long(days: set[int], start: int, end: int) -> None:
    period = Period(frozenset(days), start, end, 1.0)
    length = end - start if start < end else end - start + MINUTES_PER_DAY

    held = sum(period.holds(day, minute) for day in range(7) for minute in range(MINUTES_PER_DAY))

    assert held == length * len(days)
