"""Unwrapping: R1, R2, R13, R14, R24, R25 and their neighbours, worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.counters import (
    GapCause,
    Rest,
    capped_delta,
    modulus_of,
    nonnegative_delta,
    rest,
    unwrap,
)

SECOND = 1_000_000_000
WATT = 1_000_000
RANGE_14 = 262_143_328_850  # unit 2^-14 J, truncated to 61035 nJ
RANGE_16 = 65_532_610_987  # unit 2^-16 J, truncated to 15258 nJ


@pytest.mark.parametrize(
    ("previous", "current", "range_uj", "expected"),
    [
        pytest.param(262_143_000_000, 500_000, RANGE_14, 828_850 + 61, id="case_energy_r1"),
        pytest.param(RANGE_14, 0, RANGE_14, 61, id="case_energy_r2"),
        pytest.param(262_143_999_938, 10, 262_143_999_938, 61 + 10, id="exact unit of newer kernels"),
        pytest.param(65_532_610_900, 113, RANGE_16, 87 + 113 + 15, id="AMD unit"),
        pytest.param(1_000_000, 3_500_000, RANGE_14, 2_500_000, id="no wrap"),
        pytest.param(7, 7, RANGE_14, 0, id="nothing"),
    ],
)
def test_counter_survives_a_wrap(previous: int, current: int, range_uj: int, expected: int) -> None:
    modulus = modulus_of(range_uj, max(previous, current))

    delta = unwrap(previous, current, modulus=modulus, elapsed_ns=SECOND, p_max_uw=500 * WATT)

    assert delta == expected


@pytest.mark.parametrize(
    ("previous", "current", "elapsed_s", "cause"),
    [
        pytest.param(1_000_000, 9_001_000_000, 1, GapCause.IMPLAUSIBLE, id="case_energy_r13 9 kW in two 35 W machines"),
        pytest.param(0, 10**12, 1, GapCause.IMPLAUSIBLE, id="case_energy_r14 garbage above the range"),
        pytest.param(194_127_997_354, 45_766_381_128, 1, GapCause.RESET, id="case_energy_r14 Xen changes its counter"),
        pytest.param(200_000_000_000, 5_000_000, 1, GapCause.RESET, id="driver reload"),
        pytest.param(1_000_000, 2_000_000, 525, GapCause.AMBIGUOUS, id="longer than range over P_max: 524.3 s"),
        pytest.param(2_000_000, 1_000_000, 3600, GapCause.AMBIGUOUS, id="an hour away"),
    ],
)
def test_a_delta_that_cannot_be_is_a_gap(previous: int, current: int, elapsed_s: int, cause: GapCause) -> None:
    modulus = modulus_of(RANGE_14, max(previous, current))

    delta = unwrap(previous, current, modulus=modulus, elapsed_ns=elapsed_s * SECOND, p_max_uw=500 * WATT)

    assert delta is cause


@pytest.mark.parametrize("range_uj", [None, 0, 999])
def test_without_a_usable_range_a_decrease_is_a_reset(range_uj: int | None) -> None:
    modulus = modulus_of(range_uj, 1000)

    assert unwrap(1000, 10, modulus=modulus, elapsed_ns=SECOND, p_max_uw=500 * WATT) is GapCause.RESET
    assert unwrap(10, 1000, modulus=modulus, elapsed_ns=10**6 * SECOND, p_max_uw=500 * WATT) == 990


def test_a_previous_value_beyond_the_modulus_is_a_reset() -> None:
    assert unwrap(100, 5, modulus=100, elapsed_ns=1, p_max_uw=None) is GapCause.RESET


def test_without_a_largest_power_every_rise_counts() -> None:
    assert unwrap(0, 10**15, modulus=None, elapsed_ns=0, p_max_uw=None) == 10**15


def test_a_counter_may_lead_the_clock_by_one_tick() -> None:
    # 500 W for 1 ms is 0.5 J; a tick of the counter, or a late reader, may bring 50 ms more
    assert unwrap(0, 25_500_000, modulus=None, elapsed_ns=1_000_000, p_max_uw=500 * WATT) == 25_500_000
    assert unwrap(0, 25_500_001, modulus=None, elapsed_ns=1_000_000, p_max_uw=500 * WATT) is GapCause.IMPLAUSIBLE


@given(
    range_uj=st.sampled_from([RANGE_14, RANGE_16, 262_143_999_938]),
    start=st.integers(0, RANGE_16),
    data=st.data(),
)
def test_any_walk_reduced_by_the_modulus_gives_back_its_total(range_uj: int, start: int, data: st.DataObject) -> None:
    modulus = modulus_of(range_uj, 0)
    assert modulus is not None
    steps = data.draw(st.lists(st.integers(0, modulus - 1), max_size=30))
    raw = total = start
    found = 0

    for step in steps:
        total += step
        delta = unwrap(raw, total % modulus, modulus=modulus, elapsed_ns=0, p_max_uw=None)
        assert not isinstance(delta, GapCause)
        found += delta
        raw = total % modulus

    assert found == total - start


def test_kernel_times_never_run_backwards() -> None:
    assert nonnegative_delta(50, 49) == 0  # case_energy_a17: iowait may fall
    assert nonnegative_delta(100, 101) == 1


@pytest.mark.parametrize(("delta", "expected"), [(3_600 * SECOND, 2 * SECOND), (SECOND, SECOND), (-5, 0)])
def test_first_delta_of_a_late_found_unit_is_capped_at_all_cpus(delta: int, expected: int) -> None:
    assert capped_delta(delta, SECOND, cpus=2) == expected


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), max_size=50))
def test_a_rest_is_never_negative_and_loses_nothing(pairs: list[tuple[int, int]]) -> None:
    carry = 0
    given_out = 0
    for whole, parts in pairs:
        found = rest(whole, parts, carry)
        assert found.amount >= 0 >= found.carry
        carry = found.carry
        given_out += found.amount

    assert given_out + carry == sum(whole - parts for whole, parts in pairs)


def test_a_negative_rest_is_owed_by_the_next_step() -> None:
    assert rest(100, 130, 0) == Rest(0, -30)
    assert rest(100, 20, -30) == Rest(50, 0)
