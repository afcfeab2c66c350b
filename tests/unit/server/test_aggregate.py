"""Slots spread over buckets: exact, and the two-bucket short cut agrees with the general rule."""

from hypothesis import given
from hypothesis import strategies as st
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit

from kwhere.core.terms import Component
from kwhere.database.schema import FIGURE_COLUMNS
from kwhere.database.sums import PageSums
from kwhere.energy.emissions import BUCKET_NS, spread
from kwhere.server.aggregate import add, aggregate, spread_columns

WIDTH = len(FIGURE_COLUMNS)
amounts = st.one_of(st.none(), st.integers(0, 2**50))


@given(st.lists(amounts, min_size=1, max_size=5), st.integers(0, 2 * BUCKET_NS), st.integers(1, 4 * BUCKET_NS))
def test_each_figure_is_spread_by_largest_remainders(column: list[int | None], offset: int, length: int) -> None:
    start_ns, end_ns = T0_NS + offset, T0_NS + offset + length

    found = spread_columns([column, [7], [8]], start_ns, end_ns)

    for at, value in enumerate(column):
        shares = [columns[0][at] for _, columns in found]
        if value is None:
            assert set(shares) == {None}
        else:
            assert list(zip((start for start, _ in found), shares, strict=True)) == spread(value, start_ns, end_ns)
    assert all(columns[1:] == [[7], [8]] for _, columns in found)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=4), st.integers(1, 900))
def test_buckets_of_a_page_sum_to_its_control(energies: list[tuple[int, int]], seconds: int) -> None:
    journal = HandJournal(end_ns=T0_NS + 17 * SECOND_NS, cpus=10**6)
    for dynamic_uj, idle_uj in energies:
        numbers = figures(dynamic_uj, idle_uj)
        journal.append([unit(key("a"), numbers), system(numbers), unallocated(figures(1, 2))], seconds=seconds)
    sums = PageSums()

    aggregate(journal.page().lines, sums)

    assert sum(sum(bucket.balance) for bucket in sums.buckets.values()) == journal.control_uj
    assert sum(bucket.accounted_ns for bucket in sums.buckets.values()) == len(energies) * seconds * SECOND_NS
    assert sum(sum(slot.balance[at] or 0 for at in range(4)) for slot in sums.slots) == journal.control_uj
    for run in sums.runs.values():
        total = list(run.total or ())
        buckets = [list(values) for values in run.buckets.values()]
        assert [sum(values[at] or 0 for values in buckets) for at in range(WIDTH - 2)] == [v or 0 for v in total[:-2]]


def test_peaks_are_not_summed() -> None:
    values = [1, None, None, 5, None]

    assert add(values, [2, None, 3, 4, 9]) == [3, None, 3, 5, 9]
    assert add([None, 2, 7], [None, 8, None]) == [None, 8, 7]
    assert add([None, None], [None, None]) == [None, None]


def test_byte_seconds_become_kibibyte_seconds() -> None:
    journal = HandJournal()
    journal.append([unit(key("a"), figures(1, 1, component=Component.DRAM, memory_byte_seconds=10 * 1024 + 1023))])
    sums = PageSums()

    aggregate(journal.page().lines, sums)

    (run,) = sums.runs.values()
    assert run.total is not None
    assert run.total[FIGURE_COLUMNS.index("memory_kib_seconds")] == 10
