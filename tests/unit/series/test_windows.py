"""Whole windows of a counter: slow meters, gaps, restarts; expected joules by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.series.functions import Grid
from kwhere.series.store import RawSeries
from kwhere.series.windows import down_windows, gap_windows, whole_windows

GRID = Grid(1, 3, 120.0)
"""Windows (0, 120], (120, 240], (240, 360]."""


def counter(times: list[float], values: list[float]) -> RawSeries:
    return RawSeries({}, tuple(times), tuple(values))


def every(seconds: int, power: float, refresh: int, start: int = -120, end: int = 480) -> RawSeries:
    """A meter of constant power, scraped every `seconds`, that has a new value every `refresh`."""
    times = [float(t) for t in range(start, end + 1, seconds)]
    return counter(times, [power * (t // refresh * refresh - start) for t in times])


@pytest.mark.parametrize("refresh", [1, 10, 30, 60, 110])
def test_a_slow_meter_shows_its_power_in_every_window(refresh: int) -> None:
    assert whole_windows(every(10, 50.0, refresh), GRID, 35.0) == pytest.approx((6000.0,) * 3, rel=0.1)


def test_a_meter_that_is_as_slow_as_the_scrape_is_exact() -> None:
    assert whole_windows(every(10, 50.0, 10), GRID, 35.0) == pytest.approx((6000.0,) * 3)


def test_a_window_with_a_gap_in_the_samples_is_not_known() -> None:
    series = every(10, 50.0, 10)
    kept = [i for i, t in enumerate(series.times) if not 150 <= t < 200]
    holed = counter([series.times[i] for i in kept], [series.values[i] for i in kept])

    assert list(whole_windows(holed, GRID, 35.0)) == [pytest.approx(6000.0), None, pytest.approx(6000.0)]


def test_a_window_that_is_not_over_is_not_known() -> None:
    assert whole_windows(every(10, 50.0, 10, end=350), GRID, 35.0)[2] is None


def test_a_restart_leaves_its_window_out() -> None:
    series = every(10, 50.0, 10)
    fallen = [v - 15000.0 if t > 200 else v for t, v in zip(series.times, series.values, strict=True)]

    assert whole_windows(counter(list(series.times), fallen), GRID, 35.0)[1] is None


def test_a_counter_that_stands_still_is_not_zero() -> None:
    assert whole_windows(counter([float(t) for t in range(-120, 490, 10)], [7.0] * 61), GRID, 35.0) == (None,) * 3


def test_nothing_gives_nothing() -> None:
    assert whole_windows(counter([], []), GRID, 35.0) == (None,) * 3
    assert whole_windows(counter([5.0], [1.0]), GRID, 35.0) == (None,) * 3


def test_a_gap_that_is_over_reaches_back_as_long_as_it_was() -> None:
    """30 s of gap, counted between 240 and 250: it may have begun at 210."""
    gaps = counter([220.0, 230.0, 240.0, 250.0, 260.0], [0.0, 0.0, 0.0, 30.0, 30.0])

    assert gap_windows(gaps, GRID) == {1, 2}
    assert gap_windows(counter([0.0, 10.0], [5.0, 5.0]), GRID) == frozenset()


def test_a_source_that_is_down_spoils_the_window_of_the_sample() -> None:
    assert down_windows(counter([120.0, 130.0, 360.0, 370.0], [0.0, 1.0, 0.0, 0.0]), GRID) == {0, 2}


@given(
    st.lists(st.tuples(st.floats(0.5, 60), st.floats(0, 1e5)), min_size=2, max_size=60),
    st.integers(1, 20),
)
def test_windows_never_hold_more_than_the_counter_grew_by(moves: list[tuple[float, float]], count: int) -> None:
    times, values = [0.0], [0.0]
    for seconds, joules in moves:
        times.append(times[-1] + seconds)
        values.append(values[-1] + joules)

    found = whole_windows(counter(times, values), Grid(1, count, 120.0), 30.0)

    assert sum(value for value in found if value is not None) <= values[-1] * (1 + 1e-9)
    assert all(value is None or value >= 0 for value in found)
