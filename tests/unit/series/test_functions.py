"""Rates, alignment, joins and sums: by hand, and as properties."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.timespan import Span
from kwhere.series.functions import (
    Column,
    Grid,
    Reduction,
    align,
    grid_of,
    growth,
    increase,
    join,
    last_per_step,
    mean_by,
    rate,
    ratio,
    sum_by,
)
from kwhere.series.store import RawSeries

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def span(start: float, end: float) -> Span:
    return Span(EPOCH + timedelta(seconds=start), EPOCH + timedelta(seconds=end))


def series(*samples: tuple[float, float]) -> RawSeries:
    return RawSeries({}, tuple(t for t, _ in samples), tuple(v for _, v in samples))


def column(values: list[float | None], **labels: str) -> Column:
    return Column(labels, tuple(values))


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [
        (0, 30, (10, 20, 30)),
        (5, 35, (10, 20, 30)),
        (10, 20, (20,)),
        (11, 19, ()),
    ],
)
def test_a_grid_is_the_ends_of_the_whole_steps_of_a_span(start: float, end: float, times: tuple[float, ...]) -> None:
    assert grid_of(span(start, end), 10).times == times


def test_a_counter_that_falls_began_again_at_zero() -> None:
    assert list(growth([5, 7, 7, 2, 6])) == [2, 0, 2, 4]


def test_a_rate_is_growth_over_the_step() -> None:
    found = rate(series((0, 0), (10, 100), (20, 150), (30, 150)), Grid(1, 3, 10), 35)

    assert found.values == (10, 5, 0)


def test_growth_between_off_grid_samples_is_spread_evenly() -> None:
    # 60 J between 5 s and 15 s: 30 J before the point at 10 s, 30 J after it; the step to 10 s is half known.
    found = increase(series((5, 0), (15, 60)), Grid(1, 2, 10), 35)

    assert list(found.values) == [30, 30]
    assert rate(series((5, 0), (15, 60)), Grid(1, 2, 10), 35).values == (6, 6)


def test_a_rate_survives_a_reset() -> None:
    # 100 → 20: the counter began again and grew by 20.
    assert rate(series((0, 80), (10, 100), (20, 20)), Grid(1, 2, 10), 35).values == (2, 2)


def test_a_gap_breaks_a_rate() -> None:
    found = rate(series((0, 0), (10, 10), (100, 100), (110, 120)), Grid(1, 11, 10), 35)

    assert found.values == (1, *[None] * 9, 2)


def test_a_rate_needs_two_samples() -> None:
    assert rate(series((5, 1)), Grid(1, 2, 10), 35).values == (None, None)
    assert rate(series(), Grid(1, 2, 10), 35).values == (None, None)


@pytest.mark.parametrize(
    ("reduction", "value"), [(Reduction.LAST, 2), (Reduction.MIN, 1), (Reduction.MAX, 6), (Reduction.MEAN, 3)]
)
def test_samples_of_one_step_become_one_value(reduction: Reduction, value: float) -> None:
    found = align(series((2, 1), (5, 6), (10, 2), (11, 9)), Grid(1, 1, 10), 25, reduction)

    assert found.values == (value,)


def test_a_gauge_is_held_until_it_is_stale() -> None:
    assert align(series((8, 4)), Grid(1, 4, 10), 25).values == (4, 4, 4, None)


def test_a_sample_on_a_point_belongs_to_the_step_that_ends_there() -> None:
    assert align(series((10, 1), (20, 2)), Grid(1, 2, 10), 0).values == (1, 2)


def test_sums_skip_what_is_missing_and_are_none_only_where_all_is() -> None:
    columns = [
        column([1, None, None], node="a", part="idle"),
        column([2, 3, None], node="b", part="idle"),
        column([5, 5, 5], node="b", part="dynamic"),
    ]

    found = sum_by(columns, ["part"])

    assert found == [column([5, 5, 5], part="dynamic"), column([3, 3, None], part="idle")]


def test_means_are_over_what_is_known() -> None:
    assert mean_by([column([1, None]), column([3, 4])], []) == [column([2, 4])]


def test_a_label_that_is_absent_groups_as_empty() -> None:
    assert sum_by([column([1]), column([2], mig="1g")], ["mig"]) == [column([1], mig=""), column([2], mig="1g")]


def test_a_join_needs_both_sides() -> None:
    used = [column([1, None, 3], unit="a", node="x"), column([9, 9, 9], unit="b", node="x")]
    held = [column([2, 2, 0], unit="a")]

    assert join(used, held, ["unit"], ratio) == [column([0.5, None, None], unit="a", node="x")]


def test_an_ambiguous_join_is_refused() -> None:
    with pytest.raises(ValueError, match="two columns"):
        join([column([1])], [column([1], a="1"), column([1], a="2")], [], ratio)


def test_the_last_sample_of_a_step_stands_for_it() -> None:
    assert list(last_per_step([1, 9, 10, 11, 40], [1, 2, 3, 4, 5], 10)) == [(10, 3), (11, 4), (40, 5)]


COUNTERS = st.lists(
    st.tuples(st.floats(0.01, 30), st.one_of(st.just(0.0), st.floats(0, 1e6), st.just(-1.0))), min_size=1, max_size=60
)
"""Distances in time, and growth; -1 stands for a restart."""


def counter(steps: list[tuple[float, float]]) -> RawSeries:
    time, value = 1000.0, 0.0
    samples = [(time, value)]
    for distance, grown in steps:
        time, value = time + distance, 0.0 if grown < 0 else value + grown
        samples.append((time, value))
    return series(*samples)


@given(COUNTERS, st.sampled_from([0.5, 1, 7, 10, 60, 3600]))
def test_increases_over_a_grid_sum_up_to_the_counters_own(steps: list[tuple[float, float]], step: float) -> None:
    raw = counter(steps)
    grid = grid_of(span(raw.times[0] - 2 * step, raw.times[-1] + 2 * step), step)

    found = increase(raw, grid, max_gap_seconds=30.1)

    assert math.fsum(v for v in found.values if v is not None) == pytest.approx(sum(growth(raw.values)), rel=1e-9)


@given(COUNTERS, st.sampled_from([1.0, 10.0, 60.0]))
def test_a_rate_is_never_negative_and_never_above_the_steepest_growth(
    steps: list[tuple[float, float]], step: float
) -> None:
    raw = counter(steps)
    slopes = [
        grown / (after - before)
        for before, after, grown in zip(raw.times, raw.times[1:], growth(raw.values), strict=False)
    ]

    found = rate(raw, grid_of(span(raw.times[0], raw.times[-1] + step), step), max_gap_seconds=31)

    assert all(v is None or -1e-9 <= v <= max(slopes) * (1 + 1e-6) + 1e-9 for v in found.values)


@given(COUNTERS, st.floats(0, 31))
def test_what_lies_in_a_gap_is_unknown(steps: list[tuple[float, float]], max_gap: float) -> None:
    raw = counter(steps)
    grid = grid_of(span(raw.times[0] - 5, raw.times[-1] + 5), 1)

    found = rate(raw, grid, max_gap)

    near = [(a, b) for a, b in zip(raw.times, raw.times[1:], strict=False) if b - a <= max_gap]
    for point, value in zip(grid.times, found.values, strict=True):
        touched = any(a < point and point - 1 < b and min(b, point) > max(a, point - 1) for a, b in near)
        assert (value is not None) == touched


MOMENTS = st.integers(0, 1_000_000_000).map(lambda ms: ms / 1000)  # times are milliseconds, as every store has them


@given(st.lists(st.tuples(MOMENTS, st.floats(-1e9, 1e9)), max_size=80), st.sampled_from([0.1, 1, 10, 97]))
def test_one_sample_a_step_is_kept_and_it_is_one_of_the_originals(
    samples: list[tuple[float, float]], step: float
) -> None:
    samples.sort(key=lambda sample: sample[0])

    kept = list(last_per_step([t for t, _ in samples], [v for _, v in samples], step))

    assert set(kept) <= set(samples)
    numbers = [math.ceil(t / step) for t, _ in kept]
    assert numbers == sorted(set(numbers))
    assert {math.ceil(t / step) for t, _ in samples} == set(numbers)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e9, 1e9)), max_size=40))
def test_reductions_are_ordered(samples: list[tuple[float, float]]) -> None:
    raw = series(*sorted(samples))
    grid = Grid(1, 12, 10)

    low, mean, high = (align(raw, grid, 0, r).values for r in (Reduction.MIN, Reduction.MEAN, Reduction.MAX))

    for a, b, c in zip(low, mean, high, strict=True):
        assert (a is None) == (b is None) == (c is None)
        assert a is None or b is None or c is None or a - 1 <= b <= c + 1
