"""`other` closed per platform span: exact, signed, never inventing energy."""

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.counters import GapCause
from kwhere.energy.platform import Closure, Modelled, PlatformSpan, PlatformState, SpanClosed, close_span

SECOND = 1_000_000_000
WATT = 1_000_000


@pytest.mark.parametrize(
    ("platform", "measured", "modelled", "carry", "expected"),
    [
        pytest.param(300, 180, [], 0, Closure([], 120, 0), id="measured components only"),
        pytest.param(300, 180, [60, 20], 0, Closure([60, 20], 40, 0), id="the model fits"),
        pytest.param(300, 260, [60, 20], 0, Closure([30, 10], 0, 0), id="the model is scaled to what is left"),
        pytest.param(300, 320, [60, 20], 0, Closure([0, 0], 0, -20), id="components beyond the platform: a debt"),
        pytest.param(300, 180, [], -50, Closure([], 70, 0), id="a debt is paid first"),
        pytest.param(300, 180, [100], -50, Closure([70], 0, 0), id="a debt comes before the model"),
        pytest.param(0, 0, [10], 0, Closure([0], 0, 0), id="a platform that shows nothing"),
        pytest.param(100, 0, [1, 1, 1], -97, Closure([1, 1, 1], 0, 0), id="exactly enough"),
        pytest.param(100, 0, [1, 1, 1], -98, Closure([1, 1, 0], 0, 0), id="largest remainders, ties in order"),
    ],
)
def test_closure(platform: int, measured: int, modelled: list[int], carry: int, expected: Closure) -> None:
    assert close_span(platform, measured, modelled, carry) == expected


amounts = st.integers(0, 10**12)


@given(amounts, amounts, st.lists(amounts, max_size=6), st.integers(-(10**12), 0))
def test_a_closure_is_exact_and_nothing_in_it_is_negative(
    platform: int, measured: int, modelled: list[int], carry: int
) -> None:
    closure = close_span(platform, measured, modelled, carry)

    shares = measured + sum(closure.modelled) + closure.other_uj
    assert shares + closure.carry_uj == platform + carry
    assert closure.other_uj >= 0 >= closure.carry_uj
    assert all(0 <= scaled <= whole for scaled, whole in zip(closure.modelled, modelled, strict=True))


@given(
    loads=st.lists(st.integers(10, 400), min_size=8, max_size=60),
    window=st.integers(1, 5),
    lag=st.integers(0, 4),
    board_w=st.integers(0, 60),
)
def test_a_lagging_averaging_meter_stays_near_the_truth(loads: list[int], window: int, lag: int, board_w: int) -> None:
    """Totals of `other` lie within (largest - smallest load) x (averaging window + lag) of what the board drew."""
    truth = [load + board_w for load in loads]
    history = [truth[0]] * (window + lag) + truth
    carry = other = 0
    for step, load in enumerate(loads):
        newest = step + window
        shown = sum(history[newest - window + 1 : newest + 1]) // window
        closure = close_span(shown * WATT, load * WATT, [], carry)
        carry = closure.carry_uj
        other += closure.other_uj

    bound = (max(loads) - min(loads)) * (window + lag) * WATT + len(loads) * WATT  # whole watts are cut off above
    assert abs(other + carry - board_w * len(loads) * WATT) <= bound
    assert other + carry <= board_w * len(loads) * WATT + bound


def span(*inside: str, refresh_s: int = 1) -> PlatformSpan:
    return PlatformSpan(frozenset(inside), refresh_s * SECOND, now_ns=0)


def test_other_is_what_the_platform_has_beyond_its_components() -> None:
    platform = span("cpu[0]", "dram[0]", refresh_s=2)
    for _ in range(2):
        platform.measured("cpu[0]", 90 * WATT, SECOND)
        platform.measured("dram[0]", 10 * WATT, SECOND)
        platform.measured("gpu[0]", 700 * WATT, SECOND)  # not inside this meter

    closed = platform.close(260 * WATT, 2 * SECOND, 2 * SECOND)

    assert closed == SpanClosed(60 * WATT, {})


def test_a_debt_is_carried_into_the_next_span() -> None:
    platform = span("cpu[0]")
    platform.measured("cpu[0]", 120, SECOND)
    first = platform.close(100, SECOND, SECOND)
    owed = platform.carry_uj
    platform.measured("cpu[0]", 60, SECOND)
    second = platform.close(100, SECOND, 2 * SECOND)

    assert (first.other_uj, owed) == (0, -20)
    assert (second.other_uj, platform.carry_uj) == (20, 0)


def test_a_late_component_leaves_a_gap_and_no_other() -> None:
    platform = span("cpu[0]", "dram[0]")
    platform.measured("cpu[0]", 50, SECOND)

    late = platform.close(100, SECOND, SECOND)
    platform.measured("cpu[0]", 50, SECOND)
    platform.measured("dram[0]", 20, 2 * SECOND)  # comes later and reaches back into the span before
    mixed = platform.close(100, SECOND, 2 * SECOND)

    assert late == mixed == SpanClosed(None, {}, GapCause.LATE)
    assert platform.carry_uj == 0


def test_a_rebaselined_component_spoils_the_span_it_is_in_only() -> None:
    platform = span("cpu[0]")
    platform.spoil()
    spoiled = platform.close(100, SECOND, SECOND)
    platform.measured("cpu[0]", 60, SECOND)

    assert spoiled.gap is GapCause.LATE
    assert platform.close(100, SECOND, 2 * SECOND).other_uj == 40


