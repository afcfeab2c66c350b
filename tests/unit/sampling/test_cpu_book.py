"""CPU time per step: inner units, ended units, carries and first steps, with numbers worked out by hand."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.discovery.unit_source import CpuReading, ParentReading, StepReading, TrackedUnit
from kwhere.sampling.cpu_book import CpuBook, UnitTimes

SECOND = 1_000_000_000
START = 100 * SECOND


def unit(name: str, cgroup: str | None, *, outer: TrackedUnit | None = None, seen_ns: int = START) -> TrackedUnit:
    return TrackedUnit(
        key=UnitKey("slurm", name, f"{name}@1"),
        cgroup=cgroup,
        inode=None,
        outer=outer.key if outer else None,
        parent_cgroup=None,
        info=UnitInfo(),
        allocation=Allocation(),
        from_creation=True,
        first_seen_ns=seen_ns,
    )


class Steps:
    """Steps of one second over readings given in seconds."""

    def __init__(self, *live: TrackedUnit, mixed: frozenset[str] = frozenset()) -> None:
        self.book = CpuBook()
        self.live = {unit.key: unit for unit in live}
        self.mixed = mixed
        self.now_ns = START
        self.first = True

    def step(
        self,
        cpu: Mapping[TrackedUnit | None, float],
        parents: Mapping[str, float] | None = None,
        ended: tuple[TrackedUnit, ...] = (),
        window: float = 0,
    ) -> dict[str, float]:
        """Return seconds by unit name."""
        elapsed_ns = 0 if self.first else SECOND
        self.first = False
        self.now_ns += elapsed_ns
        for gone in ended:
            self.live.pop(gone.key, None)
        reading = StepReading(
            cpu={u.key: CpuReading(round(seconds * SECOND)) for u, seconds in cpu.items() if u is not None},
            parents=tuple(
                ParentReading(path, CpuReading(round(total * SECOND)), None, path in self.mixed)
                for path, total in (parents or {}).items()
            ),
            ended=ended,
            window_ns=round(window * SECOND),
        )
        self.times = self.book.step([reading], self.live, now_ns=self.now_ns, elapsed_ns=elapsed_ns, cpus=4)
        return seconds_by_name(self.times)


def seconds_by_name(times: UnitTimes) -> dict[str, float]:
    return {unit.key.unit: own / SECOND for unit, own in zip(times.roster.units, times.own_ns, strict=True) if own}


def test_the_first_step_takes_baselines_alone() -> None:
    a = unit("a", "/jobs/a")
    steps = Steps(a)

    assert steps.step({a: 50}) == {}
    assert steps.step({a: 51.5}) == {"a": 1.5}


def test_a_counter_that_falls_is_a_new_baseline() -> None:
    a = unit("a", "/jobs/a")
    steps = Steps(a)
    steps.step({a: 50})

    assert steps.step({a: 3}) == {}
    assert steps.step({a: 4}) == {"a": 1}


def test_a_unit_that_could_not_be_read_catches_up() -> None:
    a = unit("a", "/jobs/a")
    steps = Steps(a)
    steps.step({a: 5})

    assert steps.step({}) == {}
    assert steps.step({a: 7}) == {"a": 2}


def test_an_outer_units_debt_to_its_inner_is_carried() -> None:
    outer = unit("outer", "/jobs/o")
    inner = unit("inner", "/jobs/o/i", outer=outer)
    steps = Steps(outer, inner)
    steps.step({outer: 0, inner: 0})

    assert steps.step({outer: 1, inner: 1.25}) == {"inner": 1.25}
    assert steps.step({outer: 2.5, inner: 2.25}) == {"outer": 0.25, "inner": 1}
    assert steps.book.carries() == {}


def test_three_levels_are_each_less_the_next() -> None:
    a = unit("a", "/s/a")
    b = unit("b", "/s/a/b", outer=a)
    c = unit("c", "/s/a/b/c", outer=b)
    steps = Steps(a, b, c)
    steps.step({a: 0, b: 0, c: 0})

    assert steps.step({a: 3, b: 2, c: 1}) == {"a": 1, "b": 1, "c": 1}


def test_what_an_ended_unit_used_last_is_its_parents_rest() -> None:
    a, b = unit("a", "/jobs/a"), unit("b", "/jobs/b")
    steps = Steps(a, b)
    steps.step({a: 0, b: 0}, {"/jobs": 0})
    steps.step({a: 1, b: 1}, {"/jobs": 2})

    found = steps.step({b: 2}, {"/jobs": 3.75}, ended=(a,))

    assert found == {"a": 0.75, "b": 1}
    assert {steps.times.roster.units[i].key.unit for i in steps.times.ended} == {"a"}


def test_a_last_reading_is_not_counted_again_in_the_rest() -> None:
    a = unit("a", "/jobs/a")
    steps = Steps(a)
    steps.step({a: 0}, {"/jobs": 0})
    steps.step({a: 1}, {"/jobs": 1})

    assert steps.step({a: 1.5}, {"/jobs": 1.5}, ended=(a,)) == {"a": 0.5}


def test_ended_units_share_by_their_rate() -> None:
    a, b = unit("a", "/jobs/a"), unit("b", "/jobs/b")
    steps = Steps(a, b)
    steps.step({a: 0, b: 0}, {"/jobs": 0})
    steps.step({a: 0.3, b: 0.1}, {"/jobs": 0.4})

    assert steps.step({}, {"/jobs": 1.2}, ended=(a, b)) == {"a": 0.6, "b": 0.2}


def test_within_a_unit_an_ended_one_gets_at_most_what_its_rate_explains() -> None:
    outer = unit("outer", "/jobs/o")
    inner = unit("inner", "/jobs/o/i", outer=outer)
    steps = Steps(outer, inner)
    steps.step({outer: 0, inner: 0})
    steps.step({outer: 1, inner: 0.25})

    assert steps.step({outer: 3}, ended=(inner,)) == {"inner": 0.25, "outer": 1.75}


def test_in_a_mixed_parent_an_ended_one_gets_at_most_what_its_rate_explains() -> None:
    a = unit("a", "/a")
    steps = Steps(a, mixed=frozenset({"/"}))
    steps.step({a: 0}, {"/": 0})
    steps.step({a: 0.5}, {"/": 0.5})

    assert steps.step({}, {"/": 3}, ended=(a,)) == {"a": 0.5}


def test_process_groups_are_no_part_of_the_roots_rest() -> None:
    a, shell = unit("a", "/a"), unit("shell", None)
    steps = Steps(a, shell, mixed=frozenset({"/"}))
    steps.step({a: 0, shell: 0}, {"/": 0})
    steps.step({a: 1, shell: 1}, {"/": 2})

    assert steps.step({shell: 1.9}, {"/": 3.0}, ended=(a,)) == {"a": 0.1, "shell": 0.9}


def test_create_and_delete_events_alone_make_a_unit() -> None:
    steps = Steps()
    steps.step({}, {"/jobs": 10})
    short = unit("short", "/jobs/short", seen_ns=START + SECOND // 2)
    short = replace(short, ended_ns=START + 3 * SECOND // 4)

    assert steps.step({}, {"/jobs": 10.2}, ended=(short,)) == {"short": 0.2}
    assert list(steps.times.lived_ns) == [SECOND // 4]


def test_no_ended_unit_gets_more_than_all_cpus_for_its_time() -> None:
    steps = Steps()
    steps.step({}, {"/jobs": 0})
    short = replace(unit("short", "/jobs/short", seen_ns=START), ended_ns=START + SECOND // 10)

    assert steps.step({}, {"/jobs": 3}, ended=(short,)) == {"short": 0.4}


def test_a_parents_first_reading_says_nothing_of_the_past() -> None:
    a = unit("a", "/jobs/u/a")
    steps = Steps(a)
    steps.step({a: 0}, {"/jobs": 100})
    late = replace(unit("late", "/jobs/new/late"), ended_ns=START + SECOND)

    assert steps.step({a: 1}, {"/jobs": 101, "/jobs/new": 500}, ended=(late,)) == {"a": 1}


def test_a_directory_that_went_with_its_units_leaves_them_to_the_one_above() -> None:
    a = unit("a", "/jobs/u/a")
    steps = Steps(a)
    steps.step({a: 0}, {"/jobs/u": 0, "/jobs": 0})
    steps.step({a: 1}, {"/jobs/u": 1, "/jobs": 1})

    assert steps.step({}, {"/jobs": 1.5}, ended=(a,)) == {"a": 0.5}


def test_what_a_unit_used_between_its_last_reading_and_its_directorys_is_its_own_once_it_ended() -> None:
    """A machine under load reads the directory well after the unit: 0.2 s here, in which the unit ran on."""
    a = unit("a", "/jobs/a")
    steps = Steps(a)
    steps.step({a: 1.0}, {"/jobs": 1.0})

    assert steps.step({a: 1.8}, {"/jobs": 2.0}, window=0.25) == {"a": 0.8}
    assert steps.step({}, {"/jobs": 2.3}, ended=(a,)) == {"a": 0.5}


def test_what_a_unit_used_before_its_beginning_was_told_is_its_own() -> None:
    """It began after the events of a step were taken and before its directory was read."""
    a, b = unit("a", "/jobs/a"), unit("b", "/jobs/b", seen_ns=START + SECOND)
    steps = Steps(a)
    steps.step({a: 1.0}, {"/jobs": 1.0})

    assert steps.step({a: 1.5}, {"/jobs": 1.7}, window=0.2) == {"a": 0.5}
    assert steps.step({a: 2.0}, {"/jobs": 2.6}, ended=(b,)) == {"a": 0.5, "b": 0.6}


def test_the_first_work_of_a_unit_in_a_directory_that_was_empty_is_its_own() -> None:
    b = unit("b", "/jobs/b", seen_ns=START + SECOND)
    steps = Steps()
    steps.step({}, {"/jobs": 1.0})

    assert steps.step({}, {"/jobs": 1.2}, window=0.3) == {}
    assert steps.step({}, {"/jobs": 1.5}, ended=(b,)) == {"b": 0.5}


def test_what_live_units_use_on_is_booked_once() -> None:
    a = unit("a", "/jobs/a")
    steps = Steps(a)
    steps.step({a: 1.0}, {"/jobs": 1.0})
    steps.step({a: 1.8}, {"/jobs": 2.0}, window=0.25)

    assert steps.step({a: 2.8}, {"/jobs": 3.0}, window=0.25) == {"a": 1.0}
    assert steps.step({a: 3.1}, {"/jobs": 3.1}) == {"a": pytest.approx(0.3)}
    assert steps.book.carries() == {}


def test_no_more_waits_in_a_directory_than_fits_between_two_readings() -> None:
    """Work of the directory's own, which version 1 of cgroups allows, is no unit's however long it goes on."""
    a = unit("a", "/jobs/a")
    steps = Steps(a)
    steps.step({a: 1.0}, {"/jobs": 1.0})
    for turn in range(1, 5):
        steps.step({a: 1.0}, {"/jobs": 1.0 + turn}, window=0.01)

    assert steps.step({}, {"/jobs": 5.0}, ended=(a,), window=0.01) == {"a": 0.04}


def test_a_negative_rest_of_a_directory_is_carried() -> None:
    a, b = unit("a", "/jobs/a"), unit("b", "/jobs/b")
    steps = Steps(a, b)
    steps.step({a: 0, b: 0}, {"/jobs": 0})
    steps.step({a: 1.25, b: 1}, {"/jobs": 2})  # read before it had moved

    assert steps.step({b: 2}, {"/jobs": 4}, ended=(a,)) == {"a": 0.75, "b": 1}
