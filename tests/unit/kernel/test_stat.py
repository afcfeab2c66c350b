from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.kernel.stat import CpuStat, CpuTimes, parse_stat

TEXT = """cpu  30 4 20 500 6 1 2 7 9 1
cpu0 10 4 10 200 6 1 2 7 9 1
cpu15 20 0 10 300 0 0 0 0 0 0
intr 123 0 0
ctxt 99
btime 1795000000
processes 5
softirq 1 2 3
"""

ticks = st.integers(0, 2**40)
times = st.builds(CpuTimes, *[ticks] * 10)


def test_cpus_keep_their_numbers() -> None:
    stat = parse_stat(TEXT)

    assert stat == CpuStat(
        total=CpuTimes(30, 4, 20, 500, 6, 1, 2, 7, 9, 1),
        cpus={0: CpuTimes(10, 4, 10, 200, 6, 1, 2, 7, 9, 1), 15: CpuTimes(20, 0, 10, 300)},
        boot_time_s=1_795_000_000,
    )


def test_busy_leaves_out_idle_iowait_steal_and_the_guests_second_count() -> None:
    total = parse_stat(TEXT).total

    assert total.busy == 30 + 4 + 20 + 1 + 2
    assert total.busy_ns == 570_000_000
    assert total.total == 57 + 500 + 6 + 7


@pytest.mark.parametrize(
    ("before", "after", "busy", "total"),
    [
        pytest.param((10, 0, 10, 100, 50), (10, 0, 10, 101, 49), 0, 1, id="case_energy_a17"),
        pytest.param((10, 0, 10, 100, 50), (12, 0, 11, 90, 52), 3, 5, id="idle_goes_back"),
        pytest.param((10, 0, 10, 100, 50), (9, 0, 11, 101, 50), 1, 2, id="user_goes_back"),
        pytest.param((500, 0, 90, 9000, 50), (3, 0, 1, 2, 0), 0, 0, id="cpu_came_back_from_offline"),
        pytest.param((10, 0, 10, 100, 50), (10, 0, 10, 100, 50), 0, 0, id="nothing_happened"),
    ],
)
def test_no_mode_ever_counts_backwards(before: tuple[int, ...], after: tuple[int, ...], busy: int, total: int) -> None:
    spent = CpuTimes(*after).since(CpuTimes(*before))

    assert (spent.busy, spent.total) == (busy, total)


@given(before=times, after=times)
def test_a_share_of_busy_time_is_never_above_one_nor_below_zero(before: CpuTimes, after: CpuTimes) -> None:
    spent = after.since(before)

    assert min(astuple(spent)) >= 0
    assert 0 <= spent.busy <= spent.total


@given(before=times, spent=times)
def test_what_was_added_is_found_again(before: CpuTimes, spent: CpuTimes) -> None:
    after = CpuTimes(*(a + b for a, b in zip(astuple(before), astuple(spent), strict=True)))

    assert after.since(before) == spent


def test_a_sum_alone_is_one_cpu() -> None:
    stat = parse_stat("cpu  10 0 5 85 0 0 0 0 0 0\nbtime 1\n")

    assert {number: times.busy for number, times in stat.cpus.items()} == {0: 15}


def test_an_old_kernels_four_modes_are_enough() -> None:
    assert parse_stat("cpu  1 2 3 4\ncpu0 1 2 3 4\n").cpus == {0: CpuTimes(1, 2, 3, 4)}


def test_a_newer_kernels_modes_are_passed_over() -> None:
    assert parse_stat("cpu  1 2 3 4 5 6 7 8 9 10 11 x\n").total.guest_nice == 10


@pytest.mark.parametrize(
    "text", ["", "cpu", "cpu  1 2 3", "cpu0 1 2 3 4", "cpu  1 2 3 -4", "cpu  1 2 3 4\ncpux 1 2 3 4"]
)
def test_nonsense_is_refused_with_the_file(text: str) -> None:
    with pytest.raises(SourceError, match=r"^proc/stat: expected"):
        parse_stat(text)


@given(st.text(alphabet="cpu0123456789 \n-btime.x") | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        stat = parse_stat(text)
    except SourceError:
        return

    assert min(astuple(stat.total)) >= 0
