"""Times that the energy of a unit's buckets is of."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.database.reading.bucket_spans import Seen, seen_spans

LEAST = 60
FIVE = [(0, 300), (300, 600), (600, 900)]


@pytest.mark.parametrize(
    ("buckets", "seen", "found"),
    [
        pytest.param(FIVE, (0, 900), [Seen(0, 300, (0,)), Seen(300, 600, (1,)), Seen(600, 900, (2,))], id="whole"),
        pytest.param(FIVE[:2], (120, 420), [Seen(120, 300, (0,)), Seen(300, 420, (1,))], id="begins and ends within"),
        pytest.param(FIVE[:2], (290, 500), [Seen(290, 500, (0, 1))], id="began just before an edge"),
        pytest.param(FIVE[:2], (310, 600), [Seen(310, 600, (0, 1))], id="its slot began before it did"),
        pytest.param(FIVE[:2], (0, 310), [Seen(0, 310, (0, 1))], id="ended just after an edge"),
        pytest.param(FIVE[:1], (100, 105), [Seen(100, 105, (0,))], id="shorter than a slot"),
        pytest.param(FIVE[:2], (297, 302), [Seen(297, 302, (0, 1))], id="shorter than a slot, over an edge"),
        pytest.param(FIVE[:2], (700, 700), [Seen(0, 600, (0, 1))], id="its times contradict its energy"),
        pytest.param([(0, 300), (900, 1200)], (0, 1200), [Seen(0, 300, (0,)), Seen(900, 1200, (1,))], id="a hole"),
        pytest.param([], (0, 1200), [], id="nothing"),
    ],
)
def test_a_unit_is_seen_for_a_part_of_its_first_and_last_bucket(
    buckets: list[tuple[int, int]], seen: tuple[int, int], found: list[Seen]
) -> None:
    assert seen_spans(buckets, seen, LEAST) == found


@given(
    st.lists(st.integers(0, 40), unique=True).map(sorted),
    st.integers(-300, 13_000),
    st.integers(-300, 13_000),
    st.integers(1, 300),
)
def test_every_bucket_is_in_one_time_and_times_lie_apart(places: list[int], start: int, end: int, least: int) -> None:
    buckets = [(300 * place, 300 * place + 300) for place in places]

    found = seen_spans(buckets, (start, end), least)

    assert [at for seen in found for at in seen.buckets] == list(range(len(buckets)))
    assert all(seen.start_ns < seen.end_ns for seen in found)
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(found))
