"""Tables fit the terminal; numbers go right; cuts are marked."""

import pytest

from kwhere.cli.table import Column, bar, render


def test_numbers_go_right_and_the_widest_column_gives_way() -> None:
    columns = [Column("NAME", shrinks=True), Column("W", is_number=True)]

    lines = render(columns, [("a-very-long-name", "1.00"), ("b", "160")], 16)

    assert lines == ["NAME           W", "a-very-lo+  1.00", "b            160"]


def test_a_wide_table_is_not_cut() -> None:
    assert render([Column("NAME", shrinks=True)], [("x" * 300,)], 10_000)[1] == "x" * 300


@pytest.mark.parametrize(("ratio", "length"), [(None, 0), (0.0, 0), (0.001, 1), (0.5, 5), (1.0, 10), (1.7, 10)])
def test_bars(ratio: float | None, length: int) -> None:
    assert bar(ratio, 10) == "▇" * length
