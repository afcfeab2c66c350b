"""The greenest window, against figures worked out by hand and against every window there is."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.timespan import Span
from kwhere.emission_factors.provider import Basis, Factor, Quality, Scope, System
from kwhere.emission_factors.windows import Window, greenest_window, mean_over

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(start: float, end: float) -> Span:
    return Span(NOON + start * HOUR, NOON + end * HOUR)


def factor(start: float, end: float, grams: float) -> Factor:
    return Factor(
        "p",
        "FR",
        hours(start, end),
        grams,
        NOON,
        Basis.AVERAGE,
        Scope.DIRECT,
        System.CONSUMPTION,
        Quality.FORECAST,
        "s",
    )


def by_hour(*grams: float) -> list[Factor]:
    return [factor(hour, hour + 1, each) for hour, each in enumerate(grams)]


def test_the_least_mean_wins_not_the_least_hour() -> None:
    # Of four-hour windows: 0 to 4 is 250, 1 to 5 is 205, 2 to 6 is 160, 3 to 7 is 185, 4 to 8 is 210.
    factors = by_hour(400, 200, 100, 300, 220, 20, 200, 400)

    assert greenest_window(factors, hours(0, 8), 4 * HOUR) == Window(hours(2, 6), 160)


def test_the_earliest_of_equals_wins() -> None:
    assert greenest_window(by_hour(5, 1, 5, 1, 5), hours(0, 5), HOUR) == Window(hours(1, 2), 1)


def test_a_window_may_begin_within_a_figure() -> None:
    # 1.5 hours that end where the expensive hour begins: half an hour at 20, one at 10.
    found = greenest_window(by_hour(20, 10, 90), hours(0, 3), 1.5 * HOUR)

    assert found is not None
    assert found.span == hours(0.5, 2)
    assert found.grams_per_kwh == pytest.approx((0.5 * 20 + 10) / 1.5)


def test_a_hole_is_no_zero() -> None:
    factors = [factor(0, 2, 300), factor(4, 8, 200)]

    assert greenest_window(factors, hours(0, 8), 4 * HOUR) == Window(hours(4, 8), 200)
    assert greenest_window(factors, hours(0, 7), 4 * HOUR) is None
    assert mean_over(factors, hours(1, 5)) is None


def test_now_is_within_a_figure_and_the_end_too() -> None:
    found = greenest_window(by_hour(10, 30, 20), hours(0.25, 2.5), HOUR)

    # The best: a quarter hour in, 0.75 h at 10 and 0.25 h at 30.
    assert found is not None
    assert found.span == hours(0.25, 1.25)
    assert found.grams_per_kwh == pytest.approx(15)


@pytest.mark.parametrize("length", [timedelta(0), -HOUR])
def test_a_length_is_more_than_nothing(length: timedelta) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        greenest_window(by_hour(1), hours(0, 1), length)


def test_nothing_fits_into_nothing() -> None:
    assert greenest_window([], hours(0, 24), HOUR) is None
    assert greenest_window(by_hour(1, 1), hours(0, 2), 3 * HOUR) is None


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 500), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(0, 6),
)
def test_no_window_on_a_fine_grid_is_better(parts: list[tuple[int, int, bool]], length: int, start: int) -> None:
    """Edges lie on quarter hours, so the best one does too."""
    factors, at = [], 0
    for quarters, grams, there in parts:
        if there:
            factors.append(factor(at / 4, (at + quarters) / 4, grams))
        at += quarters
    within = hours(start / 4, max(at, start + 1) / 4)

    found = greenest_window(factors, within, length * HOUR / 4)

    every = [mean_over(factors, hours(q / 4, (q + length) / 4)) for q in range(start, max(at, start + 1) - length + 1)]
    means = [mean for mean in every if mean is not None]
    assert (found is None) == (not means)
    if found is not None:
        assert found.grams_per_kwh == pytest.approx(min(means))
        assert within.start <= found.span.start
        assert found.span.end <= within.end
