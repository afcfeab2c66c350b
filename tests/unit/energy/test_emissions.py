import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.emissions import BUCKET_NS, BucketEnergy, grams, grams_over, spread

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("energy_uj", "pue", "factor", "expected"),
    [
        (3_600_000_000_000, 1.0, 44.18, 44.18),  # one kWh
        (3_600_000_000_000, 1.5, 44.18, 66.27),
        (1_800_000_000_000, 1.2, 400.0, 240.0),
        (0, 1.2, 400.0, 0.0),
    ],
)
def test_grams(energy_uj: int, pue: float, factor: float, expected: float) -> None:
    assert grams(energy_uj, pue, factor) == pytest.approx(expected)


def test_each_bucket_has_its_own_pue_and_factor() -> None:
    hour = 3_600_000_000_000

    total = grams_over([BucketEnergy(hour, 1.0, 50.0), BucketEnergy(hour, 2.0, 100.0)])

    assert total == pytest.approx(250.0)
    assert grams_over([]) == 0.0


def test_a_slot_is_spread_over_buckets_by_time_ties_to_the_earlier() -> None:
    start = 10 * BUCKET_NS - 30 * SECOND

    assert spread(101, start, start + 60 * SECOND) == [(9 * BUCKET_NS, 51), (10 * BUCKET_NS, 50)]
    assert spread(7, 10 * BUCKET_NS, 10 * BUCKET_NS + 1) == [(10 * BUCKET_NS, 7)]
    assert spread(0, start, start + 60 * SECOND) == [(9 * BUCKET_NS, 0), (10 * BUCKET_NS, 0)]


def test_an_empty_span_cannot_hold_energy() -> None:
    with pytest.raises(ValueError, match="spread"):
        spread(1, 5, 5)


@given(st.integers(0, 10**15), st.integers(0, 10**18), st.integers(1, 10**13))
def test_spreading_loses_nothing(amount: int, start_ns: int, length_ns: int) -> None:
    shares = spread(amount, start_ns, start_ns + length_ns)

    assert sum(share for _, share in shares) == amount
    assert [bucket for bucket, _ in shares] == sorted({bucket for bucket, _ in shares})
    assert shares[0][0] <= start_ns < shares[0][0] + BUCKET_NS
    assert shares[-1][0] < start_ns + length_ns <= shares[-1][0] + BUCKET_NS


@given(st.lists(st.integers(0, 10**12), max_size=20), st.floats(1, 2), st.floats(1, 1000))
def test_one_factor_over_all_buckets_is_energy_times_factor(energies: list[int], pue: float, factor: float) -> None:
    buckets = [BucketEnergy(energy_uj, pue, factor) for energy_uj in energies]

    assert grams_over(buckets) == pytest.approx(grams(sum(energies), pue, factor))
