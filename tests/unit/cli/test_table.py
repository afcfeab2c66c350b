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


def test_columns_are_left_out_by_rank_where_shrinking_is_not_enough() -> None:
    columns = [
        Column("MANAGER", shrinks=True, rank=1),
        Column("UNIT", shrinks=True, min_width=4),
        Column("W", is_number=True, rank=2),
    ]
    rows = [("kubernetes", "a-long-unit", "12.5")]

    assert render(columns, rows, 40)[1] == "kubernetes  a-long-unit  12.5"
    assert render(columns, rows, 17)[1] == "kubern+  a-long-+"
    assert render(columns, rows, 8)[1] == "a-long-+"


def test_a_column_that_gives_last_keeps_its_width_while_others_can_give() -> None:
    columns = [Column("ID", shrinks=True, min_width=4), Column("NAME", shrinks=True, min_width=8, gives_last=True)]
    rows = [("an-id-of-sixteen", "a-name-of-17-long")]

    assert render(columns, rows, 25)[1] == "an-id+  a-name-of-17-long"
    assert render(columns, rows, 18)[1] == "an-+  a-name-of-1+"


def test_wide_signs_keep_columns_in_line() -> None:
    columns = [Column("NAME", shrinks=True, min_width=4), Column("W", is_number=True)]

    lines = render(columns, [("日本語の名前", "1"), ("é–", "20")], 12)

    assert lines == ["NAME       W", "日本語+    1", "é–        20"]


def test_a_name_does_not_break_its_line() -> None:
    assert render([Column("NAME")], [("a\nb\x1b[2J",)], 80)[1] == "a\ufffdb\ufffd[2J"


def test_without_a_header() -> None:
    assert render([Column("NAME")], [("a",)], 80, has_header=False) == ["a"]
