"""Values in force from a time on, and what an edit of them changes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.steps import Steps, changed_spans

END = 1000
STARTS = st.dictionaries(st.integers(0, END - 1), st.integers(0, 3), max_size=6)


@pytest.mark.parametrize(("moment", "expected"), [(9, None), (10, "a"), (19, "a"), (20, "b"), (10**18, "b")])
def test_a_value_is_in_force_from_its_start_until_the_next(moment: int, expected: str | None) -> None:
    assert Steps((10, 20), ("a", "b")).at(moment) == expected


def test_dated_steps_win_from_their_first_start_on() -> None:
    merged = Steps((0, 50, 150), (1, 2, 3)).over(Steps((100, 200), (8, 9)))

    assert list(merged.pairs()) == [(0, 1), (50, 2), (100, 8), (200, 9)]
    assert Steps((0,), (1,)).over(Steps()) == Steps((0,), (1,))


@pytest.mark.parametrize(("starts", "values"), [((1, 1), (2, 3)), ((2, 1), (2, 3)), ((1,), ())])
def test_starts_must_rise(starts: tuple[int, ...], values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="steps: expected"):
        Steps(starts, values)


def test_an_edit_changes_its_own_span_alone() -> None:
    before = Steps((0, 100, 200), (1.0, 1.2, 1.3))
    after = Steps((0, 100, 200), (1.0, 1.5, 1.3))

    assert changed_spans(before, after, END) == [(100, 200)]
    assert changed_spans(before, before, END) == []


@given(STARTS, STARTS)
def test_changed_spans_are_where_the_two_differ(before: dict[int, int], after: dict[int, int]) -> None:
    one, other = Steps.of(before.items()), Steps.of(after.items())

    spans = changed_spans(one, other, END)

    differ = {moment for moment in range(END) if one.at(moment) != other.at(moment)}
    assert {moment for start, end in spans for moment in range(start, end)} == differ
    assert all(first[1] < second[0] for first, second in pairwise(spans))
