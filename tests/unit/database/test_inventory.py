"""What sources of inventory say, kept and read as one; retired nodes; people who used something here."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine
from tests.account_site import J, Site, all_rows, worked_case
from tests.journals import SECOND_NS, T0_NS, HandJournal, figures, key, unit

from kwhere.core.inventory import Inventory, InventoryNode, InventoryRack, Person
from kwhere.database import nodes, schema
from kwhere.database.grid import from_ns
from kwhere.database.inventory import forget_other_sources, note_inventory_error, write_inventory
from kwhere.database.node_facts import NO_FACTS, ListedNode, NodeFacts, facts_of
from kwhere.database.privacy import pseudonymise_user
from kwhere.database.records import NodeState
from kwhere.database.retirements import BY, NodeNow, judge
from kwhere.database.visibility import AccountName, Visibility

HOUR_NS = 3600 * SECOND_NS


@pytest.fixture
def site(engine: Engine) -> Site:
    """Node n1 of cluster c1 ran a minute: 180 W, users alice and bob."""
    made = Site(engine)
    made.take(worked_case(HandJournal(node="n1")))
    return made


def tell(site: Site, source: str = "csv", position: int = 0, **lists: object) -> None:
    write_inventory(site.engine, source, position, Inventory(**lists), site.clock.now_ns)  # type: ignore[arg-type]


def facts(site: Site) -> NodeFacts:
    return site.reader.node("n1").facts


def test_a_node_shows_what_the_inventory_says(site: Site) -> None:
    day = datetime(2030, 1, 1, tzinfo=UTC)
    tell(site, nodes=(InventoryNode("n1", "c1", "R07", "gpu-a100", 1200.0, "pdu3:7", day), InventoryNode("n2")))

    found = site.reader.nodes().items[0]

    assert (found.facts.rack, found.facts.type, found.facts.power_limit_watts) == ("R07", "gpu-a100", 1200.0)
    assert found.facts.meter == "pdu3:7"
    assert (found.state, found.retired_at) == (NodeState.UP, None)


def test_a_list_replaces_the_one_before_and_silence_leaves_it(site: Site) -> None:
    tell(site, nodes=(InventoryNode("n1", rack="R1"),), racks=(InventoryRack("R1", power_limit_watts=10.0),))
    tell(site, people=())

    assert facts(site).rack == "R1"

    tell(site, nodes=())

    assert facts(site) == NO_FACTS
    assert len(all_rows(site, schema.inventory_racks)) == 1


def test_telling_the_same_twice_changes_nothing(site: Site) -> None:
    listed, people = (InventoryNode("n1", rack="R1"),), (Person("alice", full_name="A"),)
    tell(site, nodes=listed, people=people)
    before = [all_rows(site, schema.inventory_nodes), all_rows(site, schema.directory_people)]

    tell(site, nodes=listed, people=people)

    assert [all_rows(site, schema.inventory_nodes), all_rows(site, schema.directory_people)] == before


def test_a_source_that_fails_keeps_what_it_said(site: Site) -> None:
    tell(site, nodes=(InventoryNode("n1", rack="R1"),))

    for later in (1, 2):
        note_inventory_error(site.engine, "csv", 0, "nodes.csv line 3: …", site.clock.now_ns + later)

    assert facts(site).rack == "R1"
    [row] = all_rows(site, schema.inventory_sources)
    assert row == ("csv", 0, site.clock.now_ns, "nodes.csv line 3: …", site.clock.now_ns + 1)

    tell(site, nodes=())

    assert all_rows(site, schema.inventory_sources)[0][3:] == (None, None)


@pytest.mark.parametrize("word", ["\ud800", "\0", "x" * 300, "a\0b\ud800"])
def test_what_no_column_holds_takes_no_good_row_with_it(site: Site, word: str) -> None:
    tell(
        site,
        nodes=(InventoryNode("n1", "c1", word, word), InventoryNode(word), InventoryNode("n2", rack="R2")),
        racks=(InventoryRack(word), InventoryRack("R2")),
        people=(Person("alice", "c1", word, word), Person(word)),
    )

    assert {row[2] for row in all_rows(site, schema.inventory_nodes)} == {"n1", "n2"}
    assert [row[2] for row in all_rows(site, schema.inventory_racks)] == ["R2"]


def test_the_first_source_that_says_a_thing_counts(site: Site) -> None:
    tell(site, "late", 1, nodes=(InventoryNode("n1", rack="R9", type="old"),))
    tell(site, "first", 0, nodes=(InventoryNode("n1", rack="R1"),))

    assert (facts(site).rack, facts(site).type) == ("R1", "old")


def test_a_source_that_is_configured_no_longer_is_forgotten(site: Site) -> None:
    tell(site, "old", 0, nodes=(InventoryNode("n1", rack="R1"),), people=(Person("alice", mail="a@x.org"),))

    forget_other_sources(site.engine, ["csv"], site.clock.now_ns)

    assert facts(site) == NO_FACTS
    assert all_rows(site, schema.directory_people) == []


NAMES = {
    "same": ("n1", ["n1"], True),
    "case": ("N1", ["n1"], True),
    "bare_for_full": ("n1", ["n1.example.org"], True),
    "full_for_bare": ("n1.example.org", ["n1"], True),
    "two_full_for_bare": ("n1", ["n1.a.org", "n1.b.org"], False),
    "other_domain": ("n1.a.org", ["n1.b.org"], False),
    "exact_before_bare": ("n1.a.org", ["n1.a.org", "n1"], True),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_the_node_s_by_its_name(name: str) -> None:
    node, listed, is_found = NAMES[name]
    rows = [ListedNode(0, "", each, NodeFacts(rack=each)) for each in listed]

    found = facts_of("c1", node, rows)

    assert found.rack == (listed[0] if is_found else None)


def test_a_row_of_the_node_s_own_cluster_counts_before_one_of_every_cluster() -> None:
    rows = [ListedNode(0, "", "n1", NodeFacts("R0", "t")), ListedNode(0, "c1", "n1", NodeFacts("R1"))]
    rows.append(ListedNode(0, "c2", "n1", NodeFacts("R2")))

    assert facts_of("c1", "n1", rows) == NodeFacts("R1", "t")
    assert facts_of("c3", "n1", rows) == NodeFacts("R0", "t")


def test_a_retired_node_is_expected_no_longer(site: Site) -> None:
    retired_at = from_ns(site.clock.now_ns) + timedelta(minutes=5)
    tell(site, nodes=(InventoryNode("n1", retired_at=retired_at),))
    assert site.reader.node("n1").state is NodeState.UP

    site.clock.now_ns += 6 * HOUR_NS
    before = site.reader.overview().completeness_ratio
    tell(site, nodes=(InventoryNode("n1", retired_at=retired_at),))

    node = site.reader.node("n1")
    assert (node.state, node.retired_at) == (NodeState.RETIRED, retired_at)
    assert before is not None
    assert before < 0.1
    assert site.reader.overview().completeness_ratio == pytest.approx(60 / 360)

    tell(site, nodes=(InventoryNode("n1"),))

    assert site.reader.node("n1").state is NodeState.LOST
    actions = [row[2:5] for row in all_rows(site, schema.audit)]
    assert actions == [(BY, "retire node", "c1/n1"), (BY, "take node back", "c1/n1")]


def test_a_person_s_retirement_stands(site: Site) -> None:
    nodes.retire(site.engine, "c1", "n1", site.clock.now_ns, by="test")

    tell(site, nodes=(InventoryNode("n1"),))

    assert site.reader.node("n1").state is NodeState.RETIRED


NOW, DAY = 1_000 * HOUR_NS, 500 * HOUR_NS
JUDGED = {
    "not_listed": (NodeNow(NOW, NOW, None, None), None, (None, None)),
    "in_future": (NodeNow(NOW, NOW, None, None), NOW + 1, (None, None)),
    "silent_before": (NodeNow(DAY - 5, DAY, None, None), DAY, (DAY, BY)),
    "silent_after": (NodeNow(DAY + 5, DAY, None, None), DAY, (DAY + 5, BY)),
    "never_seen": (NodeNow(None, None, None, None), DAY, (DAY, BY)),
    "still_reports": (NodeNow(NOW - 5, NOW, None, None), DAY, (None, None)),
    "stays_retired": (NodeNow(DAY + 5, NOW, DAY + 5, BY), DAY, (DAY + 5, BY)),
    "by_a_person": (NodeNow(DAY, DAY, 7, None), None, (7, None)),
    "taken_off_the_list": (NodeNow(DAY, DAY, 7, BY), None, (None, None)),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_who_is_retired(name: str) -> None:
    node, listed_ns, expected = JUDGED[name]

    assert judge(node, listed_ns, NOW) == expected


def test_a_rack_draws_what_its_nodes_draw_against_its_limit(site: Site) -> None:
    site.take(worked_case(HandJournal(node="n2", machine_id="m2")))
    rows = (InventoryNode("n1", rack="R1", power_limit_watts=400.0), InventoryNode("n2", rack="R1"))
    tell(site, nodes=rows, racks=(InventoryRack("R1", power_limit_watts=300.0),))

    [rack] = site.reader.racks()

    assert (rack.cluster, rack.rack, rack.nodes, rack.up) == ("c1", "R1", 2, 2)
    assert rack.power_uw == 2 * 180 * J
    assert (rack.limit_watts, rack.is_limit_summed) == (300.0, False)


def test_without_a_limit_of_its_own_a_rack_has_the_sum_of_its_nodes_or_none(site: Site) -> None:
    tell(site, nodes=(InventoryNode("n1", rack="R1", power_limit_watts=400.0),))
    assert (site.reader.racks()[0].limit_watts, site.reader.racks()[0].is_limit_summed) == (400.0, True)

    tell(site, nodes=(InventoryNode("n1", rack="R1"),))

    assert site.reader.racks()[0].limit_watts is None
    assert site.reader.racks("c2") == ()


def test_only_people_who_used_something_here_are_kept(site: Site) -> None:
    tell(site, people=(Person("alice", full_name="Alice A", mail="a@x.org", language="fr"), Person("carol")))

    assert [row[2] for row in all_rows(site, schema.directory_people)] == ["alice"]
    person = site.reader.people("alice")["c1"]
    assert (person.shown_name, person.mail_to, person.language) == ("Alice A", "a@x.org", "fr")
    assert site.reader.people("bob") == {}


@pytest.mark.parametrize("full_name", [None, ""])
def test_who_has_no_full_name_is_called_by_the_login__case_users_43(site: Site, full_name: str | None) -> None:
    tell(site, people=(Person("alice", full_name=full_name),))

    assert site.reader.people("alice")["c1"].shown_name == "alice"


def test_who_opted_out_anywhere_gets_no_mail(site: Site) -> None:
    tell(site, "first", 0, people=(Person("alice", mail="a@x.org", opted_out=False),))
    tell(site, "second", 1, people=(Person("alice", opted_out=True),))

    person = site.reader.people("alice")["c1"]

    assert (person.mail, person.opted_out, person.mail_to) == ("a@x.org", True, None)


def test_a_person_sees_their_own_entry_alone(site: Site) -> None:
    tell(site, people=(Person("alice", mail="a@x.org"), Person("bob", mail="b@x.org")))
    alice = site.reader.seen_by(Visibility(users=frozenset({AccountName("alice")})))
    both = site.reader.seen_by(Visibility(projects=frozenset({AccountName("p1")})))

    assert alice.people("alice")["c1"].mail == "a@x.org"
    assert (alice.people("bob"), both.people("alice")) == ({}, {})


def test_pseudonymising_removes_what_the_directory_said_and_it_does_not_come_back(site: Site) -> None:
    people = (Person("alice", "c1", mail="a@x.org"), Person("alice", mail="a@x.org"))
    tell(site, people=people)

    pseudonymise_user(site.engine, "c1", "alice", T0_NS, by="test")

    assert all_rows(site, schema.directory_people) == []
    tell(site, people=people)
    assert all_rows(site, schema.directory_people) == []


def test_another_cluster_s_user_of_that_name_keeps_the_entry(site: Site) -> None:
    other = HandJournal(node="n9", machine_id="m9")
    other.append([unit(key("x"), figures(1, 0), user="alice")])
    site.take(other, "c2")
    tell(site, people=(Person("alice", mail="a@x.org"),))

    pseudonymise_user(site.engine, "c1", "alice", T0_NS, by="test")

    assert site.reader.people("alice")["c2"].mail == "a@x.org"
