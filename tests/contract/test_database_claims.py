"""Runs of nodes and runs of their manager, over SQLite and PostgreSQL."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, func, select
from tests.account_site import SITE, J, Site, all_rows, fixed, keep, minutes
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unit
from tests.managed_site import said, tell, turn_of

from kwhere.core.managed import Account, Accounts, ManagerAllocation, ManagerNode, Membership
from kwhere.core.terms import Flag
from kwhere.database import schema
from kwhere.database.claims import ClaimCounts
from kwhere.database.managed_units import write_accounts, write_nodes
from kwhere.database.manager_states import manager_state, note_error, note_good
from kwhere.database.records import UnitQuery, UnitSort, UsageBy

DAY_NS = 86_400 * SECOND_NS


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine, SITE.model_copy(update={"zone": "FR"}))


def worked(node: str = "n1", unit_id: str = "7", start_s: int = 1_764_000_000, user: str = "uid-1000") -> HandJournal:
    """One job of 60 s: 3000 J dynamic, 600 J idle, 120 CPU seconds."""
    journal = HandJournal(node=node, machine_id=f"m-{node}")
    numbers = figures(3000 * J, 600 * J, cpu_ns=120 * SECOND_NS)
    journal.append([unit(key(unit_id, start_s=start_s), numbers, user=user, name="cgroup"), system(figures(0, 0))])
    return journal


def test_a_run_becomes_its_managers_with_all_it_used(site: Site) -> None:
    site.take(worked())
    keep(site, fixed(100.0))
    site.clock.now_ns += DAY_NS
    site.roll()
    grams = site.reader.unit("c1", "slurm", "7").emissions_grams

    counts = tell(
        site.engine,
        said(
            "7",
            -5,
            70,
            name="solve|it\nnow",
            user="alice",
            project="cfd",
            group="phys",
            queue="main",
            allocation=ManagerAllocation(4.0, 2**30, {"a100": 2.0}, 1),
            tags={"qos": "normal"},
        ),
    )

    record = site.reader.unit("c1", "slurm", "7")
    assert counts == ClaimCounts(claimed=1)
    assert (record.run, record.name, record.user, record.project) == ("7@1763999995", "solve|it\nnow", "alice", "cfd")
    assert (record.state, record.queue, record.group) == ("completed", "main", "phys")
    assert (record.energy_total_uj, record.cpu_user_ns) == (3600 * J, 120 * SECOND_NS)
    assert (record.cpus_allocated, record.memory_allocated_bytes, record.gpus_allocated) == (4.0, 2**30, {"a100": 2.0})
    assert [run.run for run in record.node_runs] == ["7@1764000000"]
    assert record.labels == {"qos": "normal"}
    assert record.emissions_grams == grams == pytest.approx(0.1)
    by_user = {row.key: row.energy_total_uj for row in site.reader.usage(UsageBy.USER, minutes(0, 1)).rows}
    assert {user: energy for user, energy in by_user.items() if energy} == {"alice": 3600 * J}
    assert site.reader.units(UnitQuery(user="uid-1000")).items == ()


def test_a_job_on_two_nodes_is_one_unit_and_goes_on(site: Site) -> None:
    first, second = worked("n1"), worked("n2")
    for journal in (first, second):
        site.take(journal)
    job = said("7", 0, None, nodes=("n1", "n2.cluster.example"), user="alice")

    assert tell(site.engine, job) == ClaimCounts(claimed=2)
    first.append([unit(key("7"), figures(1000 * J, 200 * J)), system(figures(0, 0))])
    site.take(first)

    (listed,) = site.reader.units(UnitQuery(sort=UnitSort.POWER_WATTS)).items
    assert (listed.nodes, listed.energy_total_uj) == (("n1", "n2"), 8400 * J)
    # n1 drew 1200 J, n2 3600 J in their newest minute
    assert listed.power_uw == 80_000_000
    assert len(all_rows(site, schema.units)) == 1


def test_a_restarted_server_makes_no_unit_of_its_own_for_a_claimed_run(site: Site) -> None:
    journal = worked()
    site.take(journal)
    tell(site.engine, said("7", user="alice"))
    later = Site(site.engine)
    journal.append([unit(key("7"), figures(500 * J, 0), user="mallory"), system(figures(0, 0))])

    later.go_on(journal, journal.end_ns)

    (listed,) = later.reader.units(UnitQuery()).items
    assert (listed.user, listed.energy_total_uj) == ("alice", 4100 * J)
    assert len(all_rows(site, schema.units)) == 1


def test_a_pass_repeated_changes_nothing(site: Site) -> None:
    site.take(worked())
    job = said("7", 0, 60, user="alice")
    tell(site.engine, job)
    before = [all_rows(site, table) for table in (schema.units, schema.unit_runs, schema.unit_totals)]

    assert tell(site.engine, job, job) == ClaimCounts()

    assert [all_rows(site, table) for table in (schema.units, schema.unit_runs, schema.unit_totals)] == before


@pytest.mark.parametrize(
    ("start_s", "end_s", "is_claimed"),
    [(-60, 30, True), (0, None, True), (120, None, True), (121, None, False), (-500, -120, True), (-500, -121, False)],
)
def test_the_span_is_widened_by_two_minutes(site: Site, start_s: int, end_s: int | None, is_claimed: bool) -> None:
    site.take(worked())

    counts = tell(site.engine, said("7", start_s, end_s))

    assert counts.claimed == is_claimed
    assert counts.unverified == 0


def test_what_was_there_before_its_manager_was_asked_began_when_a_node_says(site: Site) -> None:
    site.take(worked())
    seen = [said("7", start, run="7", is_start_known=False) for start in (5000, 9000)]

    assert tell(site.engine, seen[0]).claimed == 1
    first = site.reader.unit("c1", "slurm", "7")
    tell(site.engine, seen[1])
    later = site.reader.unit("c1", "slurm", "7")

    assert (first.started_at.timestamp(), later.started_at) == (1_764_000_000, first.started_at)
    assert first.energy_total_uj == 3600 * J


def test_the_earliest_sight_is_kept_where_no_node_tells(site: Site) -> None:
    for start in (5000, 9000, 4000):
        tell(site.engine, said("7", start, run="7", is_start_known=False))

    assert [unit.started_at for unit in site.reader.units(UnitQuery()).items] == [said("7", 4000).started_at]


def test_a_reused_id_is_another_run_of_another_owner(site: Site) -> None:
    journal = worked()
    journal.append([system(figures(0, 0))], seconds=4000)
    journal.append([unit(key("7", start_s=1_764_004_060), figures(9 * J, 0)), system(figures(0, 0))])
    site.take(journal)

    tell(site.engine, said("7", 0, 60, user="alice"), said("7", 4059, 4120, user="bob"))

    assert [(r.user, r.energy_total_uj) for r in site.reader.unit_runs("c1", "slurm", "7")] == [
        ("bob", 9 * J),
        ("alice", 3600 * J),
    ]


def test_case_users_22_a_requeued_job_has_a_run_on_each_node(site: Site) -> None:
    site.take(worked("n1"))
    site.take(worked("n2", start_s=1_764_000_061))

    tell(
        site.engine,
        said("7", 0, 60, user="alice", state="requeued"),
        said("7", 61, 130, user="alice", nodes=("n2",)),
    )

    runs = site.reader.unit_runs("c1", "slurm", "7")
    assert [(run.nodes, run.state) for run in runs] == [(("n2",), "completed"), (("n1",), "requeued")]


def test_where_its_manager_did_not_place_it_it_is_nobodys(site: Site) -> None:
    journal = worked("n9", user="alice")
    site.take(journal)

    assert tell(site.engine, said("7", 0, None, user="alice")) == ClaimCounts(unverified=1)
    assert tell(site.engine, said("7", 0, None, user="alice")) == ClaimCounts()
    journal.append([unit(key("7"), figures(1 * J, 0), user="alice"), system(figures(0, 0))])
    Site(site.engine).go_on(journal, journal.end_ns)

    (listed,) = (found for found in site.reader.units(UnitQuery()).items if found.is_reported)
    assert (listed.user, listed.quality, listed.energy_total_uj) == (None, frozenset({Flag.UNVERIFIED}), 3601 * J)
    assert [dict(found.energy_uj) for found in site.reader.units(UnitQuery(user="alice")).items] == [{}]


def test_what_was_doubted_is_believed_once_its_manager_says_so(site: Site) -> None:
    site.take(worked("n9"))
    tell(site.engine, said("7", 0, None))

    assert tell(site.engine, said("7", 0, None, nodes=("n1", "n9"), user="alice")) == ClaimCounts(claimed=1)

    record = site.reader.unit("c1", "slurm", "7")
    assert (record.user, record.quality) == ("alice", frozenset())


def test_unmatched_runs_wait_seven_days_and_are_then_nobodys(site: Site) -> None:
    site.take(worked())
    days = [tell(site.engine, now_ns=T0_NS + day * DAY_NS) for day in (0, 3, 6)]

    assert days == [ClaimCounts(unclaimed=1)] * 3
    assert site.reader.unit("c1", "slurm", "7").user == "uid-1000"
    assert tell(site.engine, now_ns=T0_NS + 7 * DAY_NS) == ClaimCounts(unverified=1)
    assert tell(site.engine, now_ns=T0_NS + 8 * DAY_NS) == ClaimCounts()
    assert site.reader.unit("c1", "slurm", "7").user is None
    # and still, whenever the manager speaks of it
    assert tell(site.engine, said("7", 0, 60, user="alice"), now_ns=T0_NS + 90 * DAY_NS).claimed == 1


def test_runs_of_other_managers_and_clusters_are_left_alone(site: Site) -> None:
    journal = HandJournal()
    journal.append([unit(key("7", "oar"), figures(1, 0)), system(figures(0, 0))])
    site.take(journal)
    site.take(worked("m1"), "c2")

    assert tell(site.engine, said("7", nodes=None)) == ClaimCounts()


def test_case_ceems_284_slurmds_that_share_a_host_go_by_their_own_names(site: Site) -> None:
    journal = HandJournal(node_names=("v1", "v2"))
    shared = [replace(key("7"), run=f"7@1764000000.{name}") for name in ("v1", "v2")]
    entries = [replace(unit(k, figures(1, 0)), node_name=n) for k, n in zip(shared, ("v1", "v2"), strict=True)]
    journal.append([*entries, system(figures(0, 0))])
    site.take(journal)

    tell(site.engine, said("7", nodes=("v2",), user="alice"))

    found = {run.node_runs[0].run: (run.user, run.quality) for run in site.reader.unit_runs("c1", "slurm", "7")}
    assert found["7@1764000000.v2"] == ("alice", frozenset())
    assert found["7@1764000000.v1"] == (None, frozenset({Flag.UNVERIFIED}))


def test_long_and_ugly_words_are_kept_or_cut_never_refused(site: Site) -> None:
    site.take(worked())

    tell(site.engine, said("7", name="a\0b", user="ü" * 300, project="x" * 999, queue="q" * 999, state="s" * 99))
    tell(site.engine, said("x" * 600), said(""))

    record = site.reader.unit("c1", "slurm", "7")
    assert (record.name, record.user, record.project, len(record.state)) == ("ab", "ü" * 127, "x" * 255, 32)


def test_case_ceems_540_lists_of_members_are_replaced(site: Site) -> None:
    turn = turn_of(site.engine, T0_NS)
    before = Accounts((Account("cfd", "Flow", "root"),), (Membership("alice", "cfd"), Membership("bob", "cfd")))
    write_accounts(site.engine, turn, before)
    write_accounts(site.engine, turn, replace(before, memberships=(Membership("bob", "cfd"),)))

    with site.engine.connect() as connection:
        query = select(schema.users.c.name, schema.projects.c.name, schema.projects.c.description).select_from(
            schema.memberships.join(schema.users).join(schema.projects)
        )
        assert connection.execute(query).all() == [("bob", "cfd", "Flow")]


def test_nodes_of_a_manager_are_replaced(site: Site) -> None:
    turn = turn_of(site.engine, T0_NS)
    write_nodes(site.engine, turn, [ManagerNode("n1", "idle"), ManagerNode("n2", "down", is_schedulable=False)])
    write_nodes(site.engine, turn, [ManagerNode("n2", "idle", cpus=4, gpus={"a100": 2.0}, queues=("main",))])

    with site.engine.connect() as connection:
        nodes = schema.manager_nodes.c
        found = connection.execute(select(nodes.name, nodes.state, nodes.is_schedulable, nodes.gpus)).all()
        assert found == [("n2", "idle", True, '{"a100": 2.0}')]
    assert manager_state(site.engine, "c1", "slurm").facts_ns == T0_NS


def test_how_far_a_manager_was_read_is_kept(site: Site) -> None:
    turn = turn_of(site.engine, T0_NS)
    note_error(site.engine, turn, "no")
    note_error(site.engine, replace(turn, now_ns=T0_NS + 5), "still no")
    with site.engine.connect() as connection:
        states = schema.manager_states.c
        assert connection.execute(select(states.error, states.error_since_ns)).one() == ("still no", T0_NS)

    note_good(site.engine, turn, T0_NS + 9)

    assert manager_state(site.engine, "c1", "slurm").good_until_ns == T0_NS + 9
    with site.engine.connect() as connection:
        assert connection.execute(select(func.count()).where(states.error.is_not(None))).scalar_one() == 0


def test_people_find_a_job_by_what_their_scheduler_shows(site: Site) -> None:
    site.take(worked())
    tell(site.engine, said("7", tags={"job": "40_2"}))

    (found,) = site.reader.units(UnitQuery(q="40_2")).items

    assert (found.unit, found.labels["job"]) == ("7", "40_2")
