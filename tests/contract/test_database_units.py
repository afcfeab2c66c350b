"""Units as they are read, over SQLite and PostgreSQL: figures worked out by hand."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Engine
from tests.account_site import T0, J, Site, minutes, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit

from kwhere.core.errors import NotFound
from kwhere.core.terms import Component, Method
from kwhere.database.power import fade
from kwhere.database.power_records import PartEnergy
from kwhere.database.reader import BadCursor
from kwhere.database.reading import unit_list
from kwhere.database.records import JobWords, UnitQuery, UnitSort


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


def test_one_unit_has_its_lifetime_totals(site: Site) -> None:
    site.take(worked_case(HandJournal(), slots=2))

    record = site.reader.unit("c1", "slurm", "a")

    assert (record.run, record.name, record.user, record.project) == ("a@1764000000", "cfd", "alice", "p1")
    assert record.energy_uj == {Component.CPU: PartEnergy(9600 * J, 9600 * J)}
    assert (record.energy_total_uj, record.power_uw) == (19_200 * J, 160_000_000)
    assert (record.cpu_user_ns, record.cpu_efficiency_ratio, record.cpus_allocated) == (960 * SECOND_NS, 1.0, 8.0)
    assert (record.started_at, record.ended_at, record.state) == (T0, None, "running")
    assert (record.nodes, record.memory_peak_bytes, record.method) == (("n1",), 4096, Method.MODELLED)
    assert record.node_runs[0].run == "a@1764000000"
    assert record.emissions_grams is None


def test_a_unit_that_is_not_there_is_not_found(site: Site) -> None:
    site.take(worked_case(HandJournal()))

    for words in (("c1", "slurm", "zzz"), ("c2", "slurm", "a"), ("c1", "oar", "a")):
        with pytest.raises(NotFound):
            site.reader.unit(*words)
    with pytest.raises(NotFound):
        site.reader.unit("c1", "slurm", "a", run="a@1")


def test_without_a_run_the_newest_is_meant(site: Site) -> None:
    journal = HandJournal()
    journal.append([unit(key("a", start_s=1_764_000_000), figures(1, 0))])
    journal.append([unit(key("a", start_s=1_764_000_060), figures(2, 0))])
    site.take(journal)

    assert site.reader.unit("c1", "slurm", "a").run == "a@1764000060"
    assert site.reader.unit("c1", "slurm", "a", run="a@1764000000").energy_total_uj == 1
    assert [r.run for r in site.reader.unit_runs("c1", "slurm", "a")] == ["a@1764000060", "a@1764000000"]


@pytest.mark.parametrize("unit_id", ["user:comm", "a b", "é%2F", "42", "x" * 500, "50%_off", "'; DROP TABLE units; --"])
def test_ugly_ids_are_ids(site: Site, unit_id: str) -> None:
    journal = HandJournal()
    journal.append([unit(key(unit_id, "process"), figures(7, 0))])
    site.take(journal)

    assert site.reader.unit("c1", "process", unit_id).energy_total_uj == 7
    assert [item.unit for item in site.reader.units(UnitQuery(q=unit_id)).items] == [unit_id]


def many_units(site: Site, count: int = 7) -> None:
    journal = HandJournal(cpus=100)
    journal.append(
        [
            unit(
                key(f"u{n}", start_s=1_764_000_000 - n),
                figures(n // 2 * 100, 0, cpu_ns=n * SECOND_NS, gpu_busy_ns=gpu),
                user="alice",
            )
            for n, gpu in enumerate([5, None, 3, None, 4, None, 1][:count])
        ]
    )
    site.take(journal)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("sort", "descending", "order"),
    [
        (UnitSort.ENERGY_JOULES, True, "6 5 4 3 2 1 0"),
        (UnitSort.ENERGY_JOULES, False, "0 1 2 3 4 5 6"),
        (UnitSort.CPU_SECONDS, True, "6 5 4 3 2 1 0"),
        (UnitSort.POWER_WATTS, True, "6 5 4 3 2 1 0"),
        (UnitSort.GPU_BUSY_SECONDS, True, "0 4 2 6 5 3 1"),
        (UnitSort.GPU_BUSY_SECONDS, False, "6 2 4 0 5 3 1"),
        (UnitSort.STARTED_AT, True, "0 1 2 3 4 5 6"),
        (UnitSort.STARTED_AT, False, "6 5 4 3 2 1 0"),
        (UnitSort.ENDED_AT, True, "6 5 4 3 2 1 0"),
    ],
)
def test_pages_hold_every_unit_once_in_order(
    site: Site, sort: UnitSort, descending: bool, order: str, limit: int
) -> None:
    many_units(site)
    query = UnitQuery(sort=sort, descending=descending, limit=limit)

    found: list[str] = []
    while True:
        page = site.reader.units(query)
        found += [item.unit for item in page.items]
        if page.next is None:
            break
        query = replace(query, after=page.next)

    assert found == [f"u{n}" for n in order.split()]


@pytest.mark.parametrize("most", [0, 3, 100])
@pytest.mark.parametrize("sort", [UnitSort.ENERGY_JOULES, UnitSort.STARTED_AT])
def test_an_owners_list_is_the_same_by_any_index(
    site: Site, sort: UnitSort, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_list, "MANY", most)
    monkeypatch.setattr(unit_list, "FEW", most)
    many_units(site)
    query = UnitQuery(sort=sort, user="alice", limit=2)
    by_rule = [item.unit for item in site.reader.units(replace(query, limit=100)).items]

    found: list[str] = []
    while True:
        page = site.reader.units(query)
        found += [item.unit for item in page.items]
        if page.next is None:
            break
        query = replace(query, after=page.next)

    assert found == by_rule
    assert len(found) == 7


def test_a_cursor_of_another_list_is_refused(site: Site) -> None:
    many_units(site)
    after = site.reader.units(UnitQuery(limit=1)).next
    assert after is not None

    for query in (
        UnitQuery(after="nonsense"),
        UnitQuery(after=""),
        UnitQuery(after="W10"),
        UnitQuery(after=after, sort=UnitSort.CPU_SECONDS),
        UnitQuery(after=after, descending=False),
    ):
        with pytest.raises(BadCursor):
            site.reader.units(query)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (UnitQuery(), "a b c"),
        (UnitQuery(user="alice"), "a c"),
        (UnitQuery(user="nobody"), ""),
        (UnitQuery(project="p1"), "a"),
        (UnitQuery(manager="oar"), "c"),
        (UnitQuery(cluster="c1", manager="slurm"), "a b"),
        (UnitQuery(cluster="c2"), "c"),
        (UnitQuery(cluster="none"), ""),
        (UnitQuery(states=("running",)), "c"),
        (UnitQuery(states=("ended",)), "a b"),
        (UnitQuery(node="n1"), "a b"),
        (UnitQuery(node="n2", states=("running",)), "c"),
        (UnitQuery(q="CFD"), "a"),
        (UnitQuery(q="ali"), "a c"),
        (UnitQuery(q="%"), ""),
        (UnitQuery(span=minutes(-9, 1)), "a b"),
        (UnitQuery(span=minutes(1, 2)), ""),
        (UnitQuery(span=minutes(3, 9)), "c"),
        (UnitQuery(span=minutes(-9, 1), running=True), "a b c"),
        (UnitQuery(span=minutes(9, 10), running=True), "c"),
        (UnitQuery(states=("running", "failed")), "c"),
        (UnitQuery(states=("failed",)), ""),
        (UnitQuery(jobs=JobWords(units=frozenset(["a", "c"]))), "a c"),
        (UnitQuery(cluster="c2", jobs=JobWords(units=frozenset(["a", "c"]))), "c"),
        (UnitQuery(jobs=JobWords()), ""),
    ],
)
def test_filters_find_what_they_say(site: Site, query: UnitQuery, found: str) -> None:
    first = worked_case(HandJournal())
    first.append([system(figures(0, 0))])
    second = HandJournal(node="n2", machine_id="m2", end_ns=T0_NS + 120 * SECOND_NS)
    second.append([unit(key("c", "oar", 1_764_000_120), figures(1, 0), user="alice")])
    site.take(first)
    site.take(second, "c2")

    assert sorted(item.unit for item in site.reader.units(query).items) == found.split()


def test_power_now_ends_three_slots_after_the_last(site: Site) -> None:
    site.take(worked_case(HandJournal()))
    by_power = UnitQuery(sort=UnitSort.POWER_WATTS)
    site.clock.now_ns = T0_NS + 239 * SECOND_NS
    before = [item.power_uw for item in site.reader.units(by_power).items]
    site.clock.now_ns = T0_NS + 240 * SECOND_NS

    after = site.reader.units(by_power).items

    assert (before, after) == ([160_000_000, 20_000_000], ())
    assert fade(site.engine, site.clock.now_ns) == 2
    assert site.reader.unit("c1", "slurm", "a").power_uw is None


def test_what_has_ended_draws_no_power_now(site: Site) -> None:
    journal = worked_case(HandJournal())
    journal.append([system(figures(0, 0))])
    site.take(journal)

    listed = site.reader.units(UnitQuery(sort=UnitSort.POWER_WATTS)).items
    ended = site.reader.unit("c1", "slurm", "a")

    assert listed == ()
    assert ended.ended_at is not None
    assert (ended.power_uw, [run.power_uw for run in ended.node_runs]) == (None, [None])


@pytest.mark.parametrize("label", ["slurm_end", "directory_end"])
@pytest.mark.parametrize(
    ("told", "ended_s"),
    [
        ("1764000031", 31),
        ("1764000060", 60),
        ("1764000061", 60),  # after the slot that saw it last
        ("1763999999", 60),  # before it began
        ("x", 60),
        ("9" * 30, 60),
    ],
)
def test_an_end_that_the_node_was_told_is_exact(site: Site, told: str, ended_s: int, label: str) -> None:
    journal = HandJournal()
    labels = ((label, told), ("x", "y"))
    journal.append([unit(key("a"), figures(7, 0), labels=labels), unit(key("b"), figures(7, 0))])
    journal.append([system(figures(0, 0))])
    site.take(journal)

    record = site.reader.unit("c1", "slurm", "a")

    assert record.ended_at == record.node_runs[0].ended_at == T0 + timedelta(seconds=ended_s)
    assert record.labels == {"x": "y"}
    assert site.reader.unit("c1", "slurm", "b").ended_at == T0 + timedelta(seconds=60)


def test_every_unit_is_iterated(site: Site) -> None:
    many_units(site)

    def units() -> Iterator[str]:
        return (item.unit for item in site.reader.iterate_units(UnitQuery()))

    assert sorted(units()) == [f"u{n}" for n in range(7)]
