"""Records of jobs that were resized become one run, in whatever order and by whatever release they are told."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.managed_site import T0, said

from kwhere.core.managed import ManagerAllocation, ManagerUnit
from kwhere.resource_managers.slurm_resizes import MOST_REMEMBERED, Resizes, chains_of, one_run
from kwhere.transport.answers import AnswerTooLongError

SIZES = st.lists(st.tuples(st.integers(1, 10_000), st.integers(1, 64)), min_size=1, max_size=6)
"""Of each record how long it held how many CPUs."""


def records_of(sizes: Sequence[tuple[int, int]], *, lives: bool = False) -> list[ManagerUnit]:
    """Return a job's records."""
    found, begin_s = [], 0
    for at, (seconds, cpus) in enumerate(sizes):
        end_s, is_last = begin_s + seconds, at == len(sizes) - 1
        found.append(
            said(
                *("7", 0, None if lives and is_last else end_s),
                state=("running" if lives else "completed") if is_last else "resizing",
                submitted_at=T0 + timedelta(seconds=begin_s if at else -3),
                nodes=tuple(f"n{number}" for number in range(cpus)),
                allocation=ManagerAllocation(float(cpus), cpus * 2**30, {"a100": float(cpus)}, cpus),
                elapsed_seconds=float(end_s),
            )
        )
        begin_s = end_s
    return found


class Accounting:
    """Tells of jobs by their ids, and remembers that it did."""

    def __init__(self, records: Iterable[ManagerUnit] = (), fault: Exception | None = None) -> None:
        self.records, self.fault, self.asked = list(records), fault, 0

    def __call__(self, of: Sequence[ManagerUnit]) -> list[ManagerUnit]:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        units = {unit.unit for unit in of}
        return [record for record in self.records if record.unit in units]


@given(SIZES, st.booleans(), st.randoms(use_true_random=False))
def test_one_run_holds_what_its_records_held_case_users_22(
    sizes: Sequence[tuple[int, int]], lives: bool, order: random.Random
) -> None:
    records = records_of(sizes, lives=lives)
    told = order.sample(records, len(records))

    (run,) = Resizes(Accounting()).join(told)

    whole_seconds = sum(seconds for seconds, _ in sizes)
    assert (run.run, run.started_at, run.submitted_at) == (records[0].run, T0, T0 - timedelta(seconds=3))
    assert (run.state, run.ended_at, run.elapsed_seconds) == (records[-1].state, records[-1].ended_at, whole_seconds)
    assert set(run.nodes or ()) == {name for record in records for name in record.nodes or ()}
    mean = sum(seconds * cpus for seconds, cpus in sizes) / whole_seconds
    assert run.allocation.cpus == pytest.approx(mean)
    assert run.allocation.gpus["a100"] == pytest.approx(mean)
    assert run.allocation.memory_bytes == pytest.approx(mean * 2**30, abs=1)


@given(SIZES.filter(lambda sizes: len(sizes) > 1), st.data())
def test_any_of_its_records_tells_the_same_run_case_users_23(
    sizes: Sequence[tuple[int, int]], data: st.DataObject
) -> None:
    """An answer holds those alone that lived in its span."""
    records = records_of(sizes)
    told = data.draw(st.lists(st.sampled_from(records), min_size=1, unique_by=lambda record: record.submitted_at))
    resizes = Resizes(Accounting(records))

    assert [*resizes.join(told)] == [*resizes.join(told)] == [one_run(records)]


def test_others_pass_and_are_not_asked_for() -> None:
    jobs = [said("8", 0, 60), said("9", 0, None, submitted_at=T0), said("10", 5, 6, submitted_at=T0)]
    accounting = Accounting()

    assert [*Resizes(accounting).join(jobs)] == jobs
    assert accounting.asked == 0


def test_who_was_submitted_after_its_start_by_a_clock_set_back_is_asked_for_once() -> None:
    strange = said("8", 0, None, submitted_at=T0 + timedelta(seconds=60))
    accounting = Accounting()
    resizes = Resizes(accounting)

    assert [[*resizes.join([strange])] for _ in range(3)] == [[strange]] * 3
    assert accounting.asked == 1


def test_what_slurm_does_not_tell_any_more_is_taken_as_it_is() -> None:
    _, after = records_of([(60, 2), (60, 1)])
    resizes = Resizes(Accounting(fault=AnswerTooLongError("too long ago")))

    assert [*resizes.join([after])] == [after]


def test_only_so_many_are_remembered() -> None:
    before, after = records_of([(60, 2), (60, 1)], lives=True)
    accounting = Accounting([before])
    resizes = Resizes(accounting, most_remembered=1)

    for unit in ("7", "8", "7"):
        accounting.records = [replace(before, unit=unit)]
        assert len([*resizes.join([replace(after, unit=unit)])]) == 1
    assert accounting.asked == 3
    assert MOST_REMEMBERED >= 1000


def test_another_users_job_of_that_id_is_no_part() -> None:
    before, after = records_of([(60, 2), (60, 1)])
    other = replace(after, user="bob")

    assert [len(chain) for chain in chains_of([replace(before, user="alice"), other])] == [1, 1]
