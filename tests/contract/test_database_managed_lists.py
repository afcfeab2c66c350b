"""What no agent reported, what vanished from its manager and what waits in a queue, over SQLite and PostgreSQL."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from sqlalchemy import Engine, select
from tests.account_site import SITE, J, Site, all_rows
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit
from tests.managed_site import T0, said, tell, turn_of

from kwhere.core.managed import ManagerAllocation, WaitingUnit
from kwhere.core.terms import Flag
from kwhere.database import schema
from kwhere.database.account_records import AccountQuery
from kwhere.database.managed_units import write_units
from kwhere.database.manager_states import forget_errors, note_error
from kwhere.database.place_records import WaitingQuery
from kwhere.database.records import UnitQuery, UnitSort
from kwhere.database.vanished import GRACE_NS, VANISHED, Living, end_vanished
from kwhere.database.visibility import AccountName, Visibility
from kwhere.database.waiting import write_queue

HOUR_NS = 3600 * SECOND_NS


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine, SITE)


def worked(minutes: int = 1) -> HandJournal:
    """Job 7 on n1: so many minutes of 3600 J."""
    journal = HandJournal(node="n1", machine_id="m-n1")
    for _ in range(minutes):
        numbers = figures(3000 * J, 600 * J, cpu_ns=120 * SECOND_NS)
        journal.append([unit(key("7"), numbers), system(figures(0, 0))])
    return journal


def test_a_unit_that_no_agent_reported_is_listed_without_figures(site: Site) -> None:
    site.take(worked())
    given = ManagerAllocation(4.0, 2**30, {"a100": 1.0}, 1)
    tell(site.engine, said("7", user="alice"), said("8", 10, 60, user="bob", allocation=given, nodes=("n9",)))

    assert {item.unit for item in site.reader.units(UnitQuery(sort=UnitSort.GPU_BUSY_SECONDS)).items} == {"7", "8"}
    for sort in (UnitSort.ENERGY_JOULES, UnitSort.CPU_SECONDS):
        assert [item.unit for item in site.reader.units(UnitQuery(sort=sort)).items][-1] == "8"
    assert [item.unit for item in site.reader.units(UnitQuery(sort=UnitSort.STARTED_AT)).items] == ["8", "7"]
    assert [item.unit for item in site.reader.units(UnitQuery(sort=UnitSort.POWER_WATTS)).items] == ["7"]
    (listed,) = site.reader.units(UnitQuery(user="bob")).items
    assert listed == site.reader.unit("c1", "slurm", "8")
    assert not listed.is_reported
    assert Flag.UNREPORTED in listed.quality
    assert (listed.energy_uj, listed.node_runs, listed.cpu_user_ns, listed.memory_peak_bytes) == ({}, (), None, None)
    assert (listed.state, listed.nodes, listed.cpus_allocated) == ("completed", ("n9",), 4.0)
    (reported,) = site.reader.units(UnitQuery(user="alice")).items
    assert reported.is_reported
    assert Flag.UNREPORTED not in reported.quality


def test_pages_of_units_without_figures_come_behind_those_with_them(site: Site) -> None:
    site.take(worked())
    tell(site.engine, said("7"), *(said(str(100 + at), at, at + 5) for at in range(5)))

    for sort in (UnitSort.ENERGY_JOULES, UnitSort.STARTED_AT, UnitSort.ENDED_AT):
        seen: list[str] = []
        after = None
        while True:
            page = site.reader.units(UnitQuery(sort=sort, limit=2, after=after))
            seen += [item.unit for item in page.items]
            if page.next is None:
                break
            after = page.next
        assert sorted(seen) == ["100", "101", "102", "103", "104", "7"]
    assert site.reader.units(UnitQuery(limit=1)).items[0].unit == "7"


def test_a_unit_is_reported_once_an_agent_tells_of_it(site: Site) -> None:
    tell(site.engine, said("7", user="alice"))
    assert not site.reader.unit("c1", "slurm", "7").is_reported

    site.take(worked())
    tell(site.engine, said("7", user="alice"))

    record = site.reader.unit("c1", "slurm", "7")
    assert record.is_reported
    assert record.energy_total_uj == 3600 * J


def test_a_unit_is_managed_once_its_manager_tells_of_it_and_not_by_what_agents_know(site: Site) -> None:
    site.take(worked())
    assert not site.reader.unit("c1", "slurm", "7").is_managed

    tell(site.engine, said("7"))

    assert site.reader.unit("c1", "slurm", "7").is_managed


@pytest.mark.parametrize("state", ["shut off", "shutoff", "suspended"])
def test_what_is_shut_off_has_not_ended_and_does_not_run(site: Site, state: str) -> None:
    site.take(worked())
    tell(site.engine, said("6", user="alice"), said("7", user="alice", state=state))
    alice = Visibility(users=frozenset({AccountName("alice")}))

    for reader in (site.reader, site.reader.seen_by(alice)):
        (user,) = reader.users(AccountQuery(name="alice")).items
        (manager,) = reader.managers("c1")
        (cluster,) = reader.clusters()
        overview = reader.overview(8, "c1")
        running = [unit.unit for unit in reader.units(UnitQuery(states=("running",))).items]

        assert (user.units, user.units_running, manager.units_running) == (2, 1, 1)
        assert (cluster.units_running, overview.units_running, running) == (1, 1, ["6"])
        assert reader.unit("c1", "slurm", "7").ended_at is None
    assert site.reader.node("n1").units_running == 0


def test_what_its_manager_calls_running_or_nothing_runs_on_its_node(site: Site) -> None:
    site.take(worked())
    assert site.reader.node("n1").units_running == 1

    tell(site.engine, said("7", user="alice"))

    assert site.reader.node("n1").units_running == 1


def test_case_users_35_core_hours_are_of_the_time_without_suspension(site: Site) -> None:
    given = ManagerAllocation(cpus=4.0)
    tell(site.engine, said("7", 0, 3600, allocation=given, elapsed_seconds=600.0), said("8", 0, 3600, allocation=given))
    tell(site.engine, said("9", 0, allocation=given), said("10", 0, 3600))

    seconds = {unit: site.reader.unit("c1", "slurm", unit).cpu_allocated_seconds for unit in ("7", "8", "9", "10")}

    assert seconds == {"7": 2400.0, "8": 14_400.0, "9": None, "10": None}


def test_what_its_manager_lost_ends_when_an_agent_heard_of_it_last(site: Site) -> None:
    site.take(worked(minutes=3))
    job, now_ns = said("7", user="alice"), T0_NS + HOUR_NS
    tell(site.engine, job, said("8"), now_ns=now_ns)

    living = Living(now_ns, T0_NS + 60 * SECOND_NS, {"8"})
    assert end_vanished(site.engine, turn_of(site.engine, now_ns), living) == 1

    record = site.reader.unit("c1", "slurm", "7")
    assert (record.state, record.ended_at) == (VANISHED, T0 + timedelta(minutes=3))
    assert site.reader.unit("c1", "slurm", "8").ended_at is None
    assert record.energy_total_uj == 3 * 3600 * J


def test_what_vanished_goes_on_for_as_long_as_an_agent_tells_of_it(site: Site) -> None:
    journal = worked()
    site.take(journal)
    now_ns = T0_NS + HOUR_NS
    tell(site.engine, said("7"), now_ns=now_ns)
    living, turn = Living(now_ns, None, ()), turn_of(site.engine, now_ns)
    end_vanished(site.engine, turn, living)
    assert site.reader.unit("c1", "slurm", "7").ended_at == T0 + timedelta(minutes=1)

    journal.append([unit(key("7"), figures(1 * J, 0)), system(figures(0, 0))])
    site.take(journal)
    end_vanished(site.engine, turn, living)

    assert site.reader.unit("c1", "slurm", "7").ended_at == T0 + timedelta(minutes=2)


def test_a_runaway_that_its_accounting_still_calls_running_stays_ended_where_it_was(site: Site) -> None:
    tell(site.engine, said("7"))
    for hour in (1, 2, 3):
        now_ns = T0_NS + hour * HOUR_NS
        living = Living(now_ns, now_ns - HOUR_NS, ())
        write_units(site.engine, turn_of(site.engine, now_ns), [said("7")], living)

    record = site.reader.unit("c1", "slurm", "7")
    # It lived when it was heard of before the first look that missed it.
    assert (record.state, record.ended_at) == (VANISHED, T0)


def test_its_managers_own_word_of_an_end_stands(site: Site) -> None:
    tell(site.engine, said("7"))
    now_ns = T0_NS + HOUR_NS
    turn = turn_of(site.engine, now_ns)
    end_vanished(site.engine, turn, Living(now_ns, None, ()))

    write_units(site.engine, turn, [said("7", 0, 90)], Living(now_ns, now_ns, ()))

    record = site.reader.unit("c1", "slurm", "7")
    assert (record.state, record.ended_at) == ("completed", T0 + timedelta(seconds=90))


def test_what_has_just_started_and_what_could_not_be_read_are_not_lost(site: Site) -> None:
    late_s = 3600 - GRACE_NS // SECOND_NS + 1
    tell(site.engine, said("young", late_s), said("odd"))
    now_ns = T0_NS + HOUR_NS

    assert end_vanished(site.engine, turn_of(site.engine, now_ns), Living(now_ns, None, ()), {"odd"}) == 0


def test_a_list_of_one_moment_has_no_grace_and_tells_runs_apart(site: Site) -> None:
    tell(site.engine, said("7", -10), said("7", 50))
    now_ns = T0_NS + 60 * SECOND_NS

    living = Living(now_ns, None, runs={("7", said("7", 50).run)})
    assert end_vanished(site.engine, turn_of(site.engine, now_ns), living) == 1

    assert [run.state for run in site.reader.unit_runs("c1", "slurm", "7")] == ["running", VANISHED]


def test_managers_of_other_clusters_and_kinds_lose_nothing(site: Site) -> None:
    tell(site.engine, said("7"))
    now_ns = T0_NS + HOUR_NS

    for turn in (turn_of(site.engine, now_ns, "oar"), turn_of(site.engine, now_ns, cluster="c2")):
        assert end_vanished(site.engine, turn, Living(now_ns, None, ())) == 0


def waits(unit_id: str, **changes: object) -> WaitingUnit:
    words: dict[str, object] = {"cluster": "c1", "manager": "slurm", "unit": unit_id, "state": "pending", **changes}
    return WaitingUnit(**words)  # type: ignore[arg-type]


def waiting_rows(site: Site) -> dict[str, Mapping[str, object]]:
    with site.engine.connect() as connection:
        rows = connection.execute(select(schema.waiting_units)).mappings().all()
    return {row["unit"]: dict(row) for row in rows}


def test_a_queue_is_written_whole(site: Site) -> None:
    turn = turn_of(site.engine, T0_NS)
    asked = ManagerAllocation(8.0, 2**33, {"a100": 2.0}, 2)
    words = {"name": "a\0|b", "user": "alice", "project": "cfd", "queue": "main", "reason": "Priority"}
    one = waits(
        "1", **words, group="phys", submitted_at=T0, priority=4.5, asked=asked, tasks=9, tags={"job": "1_[1-9]"}
    )
    assert write_queue(site.engine, turn, [one, waits("2"), waits("2", user="bob"), waits("x" * 600)]) == 2

    row = waiting_rows(site)["1"]
    assert (row["name"], row["reason"], row["tasks"], row["priority"]) == ("a|b", "Priority", 9, 4.5)
    assert (row["asked_cpus"], row["asked_memory_bytes"], row["asked_nodes"]) == (8.0, 2**33, 2)
    assert (row["submitted_ns"], row["labels"]) == (T0_NS, '{"job": "1_[1-9]"}')
    assert row["user_id"] is not None

    assert write_queue(site.engine, turn, [waits("2")]) == 1
    assert [*waiting_rows(site)] == ["2"]
    assert site.reader.units(UnitQuery()).items == ()


def test_queues_of_several_managers_stand_side_by_side(site: Site) -> None:
    for turn in (
        turn_of(site.engine, T0_NS),
        turn_of(site.engine, T0_NS, "oar"),
        turn_of(site.engine, T0_NS, cluster="c2"),
    ):
        write_queue(site.engine, turn, [waits("1")])
    write_queue(site.engine, turn_of(site.engine, T0_NS), [])

    assert len(all_rows(site, schema.waiting_units)) == 2


def test_a_queue_that_nobody_reads_any_more_is_told_for_a_day(site: Site) -> None:
    write_queue(site.engine, turn_of(site.engine, T0_NS), [waits("1")])
    write_queue(site.engine, turn_of(site.engine, T0_NS, "oar"), [waits("2")])
    site.clock.now_ns = T0_NS + 23 * 3600 * SECOND_NS
    write_queue(site.engine, turn_of(site.engine, site.clock.now_ns), [waits("1")])
    assert {each.unit for each in site.reader.waiting(WaitingQuery()).items} == {"1", "2"}

    site.clock.now_ns += 2 * 3600 * SECOND_NS

    assert [each.unit for each in site.reader.waiting(WaitingQuery()).items] == ["1"]
    assert {record.manager: record.units_waiting for record in site.reader.managers()} == {"slurm": 1, "oar": 0}


def test_why_a_manager_could_not_be_read_is_forgotten_once_nobody_asks_it(site: Site) -> None:
    for manager, cluster in (("slurm", "c1"), ("slurm", "c2"), ("oar", "c1")):
        note_error(site.engine, turn_of(site.engine, T0_NS, manager, cluster), "down")

    forget_errors(site.engine, {("c1", "slurm")})

    told = {(each.cluster, each.manager): (each.error, each.error_since) for each in site.reader.managers()}
    assert told == {("c1", "slurm"): ("down", T0), ("c2", "slurm"): (None, None), ("c1", "oar"): (None, None)}
