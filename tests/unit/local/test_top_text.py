"""The screen of top, line by line, in any width."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kwhere.core.terms import Component, Method
from kwhere.local.top_choice import Choice, SortKey
from kwhere.local.top_history import TopRow, TopView
from kwhere.local.top_text import TopHead, render

HEAD = TopHead("n1", "12:00:00", "agent")
ROWS = (
    TopRow("slurm", "eve", "4242 cfd", 160.0, 3600.0, 7200.0, 8.0, 8 << 30, 16),
    TopRow("docker", None, "web", 20.0, 360.0, 720.0, 0.25, 1 << 29, 3),
)
REST = (
    TopRow("", None, "system", 4.0, 36.0, 36.0),
    TopRow("", None, "unallocated", 0.0, 0.0, 0.0),
)
VIEW = TopView(
    ROWS,
    REST,
    node_watts=184.0,
    component_watts={Component.CPU: 150.0, Component.DRAM: 34.0},
    methods={Component.CPU: Method.COUNTER, Component.DRAM: Method.COUNTER},
    seconds=75.0,
)


def lines(view: TopView = VIEW, choice: Choice | None = None, width: int = 80, height: int | None = None) -> list[str]:
    """Return plain lines without what ends them."""
    return [line.plain.rstrip() for line in render(view, choice or Choice(), HEAD, width, height)]


def test_the_table_in_80_columns() -> None:
    assert lines() == [
        "kwhere top  n1  2 units                      agent, energy of 00:01:15  12:00:00",
        "184 W now:  cpu 150  dram 34.0  gpu –  other –                          measured",
        "    W    Wh  CPUs   GiB PROCS MANAGER USER NAME",
        "  160  1.00  8.00  8.00    16 slurm   eve  4242 cfd    ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇",
        " 20.0  0.10  0.25  0.50     3 docker  –    web         ▇▇",
        " 4.00  0.01     –     –     –              system",
        " 0.00  0.00     –     –     –              unallocated",
    ]


def test_energy_since_each_began() -> None:
    found = lines(choice=Choice(totals=True))

    assert "energy since each began" in found[0]
    assert " 2.00 " in found[3]


def test_what_is_estimated_is_marked() -> None:
    mixed = {Component.CPU: Method.COUNTER, Component.DRAM: Method.MODELLED}
    view = TopView(ROWS, (), 184.0, VIEW.component_watts, mixed, 75.0)

    assert "cpu 150  dram ~34.0" in lines(view)[1]
    assert lines(view)[1].endswith("~ estimated")


@pytest.mark.parametrize("width", [200, 120, 80, 60, 40, 20, 5])
@pytest.mark.parametrize("height", [50, 24, 12, 6, 3, 1])
def test_a_screen_is_never_larger_than_the_terminal(width: int, height: int) -> None:
    rows = tuple(TopRow("kubernetes", "u" * 30, f"unit {n} " + "名" * 20, float(n)) for n in range(60))
    view = TopView(rows, REST, 1.0, {Component.CPU: 1.0}, {Component.CPU: Method.MODELLED}, 3.0)

    for choice in (Choice(), Choice(help=True), Choice(typing="unit 5"), Choice(filter="unit 5", offset=3)):
        found = render(view, choice, HEAD, width, height)

        assert len(found) == height
        assert all(cell_len(line.plain) <= width for line in found)


def test_a_process_s_name_does_not_drive_the_terminal_case_users_40() -> None:
    view = TopView((TopRow("process", "\u202eeve", "a\x1b[2J\x9b1m\x07", 1.0),), (), 1.0, {}, {}, 3.0)

    shown = "".join(line.plain for line in render(view, Choice(), HEAD, 120))

    assert "a\ufffd[2J" in shown
    assert shown.isprintable()


def test_a_narrow_terminal_keeps_power_and_name() -> None:
    head = lines(width=30)[2]

    assert head.split()[0] == "W"
    assert head.endswith("NAME")
    assert "PROCS" not in head


def test_what_belongs_to_no_unit_stays_in_sight() -> None:
    rows = tuple(TopRow("process", "root", f"p{n:02d}", 100.0 - n) for n in range(60))
    found = lines(TopView(rows, REST, 1.0, seconds=1.0), width=80, height=12)

    assert found[-1].startswith("q quit  ? help")
    assert found[-2].endswith("unallocated")
    assert found[-3].endswith("system")
    assert [line.split()[-2] if "▇" in line else line.split()[-1] for line in found[3:6]] == ["p00", "p01", "p02"]


def test_scrolling_ends_at_the_last_unit() -> None:
    rows = tuple(TopRow("process", "root", f"p{n:02d}", 100.0 - n) for n in range(60))
    found = lines(TopView(rows, (), 1.0, seconds=1.0), Choice(offset=1000), 80, 12)

    assert "p59" in found[-2]


def test_a_filter_moves_no_column() -> None:
    assert lines(choice=Choice(typing="web"))[2] == lines()[2]
    assert "filter: web" in lines(choice=Choice(filter="web"))[2]
    assert lines(choice=Choice(typing="zz"), height=24)[-1].startswith("filter: zz▏")
    assert "No unit matches the filter." in lines(choice=Choice(filter="zz"))


def test_nobody_is_alive() -> None:
    assert lines(TopView((), REST, 1.0))[-1].startswith("No unit is alive")


def test_own_units_alone_are_said_to_be_so() -> None:
    assert lines(TopView(ROWS, (), sees_all=False))[1].startswith("Your own units alone")
    assert lines(TopView((), (), sees_all=False))[-1] == "You have no unit alive."


def test_before_the_second_look_nothing_is_zero() -> None:
    view = TopView((TopRow("docker", "bob", "web"),), (), None, {}, {}, 0.0)

    assert lines(view)[1].startswith("– now:  cpu –  dram –")
    assert lines(view)[3].split()[:5] == ["–"] * 5


def test_figures_that_are_old_are_said_to_be_so() -> None:
    found = render(VIEW, Choice(), replace(HEAD, trouble="agent.sock: refused"), 80)

    assert found[1].plain == "These figures are old: agent.sock: refused"


def test_help_names_every_key() -> None:
    text = "\n".join(lines(choice=Choice(help=True), height=24))

    assert all(f"{key.value}" in text for key in SortKey)
    assert "quit" in text


@given(st.floats(0, 1e9), st.floats(0, 1e12), st.integers(0, 1 << 50), st.integers(20, 200))
def test_any_figures_fit(watts: float, joules: float, memory: int, width: int) -> None:
    view = TopView((TopRow("slurm", "eve", "x", watts, joules, joules, watts, memory, 9),), REST, watts, seconds=1.0)

    assert all(cell_len(line.plain) <= width for line in render(view, Choice(), HEAD, width))


def test_a_column_of_gpus_where_any_unit_has_one() -> None:
    rows = (TopRow("slurm", "eve", "train", 900.0, gpus=1.53), TopRow("slurm", "bob", "cpu", 100.0))
    view = TopView(rows=rows, node_watts=1000.0)

    lines = [line.plain for line in render(view, Choice(sort=SortKey.GPUS), TopHead("n1", "12:00:00", "agent"), 100)]
    without = [line.plain for line in render(replace(view, rows=rows[1:]), Choice(), TopHead("n1", "12", "agent"), 100)]

    assert "GPUs" in lines[2]
    assert "1.53" in lines[3]
    assert "train" in lines[3]
    assert "–" in lines[4]
    assert not any("GPUs" in line for line in without)
