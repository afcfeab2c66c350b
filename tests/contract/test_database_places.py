"""Managers, their nodes, capacity, members and queues, over SQLite and PostgreSQL."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, insert
from tests.account_site import T0, Site, worked_case
from tests.journals import T0_NS, HandJournal
from tests.managed_site import said, tell, turn_of

from kwhere.core.errors import NotPermitted
from kwhere.core.managed import Account, Accounts, ManagerAllocation, ManagerNode, Membership
from kwhere.core.timespan import Span
from kwhere.database import bulk, schema
from kwhere.database.account_records import AccountQuery, AccountSort
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.managed_units import write_accounts, write_nodes
from kwhere.database.manager_states import note_error, note_good
from kwhere.database.place_records import (
    Amount,
    ManagerNodeQuery,
    ManagerNodeRecord,
    ManagerNodeSort,
    WaitingQuery,
    WaitingSort,
)
from kwhere.database.reading.paging import BadCursor
from kwhere.database.visibility import AccountName, Visibility

GIB = 2**30
NODES = (
    ManagerNode("a1", "mixed", True, None, "epyc", 64, 256 * GIB, {}, ManagerAllocation(40, 100 * GIB), ("main",)),
    ManagerNode("a2", "drained", False, "bad disk", "epyc", 64, 256 * GIB, {}, ManagerAllocation(0, 0), ("main",)),
    ManagerNode("g1", "mixed", True, None, "gpu", 32, 128 * GIB, {"a100": 4}, ManagerAllocation(8, GIB, {"a100": 3})),
    ManagerNode("g2", "idle", True, None, "gpu", 32, 128 * GIB, {"a100": 4}, ManagerAllocation(0, 0, {})),
    ManagerNode("k1", "ready", True),
)


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


def test_capacity_is_summed_by_type(site: Site) -> None:
    write_nodes(site.engine, turn_of(site.engine, T0_NS), NODES)

    unknown, epyc, gpu = site.reader.capacity("c1")

    assert (epyc.type, epyc.nodes, epyc.nodes_closed) == ("epyc", 2, 1)
    assert epyc.nodes_by_state == {"drained": 1, "mixed": 1}
    assert epyc.cpus == Amount(128, 40, 24, 64)
    assert epyc.memory == Amount(512 * GIB, 100 * GIB, 156 * GIB, 256 * GIB)
    assert gpu.gpus == {"a100": Amount(8, 3, 5, 0)}
    assert (unknown.type, unknown.cpus, unknown.memory, unknown.gpus) == (None, None, None, {})
    assert site.reader.capacity("elsewhere") == ()


def test_what_a_manager_does_not_say_is_not_free(site: Site) -> None:
    nodes = (
        ManagerNode("a", "ready", True, cpus=8),
        ManagerNode("b", "ready", True, cpus=8, allocated=ManagerAllocation(2)),
    )
    write_nodes(site.engine, turn_of(site.engine, T0_NS), nodes)

    (row,) = site.reader.capacity("c1")

    assert row.cpus == Amount(16, None, None, 0)


def test_nodes_are_paged_in_every_order(site: Site) -> None:
    write_nodes(site.engine, turn_of(site.engine, T0_NS), NODES)

    for sort in ManagerNodeSort:
        for descending in (False, True):
            whole = site.reader.manager_nodes(ManagerNodeQuery(sort=sort, descending=descending)).items
            found: list[ManagerNodeRecord] = []
            after: str | None = None
            while True:
                page = site.reader.manager_nodes(
                    ManagerNodeQuery(sort=sort, descending=descending, limit=2, after=after)
                )
                found += page.items
                after = page.next
                if after is None:
                    break
            assert tuple(found) == whole
            assert {node.name for node in whole} == {"a1", "a2", "g1", "g2", "k1"}


def test_nodes_are_narrowed(site: Site) -> None:
    write_nodes(site.engine, turn_of(site.engine, T0_NS), NODES)
    ask = site.reader.manager_nodes

    (closed,) = ask(ManagerNodeQuery(is_schedulable=False)).items

    assert (closed.name, closed.state, closed.reason, closed.cpus) == (
        "a2",
        "drained",
        "bad disk",
        Amount(64, 0, 0, 64),
    )
    assert [node.name for node in ask(ManagerNodeQuery(type="gpu", state="mixed")).items] == ["g1"]
    assert ask(ManagerNodeQuery(cluster="c2")).items == ()
    with pytest.raises(BadCursor):
        ask(ManagerNodeQuery(after=ask(ManagerNodeQuery(limit=1)).next, sort=ManagerNodeSort.STATE))


def test_a_nodes_record_says_what_its_managers_say(site: Site) -> None:
    site.take(worked_case(HandJournal(node="a2")))
    write_nodes(site.engine, turn_of(site.engine, T0_NS), NODES)

    (said_of,) = site.reader.node("a2").said

    assert (said_of.manager, said_of.state, said_of.is_schedulable, said_of.reason) == (
        "slurm",
        "drained",
        False,
        "bad disk",
    )


def test_managers_say_how_far_they_were_read(site: Site) -> None:
    turn = turn_of(site.engine, T0_NS)
    tell(site.engine, said("1"), said("2", 0, 60))
    write_nodes(site.engine, turn, NODES)
    note_good(site.engine, turn, T0_NS)
    note_error(site.engine, turn_of(site.engine, T0_NS + 10**9, "oar"), "no answer")

    oar, slurm = site.reader.managers()

    assert (slurm.manager, slurm.good_until, slurm.error) == ("slurm", from_ns(T0_NS), None)
    assert (slurm.nodes, slurm.nodes_closed, slurm.units_running) == (5, 1, 1)
    assert (oar.error, oar.error_since) == ("no answer", from_ns(T0_NS + 10**9))
    assert site.reader.managers("c2") == ()


def _members(site: Site) -> None:
    accounts = Accounts(
        (Account("aero", "wings", "engineering"), Account("bio")),
        (Membership("alice", "aero"), Membership("bob", "aero"), Membership("bob", "bio")),
    )
    for manager in ("slurm", "oar"):
        write_accounts(site.engine, turn_of(site.engine, T0_NS, manager), accounts)


def test_memberships_are_paged_and_narrowed(site: Site) -> None:
    _members(site)
    first = site.reader.memberships(limit=2)
    rest = site.reader.memberships(limit=2, after=first.next)

    found = [(m.project, m.user, m.managers) for m in (*first.items, *rest.items)]

    both = ("oar", "slurm")
    assert found == [("aero", "alice", both), ("aero", "bob", both), ("bio", "bob", both)]
    assert rest.next is None
    assert [m.project for m in site.reader.memberships(user="bob").items] == ["aero", "bio"]
    assert [m.user for m in site.reader.memberships(project="bio").items] == ["bob"]
    assert site.reader.memberships(cluster="c2").items == ()


def test_members_are_seen_by_themselves_and_by_who_sees_their_project(site: Site) -> None:
    _members(site)
    alice = site.reader.seen_by(Visibility(users=frozenset({AccountName("alice")})))
    head = site.reader.seen_by(Visibility(projects=frozenset({AccountName("aero")})))

    assert [(m.user, m.project) for m in alice.memberships().items] == [("alice", "aero")]
    assert [(m.user, m.project) for m in head.memberships().items] == [("alice", "aero"), ("bob", "aero")]
    with pytest.raises(NotPermitted):
        alice.capacity("c1")


def test_projects_that_are_only_listed_were_never_seen(site: Site) -> None:
    site.take(worked_case(HandJournal()))
    _members(site)

    projects = {p.name: p for p in site.reader.projects().items}

    assert projects["aero"].last_seen_at is None
    assert (projects["aero"].description, projects["aero"].parent, projects["aero"].units) == (
        "wings",
        "engineering",
        0,
    )
    assert projects["p1"].last_seen_at is not None
    newest = site.reader.projects(AccountQuery(sort=AccountSort.LAST_SEEN_AT, descending=True, limit=1))
    assert [p.name for p in newest.items] == ["p1"]
    rest = site.reader.projects(AccountQuery(sort=AccountSort.LAST_SEEN_AT, descending=True, after=newest.next))
    assert {p.name for p in rest.items} == {"aero", "bio"}
    assert [p.name for p in site.reader.projects(AccountQuery(parent="engineering")).items] == ["aero"]
    assert [p.name for p in site.reader.projects(AccountQuery(q="AER")).items] == ["aero"]


def _queue(site: Site) -> None:
    cluster_id = turn_of(site.engine, T0_NS).cluster_id
    with writing(site.engine).begin() as connection:
        bulk.insert(
            connection, schema.users, ("id", "cluster_id", "name", "last_seen_ns"), [(91, cluster_id, "alice", 0)]
        )
        for at, submitted in enumerate((30, 10, 20, None)):
            connection.execute(
                insert(schema.waiting_units).values(
                    cluster_id=cluster_id,
                    manager="slurm",
                    unit=str(100 + at),
                    state="pending",
                    user_id=91 if at == 1 else None,
                    queue="main" if at else "gpu",
                    reason="Priority",
                    submitted_ns=None if submitted is None else T0_NS + submitted * 10**9,
                    asked_gpus='{"a100": 2.0}',
                    asked_cpus=4.0,
                    tasks=at + 1,
                    seen_ns=T0_NS,
                )
            )


def test_a_queue_is_sorted_paged_and_narrowed(site: Site) -> None:
    _queue(site)
    ask = site.reader.waiting
    first = ask(WaitingQuery(limit=2))
    rest = ask(WaitingQuery(limit=2, after=first.next))
    backwards = ask(WaitingQuery(descending=True)).items

    assert [w.unit for w in (*first.items, *rest.items)] == ["101", "102", "100", "103"]
    assert [w.unit for w in backwards] == ["100", "102", "101", "103"]
    assert [w.unit for w in ask(WaitingQuery(queue="gpu")).items] == ["100"]
    (hers,) = ask(WaitingQuery(user="alice")).items
    assert (hers.unit, hers.user, hers.asked_gpus, hers.asked_cpus, hers.tasks) == (
        "101",
        "alice",
        {"a100": 2.0},
        4.0,
        2,
    )
    assert hers.submitted_at == from_ns(T0_NS + 10 * 10**9)
    assert len(ask(WaitingQuery(sort=WaitingSort.PRIORITY)).items) == 4
    alice = site.reader.seen_by(Visibility(users=frozenset({AccountName("alice")})))
    assert [w.unit for w in alice.waiting(WaitingQuery()).items] == ["101"]
    assert sum(m.units_waiting for m in alice.managers()) == 2


def test_occupancy_is_what_was_allocated_of_what_was_there(site: Site) -> None:
    site.take(worked_case(HandJournal(), slots=10))  # 10 min: 8 of 10 CPUs allocated to A, 2 to B
    site.roll()

    (day,) = site.reader.occupancy("c1", Span(T0 - timedelta(hours=1), T0 + timedelta(hours=1)))

    assert day.start == datetime(2025, 11, 24, tzinfo=UTC)
    assert day.cpu_allocated_ns == 10 * 600 * 10**9
    assert day.cpu_used_ns == 8 * 600 * 10**9
    with site.engine.connect() as connection:
        cpus = connection.execute(schema.nodes.select()).one().cpus
    assert day.cpu_capacity_ns == cpus * 600 * 10**9
    assert to_ns(day.end) - to_ns(day.start) == 24 * 3600 * 10**9
