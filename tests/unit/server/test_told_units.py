"""What a manager tells in several windows is written once, and every change of it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.managed_site import said

from kwhere.core.managed import ManagerUnit
from kwhere.server.told_units import ToldUnits

UNITS = [replace(said(str(number)), state=state) for number in range(3) for state in ("running", "completed")]


def written(windows: list[list[ManagerUnit]]) -> dict[tuple[str, str], ManagerUnit]:
    """Return what stands where the last record of a run counts."""
    return {(unit.unit, unit.run): unit for window in windows for unit in window}


@given(st.lists(st.lists(st.sampled_from(UNITS), max_size=8), max_size=6), st.integers(0, 3))
def test_what_is_written_is_the_same_as_without(windows: list[list[ManagerUnit]], most: int) -> None:
    told = ToldUnits(most)

    for upto in range(len(windows)):
        windows_of_news = [*windows[:upto], list(told.news(windows[upto]))]

        assert written(windows_of_news) == written(windows[: upto + 1])


def test_a_unit_of_two_windows_is_news_once() -> None:
    told = ToldUnits()

    assert [list(told.news(UNITS[:1])) for _ in range(3)] == [UNITS[:1], [], []]


def test_a_change_is_news_and_so_is_its_return() -> None:
    told = ToldUnits()
    running, completed = UNITS[:2]

    assert list(told.news([running, completed, running])) == [running, completed, running]
    assert list(told.news([running])) == []
    assert list(told.news([completed])) == [completed]


def test_what_a_window_did_not_tell_is_forgotten() -> None:
    told = ToldUnits()

    assert [list(told.news(units)) for units in (UNITS[:1], [], UNITS[:1])] == [UNITS[:1], [], UNITS[:1]]


def test_no_more_than_the_bound_is_kept() -> None:
    told = ToldUnits(most_kept=1)
    units = UNITS[::2]
    list(told.news(units))

    assert list(told.news(units)) == units[1:]
