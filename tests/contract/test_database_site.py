"""Nodes, balance, overview and accounts as they are read, over SQLite and PostgreSQL."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine
from tests.account_site import T0, J, Site, fixed, keep, minutes, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, system, unallocated, unit

from kwhere.core.errors import NotFound
from kwhere.core.terms import Component, Flag, Method
from kwhere.database.account_records import AccountQuery
from kwhere.database.nodes import retire
from kwhere.database.reader import AmbiguousNode
from kwhere.database.records import NodeState, UnitQuery, UsageBy
from kwhere.database.settings import SiteSettings


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


def test_a_node_is_up_then_late_then_lost_then_retired(site: Site) -> None:
    site.take(worked_case(HandJournal()))
    states: list[NodeState] = []

    for seconds in (60 + 3 * 60 + 30, 60 + 3 * 60 + 31, 60 + 3601):
        site.clock.now_ns = T0_NS + seconds * SECOND_NS
        states.append(site.reader.node("n1").state)
    retire(site.engine, "c1", "n1", site.clock.now_ns, by="test")
    states.append(site.reader.node("n1").state)

    assert states == [NodeState.UP, NodeState.LATE, NodeState.LOST, NodeState.RETIRED]
    assert [node.state for node in site.reader.nodes(state=NodeState.RETIRED).items] == [NodeState.RETIRED]
    assert site.reader.nodes(state=NodeState.UP).items == ()


def test_a_node_has_power_lag_and_units(site: Site) -> None:
    site.take(worked_case(HandJournal(), slots=3))
    site.clock.now_ns += 10 * SECOND_NS

    node = site.reader.node("n1", "c1")

    assert (node.power_uw, node.lag_seconds, node.units_running, node.cpus) == (180_000_000, 10.0, 2, 10)
    assert (node.completeness_ratio, node.measured_ratio) == (1.0, 0.0)
    assert [(m.component, m.method) for m in node.methods] == [(Component.CPU, Method.MODELLED)]


def test_a_node_of_two_clusters_needs_its_cluster(site: Site) -> None:
    site.take(worked_case(HandJournal()), "c1")
    site.take(worked_case(HandJournal(machine_id="m2")), "c2")

    with pytest.raises(AmbiguousNode) as caught:
        site.reader.node("n1")
    with pytest.raises(NotFound):
        site.reader.node("n1", "c3")

    assert caught.value.clusters == ("c1", "c2")
    assert site.reader.node("n1", "c2").cluster == "c2"


def test_nodes_are_paged_by_cluster_and_name(site: Site) -> None:
    for cluster, node in (("c2", "a"), ("c1", "b"), ("c1", "a")):
        site.take(worked_case(HandJournal(node=node, machine_id=cluster + node)), cluster)

    first = site.reader.nodes(limit=2)
    second = site.reader.nodes(limit=2, after=first.next)

    assert [(n.cluster, n.node) for n in (*first.items, *second.items)] == [("c1", "a"), ("c1", "b"), ("c2", "a")]
    assert second.next is None


def test_the_balance_of_a_slot_adds_up(site: Site) -> None:
    journal = HandJournal()
    a = unit(key("a"), figures(10, 20))
    journal.append([a, system(figures(3, 4)), unallocated(figures(0, 5))], flags=frozenset({Flag.GAP}))
    journal.append([system(figures(1, 0))])
    site.take(journal)

    first, second = site.reader.balance("c1", "n1", minutes(0, 5))

    assert (first.node_uj, first.units_uj, first.system_uj, first.unallocated_uj, first.residual_uj) == (
        42,
        30,
        7,
        5,
        0,
    )
    assert (first.components[0].units_dynamic_uj, first.components[0].source) == (10, "model")
    assert (first.flags, second.node_uj) == (frozenset({Flag.GAP}), 1)
    assert [slot.node_uj for slot in site.reader.balance("c1", "n1", minutes(0, 5), limit=1)] == [1]


@pytest.mark.parametrize(("step", "points"), [(60.0, 10), (120.0, 5), (300.0, 2), (600.0, 1)])
def test_power_over_time_holds_all_energy_at_any_step(site: Site, step: float, points: int) -> None:
    journal = worked_case(HandJournal(), slots=10)
    site.take(journal)

    found = site.reader.power(minutes(0, 10), step, "c1", "n1")

    assert len(found) == points
    assert sum(point.energy_uj for point in found) == journal.control_uj
    assert sum(point.node_seconds for point in found) == 600
    assert found[0].components[Component.CPU].units_dynamic_uj == 4800 * J * 10 // points


@pytest.mark.parametrize("step", [60.0, 300.0])
def test_power_over_time_tells_how_many_nodes_it_is_of(site: Site, step: float) -> None:
    site.take(worked_case(HandJournal(node="a", machine_id="a"), slots=5), "c1")
    site.take(worked_case(HandJournal(node="b", machine_id="b"), slots=10), "c1")

    found = site.reader.power(minutes(0, 10), step, "c1")

    half = len(found) // 2
    assert [point.nodes for point in found] == [2] * half + [1] * half


def test_power_of_a_unit_over_time(site: Site) -> None:
    site.take(worked_case(HandJournal(), slots=10))

    found = site.reader.unit_power("c1", "slurm", "a", "a@1764000000", minutes(0, 10))

    assert [point.energy_total_uj for point in found] == [48_000 * J, 48_000 * J]
    assert found[0].span == minutes(0, 5)


def test_the_overview_has_now_and_today(engine: Engine) -> None:
    site = Site(engine, SiteSettings(zone="FR"))
    keep(site, fixed(100.0))
    site.take(worked_case(HandJournal(), slots=10))
    site.roll()

    seen = site.reader.overview(top=1)

    assert (seen.power_uw, seen.energy_today_uj, seen.units_running) == (180_000_000, 108_000 * J, 2)
    assert seen.power_now[Component.CPU].units_dynamic_uj == 80_000_000
    assert seen.emissions_today_grams == pytest.approx(3.0)  # 180 W for 10 min = 0.03 kWh
    assert [item.unit for item in seen.top_units] == ["a"]
    assert (seen.nodes_by_state, seen.residual_uj, seen.completeness_ratio) == ({NodeState.UP: 1}, 0, 1.0)


def test_an_empty_account_has_no_figures(site: Site) -> None:
    seen = site.reader.overview()

    assert (seen.power_uw, seen.energy_today_uj, seen.measured_ratio, seen.completeness_ratio) == (None, 0, None, None)
    assert (seen.top_units, seen.emissions_today_grams) == ((), None)
    assert site.reader.units(UnitQuery()).items == ()
    assert site.reader.usage(UsageBy.DAY, minutes(0, 5)).rows == ()
    assert site.reader.clusters() == ()
    assert site.reader.users().items == ()
    assert site.reader.power(minutes(0, 5), 60.0) == ()


def test_a_slot_off_balance_shows_on_the_overview(site: Site) -> None:
    first, journal = HandJournal(), HandJournal()
    slot = first.append([system(figures(50, 0))])
    journal.append([system(figures(47, 0))], control=slot.controls)
    site.take(journal)

    assert site.reader.overview().residual_uj == 3
    assert site.reader.health().quarantined_slots == 1


def test_clusters_users_and_projects_have_their_sums(site: Site) -> None:
    site.take(worked_case(HandJournal()))

    (cluster,) = site.reader.clusters()
    alice, bob = site.reader.users().items
    (project,) = site.reader.projects(AccountQuery(name="p1")).items

    assert (cluster.cluster, cluster.nodes_by_state, cluster.units_running) == ("c1", {NodeState.UP: 1}, 2)
    assert cluster.power_uw == 180_000_000
    assert (alice.name, alice.units, alice.units_running, alice.energy_total_uj) == ("alice", 1, 1, 9600 * J)
    assert (bob.name, project.energy_total_uj) == ("bob", 9600 * J)
    first = site.reader.users(AccountQuery(limit=1))
    assert first.next is not None
    assert [u.name for u in site.reader.users(AccountQuery(limit=1, after=first.next)).items] == ["bob"]


def test_a_guest_is_not_counted_beside_its_host(site: Site) -> None:
    host, guest = worked_case(HandJournal(node="host")), HandJournal(node="guest", machine_id="m2", parent="host/vm-1")
    guest.append([system(figures(1000 * J, 0))])
    site.take(host)
    site.take(guest)

    usage = site.reader.usage(UsageBy.CLUSTER, minutes(0, 5)).rows

    assert sum(row.energy_total_uj for row in usage) == host.control_uj
    assert site.reader.overview().energy_today_uj == host.control_uj
    assert site.reader.clusters()[0].power_uw == 180_000_000


def nested(site: Site, guest_cluster: str) -> tuple[int, int]:
    """Take in a host of c1 and its guest; return what each has booked."""
    host, guest = worked_case(HandJournal(node="host")), HandJournal(node="guest", machine_id="m2", parent="host/vm-1")
    guest.append([system(figures(1000 * J, 0))])
    site.take(host)
    site.take(guest, guest_cluster)
    return host.control_uj, guest.control_uj


def usage_uj(site: Site, cluster: str | None = None, node: str | None = None) -> int:
    rows = site.reader.usage(UsageBy.CLUSTER, minutes(0, 5), cluster=cluster, node=node).rows
    return sum(row.energy_total_uj for row in rows)


def test_a_guest_of_another_cluster_counts_in_its_own_and_not_in_the_sites(site: Site) -> None:
    host_uj, guest_uj = nested(site, "c2")

    assert usage_uj(site) == host_uj
    assert usage_uj(site, "c1") == host_uj
    assert usage_uj(site, "c2") == guest_uj
    assert site.reader.overview().energy_today_uj == host_uj
    assert site.reader.overview(cluster="c2").energy_today_uj == guest_uj
    assert sum(point.energy_uj for point in site.reader.power(minutes(0, 5), 300, "c2")) == guest_uj
    assert [cluster.power_uw is not None for cluster in site.reader.clusters()] == [True, True]


def test_a_guest_that_is_asked_for_by_name_is_shown(site: Site) -> None:
    _, guest_uj = nested(site, "c1")

    assert usage_uj(site, node="guest") == guest_uj
    assert usage_uj(site, "c1", "guest") == guest_uj


def nested_users(site: Site, guest_cluster: str) -> None:
    """Take in a host of c1, whose VM `a` is alice's, and a guest in that VM with pods of alice and carol."""
    host, guest = worked_case(HandJournal(node="host")), HandJournal(node="guest", machine_id="m2", parent="host/a")
    hers, carols = (
        unit(key("p"), figures(600 * J, 0), user="alice", project="p1"),
        unit(key("q"), figures(400 * J, 0), user="carol"),
    )
    guest.append([hers, carols])
    keep(site, fixed(3600.0))
    site.take(host)
    site.take(guest, guest_cluster)
    site.clock.now_ns += 2 * 86400 * SECOND_NS
    site.roll()


