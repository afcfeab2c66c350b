"""The pass over a source of inventory: paced, idempotent, a failure keeps what was said."""

import pytest
from sqlalchemy import Engine
from tests.account_site import Site, all_rows, worked_case
from tests.journals import SECOND_NS, HandJournal

from kwhere.core.errors import SourceError
from kwhere.core.inventory import Inventory, InventoryNode
from kwhere.database import schema
from kwhere.inventories.registry import BuiltInventory
from kwhere.inventories.source import SourceSettings
from kwhere.server.inventory_pass import InventoryPass, inventory_passes


class Told:
    """Says what a test gives it, or fails."""

    def __init__(self) -> None:
        self.said = Inventory(nodes=(InventoryNode("n1", rack="R1"),))
        self.fault = ""

    def read(self) -> Inventory:
        if self.fault:
            raise SourceError(self.fault)
        return self.said

    def close(self) -> None:
        pass


class Turn:
    def __init__(self, *, goes: bool = True) -> None:
        self._goes = goes

    def goes_on(self) -> bool:
        return self._goes


@pytest.fixture
def site(engine: Engine) -> Site:
    made = Site(engine)
    made.take(worked_case(HandJournal(node="n1")))
    return made


def built(source: Told, name: str = "csv", seconds: float = 60) -> BuiltInventory:
    return BuiltInventory(name, 0, SourceSettings(source="csv", interval_seconds=seconds), source)


def test_it_comes_round_and_a_failure_keeps_what_was_said(site: Site) -> None:
    source = Told()
    reading = InventoryPass(site.engine, built(source), site.clock)

    assert reading.is_due()
    reading.run(Turn())
    assert not reading.is_due()
    assert site.reader.node("n1").facts.rack == "R1"

    site.clock.now_ns += 61 * SECOND_NS
    source.fault = "nodes.csv line 2: no"
    assert reading.is_due()
    with pytest.raises(SourceError):
        reading.run(Turn())

    assert site.reader.node("n1").facts.rack == "R1"
    assert all_rows(site, schema.inventory_sources)[0][3] == "nodes.csv line 2: no"


def test_the_second_look_comes_after_a_minute(site: Site) -> None:
    reading = InventoryPass(site.engine, built(Told(), seconds=3600), site.clock)

    reading.run(Turn())
    site.clock.now_ns += 61 * SECOND_NS
    is_second = reading.is_due()
    reading.run(Turn())
    site.clock.now_ns += 61 * SECOND_NS

    assert (is_second, reading.is_due()) == (True, False)


def test_who_lost_the_lease_writes_nothing(site: Site) -> None:
    InventoryPass(site.engine, built(Told()), site.clock).run(Turn(goes=False))

    assert all_rows(site, schema.inventory_nodes) == []


def test_what_is_configured_no_longer_goes_at_the_start(site: Site) -> None:
    for each in inventory_passes(site.engine, [built(Told(), "old"), built(Told())], site.clock):
        each.run(Turn())

    inventory_passes(site.engine, [built(Told())], site.clock)

    assert [row[0] for row in all_rows(site, schema.inventory_nodes)] == ["csv"]
