"""Watts from running totals: a window of seconds, and since the view began."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.core.terms import Component, Method
from kwhere.local.top_history import History, TopRow, TopView
from kwhere.local.top_sample import TopSample, UnitNow, parse_sample

SECOND_NS = 10**9


def sample(second: float, *units: UnitNow, node: int = 0, system: int = 0, unallocated: int = 0) -> TopSample:
    """Return totals at a second; energy in joules."""
    return TopSample(
        utc_ns=int(second * SECOND_NS),
        units=units,
        node_uj={Component.CPU: node * 10**6},
        system_uj=system * 10**6,
        unallocated_uj=unallocated * 10**6,
        methods={Component.CPU: Method.COUNTER},
    )


def unit(name: str, joules: float, cpu_seconds: float = 0, *, live: bool = True) -> UnitNow:
    """Return a unit's totals."""
    return UnitNow("slurm", name, f"{name}@1", None, "eve", live, int(joules * 1e6), int(cpu_seconds * SECOND_NS))


def view_of(*samples: TopSample) -> TopView:
    """Return the view after these looks."""
    history = History(window_seconds=5)
    for each in samples:
        history.add(each)
    view = history.view()
    assert view is not None
    return view


def by_label(rows: tuple[TopRow, ...]) -> dict[str, TopRow]:
    """Return the rows by label."""
    return {row.label: row for row in rows}


def test_nothing_before_the_first_look() -> None:
    assert History().view() is None


def test_one_look_has_no_power_yet() -> None:
    view = view_of(sample(1, unit("a", 5, 3), node=7))

    assert view.rows[0].power_watts is None
    assert view.rows[0].cpus is None
    assert view.rows[0].energy_joules == 0
    assert view.rows[0].total_joules == 5
    assert view.node_watts is None


def test_power_is_energy_over_the_time_between_looks() -> None:
    view = view_of(
        sample(1, unit("a", 5, 3), node=100, system=10),
        sample(3, unit("a", 45, 9), node=180, system=30, unallocated=20),
    )

    # (45 - 5) J, (9 - 3) CPU s, (180 - 100) J in 2 s
    assert view.rows[0].power_watts == 20
    assert view.rows[0].cpus == 3
    assert view.rows[0].energy_joules == 40
    assert view.node_watts == 40
    assert {label: row.power_watts for label, row in by_label(view.rest).items()} == {"system": 10, "unallocated": 10}


def test_power_is_of_the_last_seconds_and_energy_of_the_whole_view() -> None:
    looks = [sample(second, unit("a", 10 * second if second <= 10 else 100)) for second in range(21)]

    view = view_of(*looks)

    assert view.rows[0].power_watts == 0
    assert view.rows[0].energy_joules == 100
    assert view.seconds == 20


def test_a_unit_that_begins_counts_from_zero_and_its_cpus_from_its_first_sight() -> None:
    view = view_of(sample(0), sample(2, unit("b", 6, 100)), sample(4, unit("b", 20, 104)))

    # 20 J in the window of 4 s; 4 CPU seconds in the 2 s since it was first seen
    assert view.rows[0].power_watts == 5
    assert view.rows[0].energy_joules == 20
    assert view.rows[0].cpus == 2


def test_ended_units_stand_in_one_row_until_the_end() -> None:
    looks = [sample(0, unit("a", 10)), sample(1, unit("a", 14)), sample(2, unit("a", 14, live=False)), sample(3)]

    before, after = view_of(*looks[:3]), view_of(*looks)

    assert before.rows == ()
    assert by_label(before.rest)["ended units"].energy_joules == 4
    assert by_label(after.rest)["ended units"].energy_joules == 4


def test_the_same_step_twice_changes_nothing() -> None:
    first, second = sample(1, unit("a", 5)), sample(2, unit("a", 9))

    assert view_of(first, second, second, second) == view_of(first, second)


