"""Names become ids of one database; what is not seen passes no condition."""

import pytest
from sqlalchemy import Engine, select
from tests.account_site import J, Site
from tests.journals import HandJournal, figures, key, system, unallocated, unit
from tests.managed_site import turn_of

from kwhere.core.errors import NotPermitted
from kwhere.core.managed import Accounts, Membership
from kwhere.database import schema
from kwhere.database.managed_units import write_accounts
from kwhere.database.visibility import EVERYTHING, NOTHING, AccountName, Sight, Visibility

OWNERS = (("a", "alice", "cfd"), ("b", "bob", "cfd"), ("c", "carol", ""), ("d", "", ""))


@pytest.fixture
def site(engine: Engine) -> Site:
    built = Site(engine)
    for cluster in ("c1", "c2"):
        journal = HandJournal(node=f"n-{cluster}", machine_id=f"m-{cluster}")
        entries = [unit(key(f"{word}-{cluster}"), figures(J, 0), user=who, project=what) for word, who, what in OWNERS]
        journal.append([*entries, system(figures(J, 0)), unallocated(figures(J, 0))])
        built.take(journal, cluster)
    return built


def _units(site: Site, visibility: Visibility) -> set[str]:
    with site.engine.connect() as connection:
        sight = visibility.resolve(connection)
        return set(connection.execute(select(schema.units.c.unit).where(*sight.units())).scalars())


def _member(site: Site, *members: tuple[str, str]) -> None:
    accounts = Accounts((), tuple(Membership(*member) for member in members))
    write_accounts(site.engine, turn_of(site.engine, site.clock.now_ns), accounts)


def test_a_user_sees_their_own_units_of_every_cluster(site: Site) -> None:
    assert _units(site, Visibility(users=frozenset({AccountName("alice")}))) == {"a-c1", "a-c2"}


def test_an_account_of_one_cluster_is_no_other_clusters(site: Site) -> None:
    assert _units(site, Visibility(users=frozenset({AccountName("alice", "c2")}))) == {"a-c2"}


@pytest.mark.parametrize(
    "name", ["Alice", "ALICE", "al\u0131ce", "alice ", "alice\n", "alice@realm", "alice'--", "%", "_lice", "", "lice"]
)
def test_case_users_3_4_a_name_matches_exactly_or_not_at_all(site: Site, name: str) -> None:
    assert _units(site, Visibility(users=frozenset({AccountName(name)}))) == set()


def test_a_project_is_seen_with_all_its_users(site: Site) -> None:
    assert _units(site, Visibility(projects=frozenset({AccountName("cfd", "c1")}))) == {"a-c1", "b-c1"}


def test_case_ceems_540_who_left_a_project_sees_it_no_more(site: Site) -> None:
    manager = Visibility(users=frozenset({AccountName("carol")}), members=frozenset({AccountName("carol")}))
    _member(site, ("carol", "cfd"))
    before = _units(site, manager)

    _member(site, ("bob", "cfd"))

    assert before == {"a-c1", "b-c1", "c-c1", "c-c2"}
    assert _units(site, manager) == {"c-c1", "c-c2"}


def test_nobody_sees_units_without_an_owner_but_those_who_see_everything(site: Site) -> None:
    assert _units(site, NOTHING) == set()
    assert {"d-c1", "d-c2"} <= _units(site, EVERYTHING)


def test_system_and_unallocated_are_nobodys(site: Site) -> None:
    with site.engine.connect() as connection:
        sight = Visibility(users=frozenset({AccountName("alice")})).resolve(connection)
        joined = schema.unit_runs.outerjoin(schema.units, schema.units.c.id == schema.unit_runs.c.unit_id)
        kinds = connection.execute(select(schema.unit_runs.c.kind).select_from(joined).where(*sight.units()))

        assert set(kinds.scalars()) == {"unit"}


def test_accounts_and_nodes_are_those_of_the_units_that_are_seen(site: Site) -> None:
    with site.engine.connect() as connection:
        sight = Visibility(projects=frozenset({AccountName("cfd", "c1")})).resolve(connection)
        users = connection.execute(select(schema.users.c.name).where(*sight.users())).scalars().all()
        projects = connection.execute(select(schema.projects.c.name).where(*sight.projects())).scalars().all()
        nodes = connection.execute(select(schema.nodes.c.name).where(*sight.nodes())).scalars().all()

    assert (sorted(users), projects, nodes) == (["alice", "bob"], ["cfd"], ["n-c1"])


def test_what_is_no_one_persons_is_refused_with_its_reason() -> None:
    Sight(site=True).demand_site("balance of node n1")

    with pytest.raises(NotPermitted, match=r"balance of node n1: .*operators and auditors"):
        Sight().demand_site("balance of node n1")