def test_what_a_user_has_in_a_guest_is_not_added_to_the_machines_owner(site: Site) -> None:
    nested_users(site, "c1")

    found = {user.name: (user.units, user.energy_total_uj) for user in site.reader.users().items}
    (project,) = site.reader.projects(AccountQuery(name="p1")).items
    by_user = {row.key: row.energy_total_uj for row in site.reader.usage(UsageBy.USER, minutes(0, 5)).rows if row.key}

    assert found == {"alice": (2, 9600 * J), "bob": (1, 1200 * J), "carol": (1, 0)}
    assert project.energy_total_uj == 9600 * J
    assert by_user == {"alice": 9600 * J, "bob": 1200 * J}


def test_grams_of_a_guest_are_not_added_to_the_machines_owner(engine: Engine) -> None:
    site = Site(engine, SiteSettings(time_zone="UTC", zone="FR"))
    nested_users(site, "c1")

    found = {user.name: user.emissions_grams for user in site.reader.users().items}

    assert found == {
        "alice": pytest.approx(9600 * 3600.0 / 3.6e6),
        "bob": pytest.approx(1200 * 3600.0 / 3.6e6),
        "carol": 0.0,
    }


def test_users_of_a_guests_own_cluster_have_their_sums_when_that_is_asked_for(site: Site) -> None:
    nested_users(site, "c2")

    alone = {user.name: user.energy_total_uj for user in site.reader.users(AccountQuery(cluster="c2")).items}
    beside = [(user.cluster, user.name, user.energy_total_uj) for user in site.reader.users().items]

    assert alone == {"alice": 600 * J, "carol": 400 * J}
    assert sum(energy_uj for _, _, energy_uj in beside) == (9600 + 1200) * J