@pytest.mark.parametrize(
    "next_look",
    [sample(9, unit("a", 1), node=1), sample(3, unit("a", 12), node=20)],
    ids=["agent started anew", "clock stepped back"],
)
def test_a_look_that_does_not_follow_begins_anew(next_look: TopSample) -> None:
    view = view_of(sample(5, unit("a", 5), node=10), sample(6, unit("a", 9), node=15), next_look)

    assert view.seconds == 0
    assert view.rows[0].power_watts is None


def test_own_units_alone_have_no_node() -> None:
    first = TopSample(SECOND_NS, (unit("a", 1),), None, None, None, {}, sees_all=False)
    second = TopSample(2 * SECOND_NS, (unit("a", 3),), None, None, None, {}, sees_all=False)

    view = view_of(first, second)

    assert view.rows[0].power_watts == 2
    assert view.node_watts is None
    assert view.rest == ()
    assert not view.sees_all


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=2, max_size=20))
def test_rows_add_up_to_the_node(steps: list[tuple[int, int, bool]]) -> None:
    """Units, ended ones included, and `system` share out what the node drew since the view began."""
    history, total, mine, others = History(), 0, 0, 0
    for second, (own, system, live) in enumerate(steps):
        mine, others, total = mine + own, others + system, total + own + system
        history.add(sample(second, unit("a", mine, live=live), node=total, system=others))

    view = history.view()

    assert view is not None
    shown = sum(row.energy_joules or 0 for row in (*view.rows, *view.rest))
    began = steps[0][0] + steps[0][1]
    assert shown == pytest.approx(total - began)


def test_the_agents_answer_is_read() -> None:
    answer = {
        "ok": True,
        "utc_ns": 7,
        "units": [
            {
                "manager": "docker",
                "unit": "ab12",
                "run": "ab12",
                "name": "web",
                "user": None,
                "live": True,
                "energy_uj": {"cpu": {"dynamic": 3, "idle": 4}, "dram": {"idle": 5}},
                "cpu_ns": 6,
                "memory_bytes": None,
                "processes": 2,
            }
        ],
        "system": {"cpu": {"dynamic": 1}},
        "unallocated": {},
        "node": {"cpu": 9, "dram": 5},
        "methods": {"cpu": {"method": "modelled", "source": "model"}},
        "sees_all": True,
    }

    found = parse_sample(answer)

    assert found.units[0].energy_uj == 12
    assert found.units[0].label == "ab12 web"
    assert (found.system_uj, found.unallocated_uj) == (1, None)
    assert found.node_uj == {Component.CPU: 9, Component.DRAM: 5}
    assert found.methods == {Component.CPU: Method.MODELLED}


@pytest.mark.parametrize("broken", [{}, {"utc_ns": 1, "units": 5}, {"utc_ns": 1, "units": [], "node": {"x": 1}}])
def test_an_answer_of_another_form_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(SourceError, match="another form"):
        parse_sample(broken)


def gpu_unit(busy_seconds: float | None) -> UnitNow:
    busy_ns = None if busy_seconds is None else int(busy_seconds * SECOND_NS)
    return replace(unit("train", 1), gpu_busy_ns=busy_ns)


@pytest.mark.parametrize(("then", "now", "gpus"), [(10.0, 13.0, 1.5), (None, 13.0, None), (10.0, 10.0, 0.0), (5, 4, 0)])
def test_busy_gpus_are_gpu_time_per_time(then: float | None, now: float, gpus: float | None) -> None:
    history = History()
    history.add(sample(1, gpu_unit(then)))
    history.add(sample(3, gpu_unit(now)))

    view = history.view()

    assert view is not None
    assert view.rows[0].gpus == gpus


def test_an_older_agent_tells_no_gpu() -> None:
    item: dict[str, object] = {
        "manager": "slurm",
        "unit": "1",
        "run": "1@1",
        "name": None,
        "user": None,
        "live": True,
        "energy_uj": {},
        "cpu_ns": None,
        "memory_bytes": None,
        "processes": None,
    }

    found = parse_sample(
        {
            "utc_ns": 1,
            "units": [item],
            "node": None,
            "system": None,
            "unallocated": None,
            "methods": {},
            "sees_all": True,
        }
    )

    assert found.units[0].gpu_busy_ns is None