def test_modelled_components_wait_for_the_platform_and_are_scaled() -> None:
    platform = span()
    platform.modelled("cpu[0]", dynamic_uj=60, idle_uj=60)
    platform.modelled("dram[0]", dynamic_uj=0, idle_uj=40)
    platform.modelled("cpu[0]", dynamic_uj=20, idle_uj=20)

    closed = platform.close(100, 2 * SECOND, 2 * SECOND)

    assert closed == SpanClosed(0, {"cpu[0]": Modelled(40, 40), "dram[0]": Modelled(0, 20)})


def test_without_a_valid_span_the_model_is_booked_unscaled() -> None:
    platform = span(refresh_s=10)
    platform.modelled("cpu[0]", 5, 7)
    early = platform.overdue(29 * SECOND)
    due = platform.overdue(30 * SECOND)

    assert early == {}
    assert due == {"cpu[0]": Modelled(5, 7)}
    assert platform.overdue(31 * SECOND) == {}


def test_what_was_booked_unscaled_spoils_the_span_it_came_from() -> None:
    platform = span(refresh_s=10)
    platform.modelled("cpu[0]", 5, 7)
    platform.overdue(30 * SECOND)
    platform.modelled("cpu[0]", 1, 2)

    closed = platform.close(1_000, 40 * SECOND, 40 * SECOND)

    assert closed == SpanClosed(None, {"cpu[0]": Modelled(1, 2)}, GapCause.LATE)


def test_the_model_of_a_spoiled_span_is_booked_unscaled_with_the_next_valid_one() -> None:
    platform = span(refresh_s=10)
    platform.modelled("cpu[0]", 5, 7)
    platform.spoil()
    spoiled = platform.close(1, 10 * SECOND, 10 * SECOND)
    platform.modelled("cpu[0]", 50, 50)
    platform.modelled("dram[0]", 0, 100)

    closed = platform.close(100, 10 * SECOND, 20 * SECOND)

    assert spoiled == SpanClosed(None, {}, GapCause.LATE)
    assert closed == SpanClosed(0, {"cpu[0]": Modelled(25 + 5, 25 + 7), "dram[0]": Modelled(0, 50)})


def test_after_an_outage_the_platform_closes_spans_again() -> None:
    """Readings are new every 10 s, steps each 5 s: the model between two of them is no reason to give a span up."""
    platform = span(refresh_s=10)
    for at in range(5, 60, 5):  # silent for far longer than three refresh intervals
        platform.modelled("cpu[0]", 50 * WATT, 0)
        platform.overdue(at * SECOND)
    back = platform.void(60 * SECOND)
    platform.modelled("cpu[0]", 50 * WATT, 0)
    between = platform.overdue(65 * SECOND)
    platform.modelled("cpu[0]", 50 * WATT, 0)

    closed = platform.close(300 * WATT, 10 * SECOND, 70 * SECOND)

    assert back.gap is None
    assert between == {}
    assert closed == SpanClosed(200 * WATT, {"cpu[0]": Modelled(100 * WATT, 0)})


def test_spans_that_are_all_late_hold_the_model_no_longer_than_three_refresh_intervals() -> None:
    platform = span("cpu[0]", refresh_s=10)
    due: list[Mapping[str, Modelled]] = []
    for at in range(5, 115, 10):  # 11 spans of two steps; the meter's reading comes with the second
        platform.modelled("dram[0]", WATT, 0)
        due.append(platform.overdue(at * SECOND))
        platform.modelled("dram[0]", WATT, 0)
        due.append(platform.close(300 * WATT, 10 * SECOND, (at + 5) * SECOND).modelled)

    assert sum(found["dram[0]"].dynamic_uj for found in due if found) == 22 * WATT


def test_a_platform_that_was_rebaselined_books_no_other() -> None:
    platform = span("cpu[0]")
    platform.measured("cpu[0]", 60, SECOND)
    platform.modelled("dram[0]", 0, 9)

    assert platform.void(SECOND) == SpanClosed(None, {})
    assert platform.void(3 * SECOND) == SpanClosed(None, {"dram[0]": Modelled(0, 9)})


@pytest.mark.parametrize(("carry_w_s", "below"), [(-18_000, False), (-18_001, True), (0, False)])
def test_a_meter_600_s_of_idle_power_in_debt_is_off(carry_w_s: int, below: bool) -> None:
    platform = span()
    platform.carry_uj = carry_w_s * WATT

    assert platform.below_components(30 * WATT) is below


def test_a_span_goes_on_after_a_restart() -> None:
    before = span("cpu[0]")
    before.measured("cpu[0]", 120, SECOND)
    before.close(100, SECOND, SECOND)
    before.measured("cpu[0]", 30, SECOND)
    before.modelled("dram[0]", 1, 2)
    state = before.saved()
    after = span("cpu[0]")

    after.restore(PlatformState(**{f.name: getattr(state, f.name) for f in dataclasses.fields(state)}))
    after.measured("cpu[0]", 10, SECOND)

    assert after.close(100, 2 * SECOND, 3 * SECOND) == SpanClosed(37, {"dram[0]": Modelled(1, 2)})
