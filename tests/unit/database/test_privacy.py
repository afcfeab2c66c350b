"""A person leaves the account, the sums stay."""

import zlib

import pytest
from sqlalchemy import Engine
from tests.account_site import J, Site, all_rows, worked_case
from tests.journals import T0_NS, HandJournal, figures, key, unit
from tests.managed_site import said, tell, turn_of

from kwhere.core.errors import NotFound
from kwhere.core.inventory import Inventory, Person
from kwhere.core.managed import WaitingUnit
from kwhere.database import audit, schema
from kwhere.database.api_tokens import NewToken, create_token
from kwhere.database.engine import writing
from kwhere.database.inventory import write_inventory
from kwhere.database.person_export import export_user
from kwhere.database.privacy import pseudonymise_user
from kwhere.database.records import UnitQuery
from kwhere.database.waiting import write_queue


def filled(engine: Engine) -> Site:
    site, journal = Site(engine), worked_case(HandJournal(), slots=2)
    group = key("alice:python3", "process")
    journal.append([unit(group, figures(10, 0), user="alice", name="alice's", labels=(("home", "/home/alice"),))])
    site.take(journal)
    tell(engine, said("m1", user="alice", group="alice", name="alice's job"))
    waits = WaitingUnit("c1", "slurm", "w1", "pending", "alice's next", "alice", "p1", "alice")
    write_queue(engine, turn_of(engine, T0_NS), [waits])
    write_inventory(engine, "csv", 0, Inventory(people=(Person("alice", "c1", "Alice A", "alice@example.org"),)), T0_NS)
    create_token(engine, NewToken("alice", "user", "for alice", T0_NS * 2), T0_NS, by="alice")
    with writing(engine).begin() as connection:
        for subject in ("user=alice state=ended", "alice", "c1/process/alice:x@1"):
            audit.record(connection, T0_NS, "alice", "list units", subject, {"why": "API token 1 of alice"})
    return site


def test_nothing_holds_the_name_any_more(engine: Engine) -> None:
    site = filled(engine)

    pseudonymise_user(engine, "c1", "alice", T0_NS, by="test")

    for table in schema.metadata.sorted_tables:
        for row in all_rows(site, table):
            for value in row:
                shown = zlib.decompress(value) if isinstance(value, bytes) else str(value).encode()
                assert b"alice" not in shown, table.name


def test_every_sum_stays_and_others_keep_their_names(engine: Engine) -> None:
    site = filled(engine)
    before = site.reader.overview()

    alias = pseudonymise_user(engine, "c1", "alice", T0_NS, by="test")

    after = site.reader.overview()
    assert (after.energy_today_uj, after.power_uw) == (before.energy_today_uj, before.power_uw)
    users = {item.name: item.energy_total_uj for item in site.reader.users().items}
    assert users == {alias: 19_200 * J + 10, "bob": 2400 * J}
    found = {item.unit: item.name for item in site.reader.units(UnitQuery(user=alias)).items}
    assert found == {"a": None, "m1": None, f"{alias}:python3": None}
    assert [item.unit for item in site.reader.units(UnitQuery(q="alice")).items] == []
    assert site.reader.unit("c1", "process", f"{alias}:python3").energy_total_uj == 10


def test_a_user_who_is_not_there_is_not_found(engine: Engine) -> None:
    with pytest.raises(NotFound):
        pseudonymise_user(engine, "c1", "nobody", T0_NS, by="test")


def test_a_name_that_another_cluster_has_stays_in_the_log_and_on_tokens(engine: Engine) -> None:
    site = filled(engine)
    site.take(worked_case(HandJournal(node="n2", machine_id="m2")), "c2")

    pseudonymise_user(engine, "c1", "alice", T0_NS, by="test")

    assert {row[2] for row in all_rows(site, schema.audit)} >= {"alice"}
    assert [row[2] for row in all_rows(site, schema.api_tokens)] == ["alice"]


@pytest.mark.parametrize("user", ["al", "ali.ce", "ice", "lice"])
def test_a_part_of_another_name_is_no_name(engine: Engine, user: str) -> None:
    site = filled(engine)
    journal = HandJournal(node="n2", machine_id="m2")
    journal.append([unit(key("z"), figures(10, 0), user=user)])
    site.take(journal)
    before = all_rows(site, schema.audit)

    pseudonymise_user(engine, "c1", user, T0_NS, by="test")

    assert all_rows(site, schema.audit)[:-1] == before


def test_what_is_held_of_a_person_is_handed_out_and_nothing_of_others(engine: Engine) -> None:
    site = filled(engine)
    site.roll()

    with engine.connect() as connection:
        lines = list(export_user(connection, "c1", "alice"))

    by_table = {
        table: [line for line in lines if line["table"] == table] for table in {line["table"] for line in lines}
    }
    assert set(by_table) == {
        *("users", "directory_people", "waiting_units", "units", "unit_runs", "unit_totals", "run_totals"),
        *("usage_day", "api_tokens", "audit"),
    }
    assert {line["unit"] for line in by_table["units"]} == {"a", "m1", "alice:python3"}
    assert by_table["directory_people"][0]["mail"] == "alice@example.org"
    assert "bob" not in str(lines)
    assert not any("digest" in line for line in lines)


def test_nobody_has_nothing_to_hand_out(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(NotFound):
        list(export_user(connection, "c1", "nobody"))
