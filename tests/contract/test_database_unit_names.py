"""Units by their whole name, over SQLite and PostgreSQL: found by an index, however long the name is."""

import pytest
from sqlalchemy import Engine, text
from tests.account_site import Site
from tests.managed_site import said, tell

from kwhere.database.records import UnitQuery

LONG = "n" * 3000


@pytest.fixture
def site(engine: Engine) -> Site:
    found = Site(engine)
    tell(engine, said("1", name="train"), said("2", name="train"), said("3", name="Train"), said("4", name="training"))
    tell(engine, said("5", name=LONG), said("6", name=f"{LONG}x"), said("7", name="100%"), said("8"))
    return found


@pytest.mark.parametrize(
    ("name", "units"),
    [("train", {"1", "2"}), ("Train", {"3"}), (LONG, {"5"}), ("100%", {"7"}), ("trai", set()), ("", set())],
)
def test_a_name_is_whole(site: Site, name: str, units: set[str]) -> None:
    assert {item.unit for item in site.reader.units(UnitQuery(name=name)).items} == units


def test_a_name_is_narrowed_by_other_filters(site: Site) -> None:
    tell(site.engine, said("9", name="train", user="alice"))

    assert [item.unit for item in site.reader.units(UnitQuery(name="train", user="alice")).items] == ["9"]
    assert site.reader.units(UnitQuery(name="train", manager="oar")).items == ()


def test_a_name_is_looked_up_and_not_searched_for(site: Site) -> None:
    wanted = "SELECT id FROM units WHERE units.name = 'train' AND length(units.name) <= 600"
    plan = "EXPLAIN QUERY PLAN" if site.engine.dialect.name == "sqlite" else "EXPLAIN"
    with site.engine.begin() as connection:
        if site.engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        lines = " ".join(str(row) for row in connection.execute(text(f"{plan} {wanted}")))

    assert "ix_units_name" in lines
