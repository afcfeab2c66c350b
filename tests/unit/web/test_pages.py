"""Every page as HTML, without a browser: what stands in it, what a strange address gets, what it costs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request
from tests.asgi_client import AsgiClient, let_in
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_series import FakeSeries

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.errors import ConfigError, NotPermitted, Unavailable
from kwhere.core.terms import Component, Method
from kwhere.database.account_records import ClusterRecord
from kwhere.database.records import ComponentMethod, NodeRecord, NodeState, Overview
from kwhere.reports.sources import Hint, SettingInForce, Sources, ZoneChoice
from kwhere.web.app import build_pages
from kwhere.web.pages.overview import overview_page
from kwhere.web.rendering import Pages, build_environment
from kwhere.web.settings import WebSettings
from kwhere.web.static_files import Assets

HINT = Hint("RAPL is root-only", "One command opens it.", "sudo chmod a+r /sys/x", "sudo chmod go-r /sys/x")
UGLY = "/units/local/process/" + quote("erin:a%2Fb c%25", safe="")
EVERY_PAGE = (
    *("/", "/?span=24h", "/units", "/units?sort=-power_watts&state=running", "/units?columns=unit&columns=quality"),
    *("/units?span=24h&q=wing&user=alice&node=node-a", "/units/local/slurm/4242", "/units/local/slurm/4199", UGLY),
    *("/units/local/slurm/4242?span=15min", "/nodes", "/nodes?state=up", "/nodes/node-a?cluster=local&span=7d"),
    *("/clusters", "/clusters/local", "/clusters/local/nodes", "/clusters/local/nodes?schedulable=false&sort=-cpus"),
    *("/queue", "/queue?user=bob&sort=-priority", "/users", "/users/alice", "/users/alice?cluster=local&span=7d"),
    *("/projects", "/projects/aero", "/projects/aero?trend=week&span=30d", "/users/bob?trend=month"),
    *("/usage?by=week", "/usage?by=month"),
    *("/usage", "/usage?by=day", "/usage?by=project&span=7d", "/emissions", "/methodology"),
)


def _sources(account: FakeAccount | None = None, series: FakeSeries | None = None) -> Sources:
    return Sources(
        account=account or FakeAccount(),
        clock=FixedClock(),
        series=series,
        time_zone="Europe/Paris",
        zones=(ZoneChoice("DE", "Germany"), ZoneChoice("FR", "France")),
        hints=lambda: (HINT,),
        settings_in_force=lambda: (SettingInForce("sampler.interval_seconds", "1.0", "length of a step"),),
        version="0.1.0",
    )


def _client(account: FakeAccount | None = None, series: FakeSeries | None = None) -> AsgiClient:
    return AsgiClient(let_in(build_pages(_sources(account, series))))


@pytest.fixture(params=[False, True], ids=["account alone", "with series"])
def client(request: pytest.FixtureRequest) -> AsgiClient:
    return _client(series=FakeSeries() if request.param else None)


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_every_page_is_whole(client: AsgiClient, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 200
    assert answer.text.rstrip().endswith("</html>")
    assert answer.text.count("<h1") == 1


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_nothing_on_a_page_needs_an_exception_from_the_content_policy(client: AsgiClient, path: str) -> None:
    text = client.get(path).text

    assert not re.search(r"\sstyle=", text)
    assert not re.search(r"\son[a-z]+=", text)
    assert "<style" not in text
    scripts = re.findall(r"<script([^>]*)>", text)
    assert all("src=" in attributes or "application/json" in attributes for attributes in scripts)
    assert not re.search(r'(src|href|action)="(https?:)?//', text)


@pytest.mark.parametrize("path", ["/", "/units", "/nodes", "/usage", "/usage?by=day", "/emissions", "/methodology"])
def test_an_empty_account_says_why_and_what_to_do(path: str) -> None:
    text = _client(FakeAccount(empty=True, zone=None)).get(path).text

    assert 'class="empty"' in text
    assert "kwhere doctor" in text or "Choose" in text or "choose" in text or "slot" in text


def test_the_overview_leads_with_figures_and_their_trust() -> None:
    text = _client().get("/").text

    for expected in ("2/2", "99.9 %", "94 %", "balance exact", "g CO₂e", "cfd-wing-polar", "proposed"):
        assert expected in text
    assert "sudo chmod a+r /sys/x" in text
    assert "sudo chmod go-r /sys/x" in text


def test_books_that_do_not_balance_are_shown_as_such() -> None:
    text = _client(FakeAccount(residual_uj=7)).get("/").text

    assert "balance exact" not in text
    assert "7 µJ" in text


def test_without_a_zone_grams_are_a_dash_with_a_reason() -> None:
    text = _client(FakeAccount(zone=None)).get("/").text

    assert "no zone set" in text
    assert "Choose the country" in text


def test_a_name_cannot_become_markup() -> None:
    for path in ("/units", "/", UGLY):
        text = _client().get(path).text
        assert "<x>" not in text
        assert "&lt;x&gt;" in text


def test_a_row_leads_to_its_unit_and_back_by_a_url_with_every_filter() -> None:
    client = _client()
    text = client.get("/units").text
    links = re.findall(r'class="row-target clip" href="([^"]+)"', text)

    assert len(links) == 12
    for link in links:
        assert client.get(link.replace("&amp;", "&")).status_code == 200


def test_a_list_goes_on_by_keyset() -> None:
    account = FakeAccount()
    pages = let_in(build_pages(_sources(account)))
    first = AsgiClient(pages).get("/units?sort=-started_at&user=alice").text

    assert 'rel="next"' not in first
    assert "Sort" not in first


def test_a_sorted_column_says_so_and_turns_round() -> None:
    text = _client().get("/units?sort=-cpu_seconds").text

    assert re.search(r'aria-sort="descending"><a href="/units\?sort=cpu_seconds"', text)


def test_columns_are_chosen_in_the_url() -> None:
    text = _client().get("/units?columns=quality&columns=memory").text

    heads = re.findall(r"<th[^>]*>(.*?)</th>", text, re.DOTALL)
    assert len(heads) == 3
    assert "gap" in text
    assert "table idle" in text


def test_the_csv_of_a_list_has_its_filters() -> None:
    text = _client().get("/units?user=alice&span=24h&columns=unit").text

    link = re.search(r'href="(/api/v1/units\?[^"]+)"', text)
    assert link
    assert "user=alice" in link[1]
    assert "format=csv" in link[1]
    assert "columns" not in link[1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/units?sort=name", 400),
        ("/units?state=fast+asleep", 400),
        ("/units?after=nonsense", 400),
        ("/?span=soon", 400),
        ("/usage?by=moon", 400),
        ("/nodes?state=asleep", 400),
        ("/units/local/slurm/1", 404),
        ("/nodes/nowhere", 404),
        ("/nowhere", 404),
        ("/static/nothing.js", 404),
        ("/static/..%2f..%2fapp.py", 404),
    ],
)
def test_a_strange_address_gets_a_page_that_says_what_is_wrong(path: str, status: int) -> None:
    answer = _client().get(path)

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert 'href="/units"' in answer.text


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("closed", "the database is locked"), 503), (NotPermitted("ask ops"), 403), (OSError("secret"), 500)],
)
def test_a_fault_below_is_a_page_without_its_inside(error: Exception, status: int) -> None:
    class Broken(FakeAccount):
        def node(self, node: str, cluster: str | None = None) -> NodeRecord:
            raise error

    answer = _client(Broken()).get("/nodes/node-a")

    assert answer.status_code == status
    assert "secret" not in answer.text


def test_everything_modelled_is_said_in_one_sentence() -> None:
    class Modelled(FakeAccount):
        def overview(self, top: int = 8, cluster: str | None = None) -> Overview:
            modelled = (ComponentMethod(Component.CPU, Method.MODELLED, "model"),)
            return replace(super().overview(top, cluster), methods=modelled)

    assert "Every watt here is estimated" in _client(Modelled()).get("/").text
    assert "Every watt here is estimated" not in _client().get("/").text


def _with_choice(chosen: list[str], *, fails: bool = False) -> Any:
    def choose(zone: str, by: str) -> None:
        if fails:
            raise ConfigError("site.zone: there is no factor for it")
        chosen.append(zone)

    sources = _sources()
    pages = Sources(account=sources.account, clock=sources.clock, zones=sources.zones, choose_zone=choose)
    return let_in(build_pages(pages))


def test_the_country_is_chosen_by_a_form() -> None:
    chosen: list[str] = []
    client = AsgiClient(_with_choice(chosen))

    answer = client.post("/emissions/zone", data={"zone": "DE"})

    assert answer.status_code == 303
    assert chosen == ["DE"]
    assert "Saved." in client.get(answer.headers["location"]).text


@pytest.mark.parametrize(("zone", "status"), [("XX", 400), ("", 400)])
def test_a_country_without_a_factor_is_refused(zone: str, status: int) -> None:
    chosen: list[str] = []

    assert AsgiClient(_with_choice(chosen)).post("/emissions/zone", data={"zone": zone}).status_code == status
    assert chosen == []


def test_a_refusal_below_and_a_huge_form_are_pages_too() -> None:
    client = AsgiClient(_with_choice([], fails=True))

    assert client.post("/emissions/zone", data={"zone": "DE"}).status_code == 409
    assert client.post("/emissions/zone", data={"zone": "D" * 10_000}).status_code == 413


def test_where_the_zone_is_fixed_there_is_no_form() -> None:
    client = _client()

    assert '<form class="zone-form"' not in client.get("/emissions").text
    assert client.post("/emissions/zone", data={"zone": "DE"}).status_code == 409


def test_a_change_from_a_foreign_page_is_stopped_at_the_door() -> None:
    chosen: list[str] = []
    app = build_app(_sources(), GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", _with_choice(chosen))
    client = AsgiClient(app)

    refused = client.post("/emissions/zone", data={"zone": "DE"}, headers={"origin": "http://evil.example"})
    taken = client.post("/emissions/zone", data={"zone": "DE"}, headers={"origin": "http://testserver"})

    assert (refused.status_code, taken.status_code, chosen) == (403, 303, ["DE"])


def test_pages_and_api_live_side_by_side() -> None:
    app = build_app(_sources(), GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", build_pages(_sources()))
    client = AsgiClient(app)

    assert "<html" in client.get("/").text
    assert client.get("/nowhere").headers["content-type"].startswith("text/html")
    for path, status in (("/api/v1/units", 200), ("/api/v1/nowhere", 404)):
        answer = client.get(path)
        assert answer.status_code == status
        assert "json" in answer.headers["content-type"]
    assert client.request("DELETE", "/api/v1/nodes", headers={"origin": "http://testserver"}).status_code == 405


@pytest.mark.parametrize(
    ("path", "calls"), [("/", ["overview", "power"]), ("/units", ["units"]), ("/nodes", ["nodes"])]
)
def test_a_page_asks_once_and_not_per_row(path: str, calls: Sequence[str]) -> None:
    account = FakeAccount()

    _client(account).get(path)

    assert sorted(account.calls) == sorted(calls)


def test_a_store_that_does_not_answer_leaves_the_rest_of_the_page() -> None:
    class Silent(FakeSeries):
        def select(self, *arguments: object) -> list[object]:  # type: ignore[override]
            raise Unavailable("closed", "connection refused")

    for path in ("/units/local/slurm/4242", "/nodes/node-a"):
        text = _client(series=Silent()).get(path).text
        assert "connection refused" in text
        assert "cfd-wing-polar" in text


def test_figures_of_a_site_without_a_node_say_since_when_they_stand() -> None:
    class Silent(FakeAccount):
        def overview(self, top: int = 8, cluster: str | None = None) -> Overview:
            return replace(super().overview(top, cluster), power_uw=None, nodes_by_state={NodeState.LOST: 2})

    text = _client(Silent()).get("/").text

    assert "No node is up." in text
    assert "Waiting for the first slot" not in text
    assert "0/2" in text


def test_several_clusters_can_be_told_apart() -> None:
    class Two(FakeAccount):
        def clusters(self) -> Sequence[ClusterRecord]:
            return [replace(record, cluster=name) for record in super().clusters() for name in ("north", "south")]

    client = _client(Two())

    assert 'href="/?cluster=south&amp;span=24h"' in client.get("/?span=24h").text
    assert "all clusters" in client.get("/units").text
    assert 'href="/nodes?cluster=south"' in client.get("/nodes").text


def test_a_list_can_be_narrowed_to_any_span() -> None:
    text = _client().get("/units?from=2026-11-29T10:00&to=2026-11-29T12:00").text

    assert "2026-11-29T10:00 – 2026-11-29T12:00" in text
    assert "from=2026-11-29T09%3A00%3A00%2B00%3A00" in text


def test_nothing_runs_is_not_nothing_booked() -> None:
    ended = tuple(record for record in FakeAccount().records if record.ended_at)

    text = _client(FakeAccount(records=ended)).get("/units?sort=-power_watts").text

    assert "No unit runs now." in text


def test_without_built_assets_a_page_says_how_to_build_them(tmp_path: Path) -> None:
    sources = _sources()
    pages = Pages(sources, WebSettings(), Assets(tmp_path), build_environment())
    request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []})

    text = bytes(overview_page(pages, request).body).decode()

    assert "npm run build" in text
    assert "cfd-wing-polar" in text


class GuestAccount(FakeAccount):
    """A site whose node is a guest of another, both in the account."""

    def node(self, node: str, cluster: str | None = None) -> NodeRecord:
        return replace(super().node(node, cluster), parent="hv<1>/57f2d45e-8ddf-4338-91df-62d0044ff1b5")


def test_a_guests_page_says_inside_which_machine_of_which_host_it_is() -> None:
    text = _client(GuestAccount()).get("/nodes/node-a?cluster=local").text

    assert 'inside VM <a href="/units?q=57f2d45e-8ddf-4338-91df-62d0044ff1b5">' in text
    assert 'of <a href="/nodes/hv%3C1%3E">hv&lt;1&gt;</a>' in text
