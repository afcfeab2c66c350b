from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.ended import EndedShares, EndedUse, share_ended

SECOND = 1_000_000_000


def test_ended_units_share_the_rest_by_rate_and_time_lived() -> None:
    fast = EndedUse(lived_ns=SECOND // 2, rate_cpu_ns=2 * SECOND, rate_span_ns=SECOND)  # 1.0 CPU-seconds expected
    slow = EndedUse(lived_ns=SECOND, rate_cpu_ns=SECOND // 4, rate_span_ns=SECOND)  # 0.25

    shares = share_ended(SECOND, [fast, slow], cpus=4, parent_is_unit=False)

    assert shares == EndedShares([800_000_000, 200_000_000], 0)


def test_a_unit_never_read_is_taken_for_one_cpu() -> None:
    never_read = EndedUse(lived_ns=SECOND // 10)

    assert share_ended(30_000_000, [never_read], cpus=2, parent_is_unit=False) == EndedShares([30_000_000], 0)


def test_nobody_gets_more_than_its_time_on_all_cpus() -> None:
    use = EndedUse(lived_ns=SECOND // 10)

    assert share_ended(SECOND, [use], cpus=2, parent_is_unit=False) == EndedShares([SECOND // 5], SECOND * 4 // 5)


def test_within_a_unit_nobody_gets_more_than_was_expected() -> None:
    use = EndedUse(lived_ns=SECOND // 2, rate_cpu_ns=SECOND // 2, rate_span_ns=SECOND)

    assert share_ended(SECOND, [use], cpus=8, parent_is_unit=True) == EndedShares([SECOND // 4], SECOND * 3 // 4)


def test_units_that_stood_still_share_by_time_lived() -> None:
    asleep = [EndedUse(SECOND, 0, SECOND), EndedUse(3 * SECOND, 0, SECOND)]

    assert share_ended(400, asleep, cpus=1, parent_is_unit=False) == EndedShares([100, 300], 0)
    assert share_ended(400, asleep, cpus=1, parent_is_unit=True) == EndedShares([0, 0], 400)


def test_what_one_cannot_have_used_is_the_others() -> None:
    """As seen in a soak: 188 ms left; two short jobs of 9.7 and 3.4 ms can explain 26 of them, a slow one the rest."""
    slow = EndedUse(lived_ns=497_000_000, rate_cpu_ns=12_700_000, rate_span_ns=SECOND)
    short, shorter = EndedUse(9_700_000), EndedUse(3_400_000)

    shares = share_ended(188_000_000, [slow, short, shorter], cpus=2, parent_is_unit=False)

    assert shares == EndedShares([188_000_000 - 19_400_000 - 6_800_000, 19_400_000, 6_800_000], 0)


def test_a_unit_that_stood_still_may_have_worked_at_last() -> None:
    asleep, short = EndedUse(SECOND, 0, SECOND), EndedUse(SECOND // 100)

    shares = share_ended(SECOND // 2, [asleep, short], cpus=1, parent_is_unit=False)

    assert shares == EndedShares([490_000_000, 10_000_000], 0)


def test_nothing_to_share_and_nobody_to_share_it() -> None:
    assert share_ended(0, [EndedUse(SECOND)], cpus=1, parent_is_unit=False) == EndedShares([0], 0)
    assert share_ended(-5, [EndedUse(SECOND)], cpus=1, parent_is_unit=False) == EndedShares([0], 0)
    assert share_ended(70, [], cpus=1, parent_is_unit=False) == EndedShares([], 70)
    assert share_ended(70, [EndedUse(0)], cpus=1, parent_is_unit=False) == EndedShares([0], 70)


times = st.integers(0, 10 * SECOND)
ended_uses = st.builds(EndedUse, times, st.one_of(st.none(), times), times)


@given(st.integers(0, 100 * SECOND), st.lists(ended_uses, max_size=10), st.integers(1, 64), st.booleans())
def test_sharing_loses_no_cpu_time(rest_ns: int, ended: list[EndedUse], cpus: int, parent_is_unit: bool) -> None:
    shares = share_ended(rest_ns, ended, cpus=cpus, parent_is_unit=parent_is_unit)

    assert sum(shares.units) + shares.left == rest_ns
    assert min([0, *shares.units, shares.left]) == 0
    if not parent_is_unit:
        assert sum(shares.units) == min(rest_ns, sum(use.lived_ns * cpus for use in ended))
