"""One series out of several scrapes of the same thing."""

from hypothesis import given
from hypothesis import strategies as st

from kwhere.series.replicas import one_of


def counter(times: list[float], clock_seconds: float = 0.0) -> dict[float, float]:
    """Return 100 W as a scraper saw it whose clock is off."""
    return {time + clock_seconds: 100 * time for time in times}


def test_one_is_taken_as_it_is() -> None:
    assert one_of([{1.0: 2.0}], 25) == {1.0: 2.0}


def test_of_two_scrapers_the_fuller_one_speaks() -> None:
    fuller, other = counter([0, 10, 20, 30]), counter([5, 15, 25])

    assert one_of([other, fuller], 25) == fuller


def test_where_it_has_a_gap_the_other_one_speaks() -> None:
    fuller, other = counter([0, 10, 20, 100, 110, 120, 130, 140]), counter([45, 60, 75])

    assert one_of([fuller, other], 25) == {**fuller, **other}


def test_clocks_that_differ_make_no_counter_fall() -> None:
    ahead = counter([float(time) for time in range(0, 600, 10) if not 200 <= time < 300], 4.0)
    behind = counter([float(time) for time in range(5, 600, 15)], -3.0)

    found = sorted(one_of([ahead, behind], 25).items())

    values = [value for _, value in found]
    assert values == sorted(values)
    assert any(204 < time < 300 for time, _ in found)


def test_series_after_one_another_are_joined() -> None:
    """A pod of the agent is made anew: its label changes, the node's series go on."""
    before, after = counter([0, 10, 20]), counter([60, 70, 80])

    assert one_of([after, before], 25) == {**before, **after}


@given(
    st.lists(st.dictionaries(st.integers(0, 200).map(float), st.floats(0, 1e6), max_size=30), min_size=1, max_size=4)
)
def test_what_is_chosen_was_seen_and_the_fullest_is_in_it(replicas: list[dict[float, float]]) -> None:
    chosen = one_of(replicas, 25)

    fullest = max(len(samples) for samples in replicas)
    assert any(len(samples) == fullest and samples.items() <= chosen.items() for samples in replicas)
    assert all(any(samples.get(time) == value for samples in replicas) for time, value in chosen.items())