@pytest.mark.parametrize(
    ("parents", "counted"),
    [
        ({"a": None, "b": "a/vm", "c": "b/vm"}, {"a"}),
        ({"a": "b/vm", "b": "a/vm"}, {"a", "b"}),
        ({"a": "a/vm"}, {"a"}),
        ({"a": "elsewhere/vm"}, {"a"}),
    ],
    ids=["a guest of a guest", "a circle", "its own host", "a host that is not accounted"],
)
def test_who_is_counted(site: Site, parents: dict[str, str | None], counted: set[str]) -> None:
    sizes = {}
    for number, (name, parent) in enumerate(parents.items()):
        journal = HandJournal(node=name, machine_id=f"m{number}", parent=parent)
        journal.append([system(figures(10**number * J, 0))])
        site.take(journal)
        sizes[name] = journal.control_uj

    assert usage_uj(site) == sum(sizes[name] for name in counted)


def test_a_guest_that_migrated_has_its_new_host(site: Site) -> None:
    first, second = worked_case(HandJournal(node="hv1")), worked_case(HandJournal(node="hv2", machine_id="m3"))
    guest = HandJournal(node="guest", machine_id="m2", parent="hv1/vm-1")
    guest.append([system(figures(500 * J, 0))])
    for journal in (first, second, guest):
        site.take(journal)
    guest.new_epoch()
    guest.parent = "hv2/vm-1"
    guest.append([system(figures(700 * J, 0))])
    site.take(guest)

    assert site.reader.node("guest").parent == "hv2/vm-1"
    assert usage_uj(site) == first.control_uj + second.control_uj


