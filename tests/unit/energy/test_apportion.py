from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.apportion import apportion

weights_of = st.lists(st.integers(0, 10**18), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("total", "weights", "expected"),
    [
        (10, [1, 1, 1], [4, 3, 3]),
        (2, [1, 1, 1], [1, 1, 0]),
        (100, [50, 30, 20], [50, 30, 20]),
        (7, [3, 0, 1], [5, 0, 2]),  # 5.25, 1.75: the larger remainder wins
        (0, [0, 0], [0, 0]),
        (0, [], []),
        (5, [9], [5]),
        pytest.param(1_000_000, [1] * 300, [3334] * 100 + [3333] * 200, id="case_energy_a5"),
    ],
)
def test_largest_remainders(total: int, weights: list[int], expected: list[int]) -> None:
    assert apportion(total, weights) == expected


@given(st.integers(0, 10**15), weights_of)
def test_shares_are_exact_in_sum_and_within_one_of_their_quota(total: int, weights: list[int]) -> None:
    if sum(weights) == 0:
        weights = [*weights, 1]

    shares = apportion(total, weights)

    assert sum(shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert share >= 0
        assert abs(share - Fraction(total * weight, sum(weights))) < 1
        assert weight or share == 0


@given(st.integers(0, 10**12), st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.data())
def test_order_changes_nothing_but_ties(total: int, weights: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(weights))))

    plain = apportion(total, weights)
    turned = apportion(total, [weights[index] for index in order])

    assert sorted(plain) == sorted(turned)
    assert all(abs(turned[place] - plain[index]) <= 1 for place, index in enumerate(order))


@pytest.mark.parametrize(("total", "weights"), [(5, [0, 0]), (5, []), (-1, [1]), (5, [3, -1])])
def test_nothing_to_share_by_is_an_error(total: int, weights: list[int]) -> None:
    with pytest.raises(ValueError, match="apportion"):
        apportion(total, weights)
