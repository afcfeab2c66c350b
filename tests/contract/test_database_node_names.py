"""A host by its short and by its full name is one host, wherever nodes are looked up: over SQLite and PostgreSQL."""

import pytest
from sqlalchemy import Engine
from tests.account_site import Site, minutes, worked_case
from tests.journals import T0_NS, HandJournal
from tests.managed_site import said, tell, turn_of

from kwhere.core.errors import NotFound
from kwhere.core.managed import ManagerNode
from kwhere.database.managed_units import write_nodes
from kwhere.database.place_records import ManagerNodeQuery
from kwhere.database.reading.node_list import AmbiguousNode
from kwhere.database.records import UnitQuery, UsageBy

FULL = "n1.cluster.example"


@pytest.fixture
def site(engine: Engine) -> Site:
    found = Site(engine)
    found.take(worked_case(HandJournal(node=FULL, machine_id="m1")))
    return found


def told(site: Site, *names: str) -> None:
    write_nodes(site.engine, turn_of(site.engine, T0_NS), [ManagerNode(name, "idle", True) for name in names])


def test_a_managers_short_name_is_the_agents_full_one(site: Site) -> None:
    told(site, "N1", "n10", "n2")

    found = {node.name: (node.is_reporting, node.reported_as) for node in site.reader.manager_nodes(MANY).items}

    assert found == {"N1": (True, FULL), "n10": (False, None), "n2": (False, None)}


MANY = ManagerNodeQuery()


def test_a_managers_full_name_is_the_agents_short_one(engine: Engine) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal(node="n1", machine_id="m1")))
    told(site, FULL)

    (node,) = site.reader.manager_nodes(MANY).items

    assert (node.is_reporting, node.reported_as) == (True, "n1")
    assert [each.state for each in site.reader.node("n1").said] == ["idle"]


def test_of_hosts_that_share_a_short_name_the_same_name_is_meant_else_none(site: Site) -> None:
    site.take(worked_case(HandJournal(node="n1.other.example", machine_id="m2", boot_id="b2")))
    told(site, "n1.other.example", "n1")

    found = {node.name: (node.is_reporting, node.reported_as) for node in site.reader.manager_nodes(MANY).items}

    assert found == {"n1": (True, None), "n1.other.example": (True, "n1.other.example")}
    assert len(site.reader.node("n1.other.example").said) == 1
    with pytest.raises(AmbiguousNode):
        site.reader.node("n1")


def test_a_nodes_record_says_what_its_managers_say_by_its_short_name(site: Site) -> None:
    told(site, "n1", "n10")

    assert [each.manager for each in site.reader.node(FULL).said] == ["slurm"]


def test_a_node_is_found_by_either_name(site: Site) -> None:
    assert site.reader.node("n1").node == FULL
    assert site.reader.node("N1", "c1").node == FULL
    for name in ("n", "n10", "n1.elsewhere.example"):
        with pytest.raises(NotFound):
            site.reader.node(name)


def test_lists_and_sums_of_a_node_take_either_name(site: Site) -> None:
    told(site, "n1")
    by_full = site.reader.units(UnitQuery(node=FULL))

    by_short = site.reader.units(UnitQuery(node="n1"))

    assert {item.unit for item in by_short.items} == {"a", "b"}
    assert by_short == by_full
    assert site.reader.usage(UsageBy.USER, minutes(0, 5), node="n1") == site.reader.usage(
        UsageBy.USER, minutes(0, 5), node=FULL
    )
    assert site.reader.power(minutes(0, 5), 300.0, None, "n1") == site.reader.power(minutes(0, 5), 300.0, None, FULL)
    assert [node.name for node in site.reader.manager_nodes(ManagerNodeQuery(node=FULL)).items] == ["n1"]
    assert site.reader.units(UnitQuery(node="n10")).items == ()


def test_a_unit_names_the_nodes_of_which_no_agent_told(site: Site) -> None:
    tell(site.engine, said("a", nodes=("n1", "n2")), said("z", nodes=("n3",)))

    assert site.reader.unit("c1", "slurm", "a").nodes_unreported == ("n2",)
    assert site.reader.unit("c1", "slurm", "a").nodes == (FULL,)
    assert site.reader.unit("c1", "slurm", "z").nodes_unreported == ("n3",)


def test_a_node_that_only_its_manager_tells_of_is_said_to_have_no_agent(site: Site) -> None:
    told(site, "n7.cluster.example")

    with pytest.raises(NotFound, match="node n7: no agent there was ever read, only slurm told of it"):
        site.reader.node("n7")
