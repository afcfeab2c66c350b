"""Racks on the page of nodes: power against the limit."""

from dataclasses import replace

from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock

from kwhere.database.inventory_records import RackRecord
from kwhere.database.node_facts import NodeFacts
from kwhere.database.records import NodePage
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages
from kwhere.web.pages.racks import rack_table

FULL = RackRecord("c1", "R1", 4, 3, 11_000_000_000, 10_000.0, False)
HALF = RackRecord("c1", "R2", 4, 4, 5_000_000_000, 10_000.0, True)
SILENT = RackRecord("c1", "R3", 2, 0, None, 10_000.0, False)
UNLIMITED = RackRecord("c1", "R4", 2, 2, 1_000_000_000, None, False)


class Listed(FakeAccount):
    """Its first node stands in a rack."""

    def nodes(self, *asked: object, **more: object) -> NodePage:
        page = super().nodes(*asked, **more)  # type: ignore[arg-type]
        facts = NodeFacts("R7", "gpu-a100", 1200.0, "pdu3:7")
        return replace(page, items=(replace(page.items[0], facts=facts), *page.items[1:]))


def page_of(account: FakeAccount) -> str:
    sources = Sources(account=account, clock=FixedClock(), time_zone="Europe/Paris", version="0.1.0")
    return AsgiClient(let_in(build_pages(sources))).get("/nodes").text


def test_the_fullest_rack_stands_first_and_those_without_a_figure_last() -> None:
    table = rack_table([SILENT, HALF, FULL, UNLIMITED])

    assert [row.record.rack for row in table.rows][:2] == ["R1", "R2"]
    assert [row.used_ratio for row in table.rows] == [1.1, 0.5, None, None]
    assert [row.is_over for row in table.rows] == [True, False, False, False]
    assert table.column.unit == "kW"
    assert [piece.width for piece in table.rows[0].pieces] == [100.0]


def test_the_page_shows_racks_and_where_nodes_stand() -> None:
    page = page_of(Listed(known_racks=(FULL, HALF, SILENT, UNLIMITED)))

    assert "<h2>Racks</h2>" in page
    assert page.count("over its limit") == 1
    assert "sum of nodes" in page
    assert "the inventory names no limit" in page
    assert 'title="gpu-a100 · pdu3:7">R7<' in page
    assert "3 / 4" in page


def test_without_an_inventory_the_page_has_neither() -> None:
    page = page_of(FakeAccount())

    assert "Rack" not in page
