"""A person leaves the account, the sums stay."""

import zlib

import pytest
from sqlalchemy import Engine
from tests.account_site import J, Site, all_rows, worked_case
from tests.journals import T0_NS, HandJournal, figures, key, unit

from kwhere.core.errors import NotFound
from kwhere.database import schema
from kwhere.database.privacy import pseudonymise_user
from kwhere.database.records import UnitQuery


def filled(engine: Engine) -> Site:
    site, journal = Site(engine), worked_case(HandJournal(), slots=2)
    group = key("alice:python3", "process")
    journal.append([unit(group, figures(10, 0), user="alice", name="alice's", labels=(("home", "/home/alice"),))])  # type: ignore[arg-type]
    site.take(journal)
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
    assert found == {"a": None, f"{alias}:python3": None}
    assert [item.unit for item in site.reader.units(UnitQuery(q="alice")).items] == []
    assert site.reader.unit("c1", "process", f"{alias}:python3").energy_total_uj == 10


def test_a_user_who_is_not_there_is_not_found(engine: Engine) -> None:
    with pytest.raises(NotFound):
        pseudonymise_user(engine, "c1", "nobody", T0_NS, by="test")
