"""Meters held against each other: hand-worked windows, and what must hold for all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.reconciliation import (
    LIMIT_RATIO,
    Residual,
    Shared,
    Verdict,
    against_components,
    compare,
    idle_share,
    total,
)

WINDOW = st.one_of(st.none(), st.floats(1.0, 1e6))
PAIRS = st.lists(st.tuples(WINDOW, WINDOW), max_size=40)


def residual(platform: list[float | None], inside: list[float | None]) -> Residual:
    found = against_components(platform, inside)
    assert found is not None
    return found


def test_two_meters_are_compared_over_what_both_know() -> None:
    shared = compare([100.0, None, 100.0, 200.0, 500.0], [90.0, 90.0, 90.0, 172.0, None])

    assert shared == Shared(400.0, 352.0, 3)
    assert shared.difference_ratio == pytest.approx(-0.12)


def test_fewer_than_three_windows_say_nothing() -> None:
    assert compare([1.0, 1.0, None], [1.0, 1.0, 1.0]) is None
    assert against_components([2.0, 2.0], [1.0, 1.0]) is None


def test_a_meter_that_shows_nothing_is_no_reference() -> None:
    shared = compare([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])

    assert shared is not None
    assert shared.difference_ratio is None
    assert against_components([0.0] * 3, [0.0] * 3) is None


def test_a_constant_residual_agrees_to_what_it_swings() -> None:
    """Components 200 J in each window; rests 50, 52, 48 J around 50; platform 250 J on average: 2/250."""
    found = residual([250.0, 252.0, 248.0], [200.0, 200.0, 200.0])

    assert found.joules == 150.0
    assert found.slope_ratio is None
    assert found.spread_ratio == pytest.approx(2 / 250)
    assert found.verdict is Verdict.AGREES


def test_fans_and_supplies_that_follow_the_load_agree() -> None:
    """Rest = 40 J + 20 % of the components: a straight line, nothing is left over."""
    inside: list[float | None] = [100.0, 200.0, 300.0, 400.0, 500.0, 1000.0]
    found = residual([40.0 + 1.2 * value for value in inside if value is not None], inside)

    assert found.slope_ratio == pytest.approx(0.2)
    assert found.within_ratio == pytest.approx(0.0, abs=1e-12)
    assert found.verdict is Verdict.AGREES


def test_one_of_two_supplies_is_below_the_components() -> None:
    found = residual([120.0, 121.0, 119.0], [200.0, 200.0, 200.0])

    assert found.below_ratio == pytest.approx(0.4)
    assert found.within_ratio == pytest.approx(0.4)
    assert found.verdict is Verdict.BELOW_COMPONENTS


def test_a_meter_that_sees_half_the_load_is_caught_above_the_components_too() -> None:
    """Platform = 300 J + half of the components: always above them, yet half of what they add is missing."""
    inside: list[float | None] = [100.0, 200.0, 300.0, 400.0, 500.0]
    found = residual([300.0 + 0.5 * value for value in inside if value is not None], inside)

    assert found.slope_ratio == pytest.approx(-0.5)
    assert found.verdict is Verdict.MISSES_LOAD


def test_a_gpu_that_nothing_measures_makes_it_unsteady() -> None:
    inside: list[float | None] = [100.0] * 6
    found = residual([150.0, 450.0, 150.0, 450.0, 150.0, 450.0], inside)

    assert found.spread_ratio == pytest.approx(0.5)
    assert found.verdict is Verdict.UNSTEADY


def test_one_window_of_ten_may_lie_outside() -> None:
    """Nineteen windows of 300 J and one of 320 J: the step that a lagging BMC shows late."""
    inside: list[float | None] = [250.0] * 20
    platform: list[float | None] = [*[300.0] * 19, 320.0]
    found = residual(platform, inside)

    assert found.spread_ratio == pytest.approx(1 / 301)


def test_a_sum_is_not_known_where_a_part_is_not() -> None:
    assert total([[1.0, None, 3.0], [10.0, 20.0, 30.0]]) == (11.0, None, 33.0)


def test_idle_is_at_most_what_there_is() -> None:
    assert idle_share([30.0, 60.0, None, -5.0], 40.0) == (70.0, 20.0)


@given(PAIRS)
def test_a_window_that_one_does_not_know_changes_nothing(pairs: list[tuple[float | None, float | None]]) -> None:
    platform, inside = [p for p, _ in pairs], [i for _, i in pairs]

    assert against_components([*platform, None, 7.0], [*inside, 7.0, None]) == against_components(platform, inside)
    assert compare([*platform, None, 7.0], [*inside, 7.0, None]) == compare(platform, inside)


@given(PAIRS, st.sampled_from([2.0**-10, 0.5, 4.0, 2.0**20]))
def test_the_unit_makes_no_difference(pairs: list[tuple[float | None, float | None]], unit: float) -> None:
    platform, inside = [p for p, _ in pairs], [i for _, i in pairs]
    found = against_components(platform, inside)
    scaled = against_components(
        [None if p is None else unit * p for p in platform], [None if i is None else unit * i for i in inside]
    )

    assert (found is None) == (scaled is None)
    if found is not None and scaled is not None:
        assert scaled.spread_ratio == pytest.approx(found.spread_ratio)
        assert scaled.verdict is found.verdict


@given(st.lists(st.floats(1.0, 1e6), min_size=5, max_size=40), st.floats(0.0, 1e5), st.floats(0.0, 1.0))
def test_a_straight_line_above_the_components_always_agrees(load: list[float], base: float, slope: float) -> None:
    platform: list[float | None] = [base + (1 + slope) * value for value in load]
    inside: list[float | None] = list(load)
    swing = max(load) - min(load)

    found = residual(platform, inside)

    assert found.joules >= -1e-6 * found.platform_joules
    if found.slope_ratio is not None:
        assert found.verdict is Verdict.AGREES
    else:
        assert found.spread_ratio <= slope * swing / (found.platform_joules / found.windows) + 1e-9


@given(PAIRS)
def test_figures_are_finite_and_of_the_right_sign(pairs: list[tuple[float | None, float | None]]) -> None:
    found = against_components([p for p, _ in pairs], [i for _, i in pairs])

    if found is not None:
        assert found.spread_ratio >= 0
        assert 0 <= found.below_ratio < 1
        assert found.within_ratio >= found.below_ratio
        assert (found.verdict is Verdict.BELOW_COMPONENTS) == (found.below_ratio > LIMIT_RATIO)