def test_health_says_what_waits(site: Site) -> None:
    site.take(worked_case(HandJournal()))
    before = site.reader.health()
    site.roll()

    assert before.oldest_touched_hour_at == T0
    assert site.reader.health().oldest_touched_hour_at is None
    assert (before.stopped_journals, before.lost_records, before.nodes_by_state) == (0, 0, {NodeState.UP: 1})


def test_a_retired_node_that_reports_again_is_back(site: Site) -> None:
    journal = worked_case(HandJournal())
    site.take(journal)
    retire(site.engine, "c1", "n1", site.clock.now_ns, by="test")
    worked_case(journal)

    site.take(journal)

    assert site.reader.node("n1").state is NodeState.UP


def test_units_that_lived_in_a_hole_say_so(site: Site) -> None:
    journal = HandJournal()
    journal.append([unit(key("ended"), figures(1, 0)), unit(key("through"), figures(1, 0))])
    journal.append([unit(key("through"), figures(1, 0))])
    site.take(journal)
    journal.append([unit(key("through"), figures(1, 0))])
    journal.append([unit(key("through"), figures(1, 0)), unit(key("late", start_s=1_764_000_180), figures(1, 0))])
    journal.prune(journal.epochs[0], 4)

    site.take(journal)

    quality = {item.unit: item.quality for item in site.reader.units(UnitQuery()).items}
    assert quality == {"ended": frozenset(), "through": frozenset({Flag.LOST}), "late": frozenset()}


@pytest.mark.parametrize("rolled", [False, True])
def test_today_is_read_from_hours_where_they_are_summed_up(site: Site, rolled: bool) -> None:
    journal = worked_case(HandJournal(end_ns=T0_NS + 130 * SECOND_NS, slot_seconds=300), slots=60)
    site.take(journal)
    if rolled:
        site.roll()

    seen = site.reader.overview()

    assert seen.energy_today_uj == 60 * 10_800 * J == journal.control_uj
    assert seen.completeness_ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("start_s", "slots", "spans"),
    [
        pytest.param(120, 5, [(120, 300), (300, 420)], id="begins and ends within a bucket"),
        pytest.param(270, 2, [(270, 390)], id="a first slot over the edge"),
        pytest.param(60, 2, [(60, 180)], id="one bucket, partly"),
    ],
)
def test_a_unit_has_power_in_the_time_it_was_seen(
    site: Site, start_s: int, slots: int, spans: list[tuple[int, int]]
) -> None:
    """Its agent came after it began: what was before is not of its power."""
    journal = HandJournal(end_ns=T0_NS + start_s * SECOND_NS)
    site.take(worked_case(journal, slots))

    found = site.reader.unit_power("c1", "slurm", "a", "a@1764000000", minutes(0, 15))

    assert [
        (bucket.span.start - T0, bucket.span.end - T0, bucket.energy_total_uj / bucket.span.seconds) for bucket in found
    ] == [(timedelta(seconds=start), timedelta(seconds=end), 160 * J) for start, end in spans]


def test_means_of_a_unit_are_over_the_time_it_was_measured(site: Site) -> None:
    """Nobody but nodes says what it was given: eight of ten CPUs, also where the agent came an hour after it began."""
    site.take(worked_case(HandJournal(end_ns=T0_NS + 3600 * SECOND_NS), slots=5))

    record = site.reader.unit("c1", "slurm", "a")

    assert record.cpus_allocated == 8.0
    assert record.measured_seconds == 300.0
