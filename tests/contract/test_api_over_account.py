"""API and pages over a real account, on SQLite and PostgreSQL: the worked case comes out to the watt."""

from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from sqlalchemy import Engine
from tests.asgi_client import AsgiClient
from tests.fake_account import FixedClock
from tests.journals import SECOND_NS, HandJournal, figures, key, system, unallocated, unit

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.database.choices import choose_zone
from kwhere.database.grid import Grid
from kwhere.database.reader import Reader
from kwhere.database.settings import SiteSettings
from kwhere.reports.sources import Sources, ZoneChoice
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.target import Target
from kwhere.web.app import build_pages

J = 1_000_000
SITE = SiteSettings(time_zone="Europe/Paris")
UGLY = {
    "slurm": "4242",
    "kubernetes": "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa",
    "systemd": "dev-disk-by%5Cx2duuid-1.swap",
    "process": "alice:a%2Fb%20%25c",
    "docker": "0c1f7e2ab34d",
    "session": "c3",
}


def _worked_case(slots: int) -> HandJournal:
    """energy.md §2: A 160 W (80 dynamic), B 20 W idle, 10 CPUs of which A has 8; slots of 10 s."""
    journal = HandJournal(slot_seconds=10)
    a = figures(800 * J, 800 * J, cpu_ns=80 * SECOND_NS, cpu_allocated_ns=80 * SECOND_NS, memory_peak_bytes=4096)
    b = figures(0, 200 * J, cpu_allocated_ns=20 * SECOND_NS)
    for _ in range(slots):
        entries = [unit(key("a"), a, user="alice", project="p1", name="cfd"), unit(key("b"), b, user="bob")]
        journal.append([*entries, system(figures(0, 0)), unallocated(figures(0, 0))])
    return journal


Open = Callable[..., AsgiClient]


@pytest.fixture
def open_site(engine: Engine) -> Open:
    def build(*journals: HandJournal) -> AsgiClient:
        booker = PageBooker(engine, Grid(SITE.tz), 30.0)
        end_ns = max(journal.end_ns for journal in journals)
        for at, journal in enumerate(journals):
            target = Target(f"c{at + 1}", f"http://c{at + 1}.{journal.node}:9810")
            booker.book(Received(target, journal.page(), end_ns, 0))
        clock = FixedClock(datetime.fromtimestamp(end_ns / 1e9, UTC))
        sources = Sources(
            account=Reader(engine, clock, SITE),
            clock=clock,
            time_zone=SITE.time_zone,
            zones=(ZoneChoice("FR", "France"),),
            choose_zone=lambda zone, by: choose_zone(engine, zone, now_ns=end_ns, by=by),
        )
        app = build_app(sources, GuardRules(hosts=frozenset({"testserver"})))
        app.mount("/", build_pages(sources))
        return AsgiClient(app)

    return build


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/?span=24h", "/units", "/units?sort=-power_watts", "/units?span=1h&q=cfd", "/units/c1/slurm/a"),
        *("/nodes", "/nodes/n1", "/usage", "/usage?by=day", "/usage?by=node", "/emissions", "/methodology"),
    ],
)
def test_every_page_stands_on_a_real_account(open_site: Open, path: str) -> None:
    answer = open_site(_worked_case(6)).get(path)

    assert answer.status_code == 200, answer.text
    assert "</html>" in answer.text


def test_the_worked_case_over_the_api(open_site: Open) -> None:
    client = open_site(_worked_case(6))

    items = {item["unit"]: item for item in client.get("/api/v1/units").json()["items"]}

    assert (items["a"]["power_watts"], items["b"]["power_watts"]) == (160.0, 20.0)
    assert items["a"]["energy_joules"] == {"cpu": {"dynamic": 4800.0, "idle": 4800.0}, "total": 9600.0}
    assert items["a"]["cpu_efficiency_ratio"] == 1.0
    assert items["a"]["allocation"]["cpus"] == 8.0
    assert items["a"]["emissions_grams"] is None
    assert items["a"]["method"] == "modelled"


def test_the_balance_over_the_api_is_exact(open_site: Open) -> None:
    client = open_site(_worked_case(6))

    slots = client.get("/api/v1/nodes/n1/balance").json()["slots"]

    assert len(slots) == 6
    for slot in slots:
        parts = (slot["units_microjoules"], slot["system_microjoules"], slot["unallocated_microjoules"])
        assert (slot["node_microjoules"], parts, slot["residual_microjoules"]) == (1800 * J, (1800 * J, 0, 0), 0)


def test_the_overview_shows_the_watts_and_the_balance(open_site: Open) -> None:
    text = open_site(_worked_case(6)).get("/").text

    assert ">180<" in text
    assert "balance exact" in text
    assert "1/1" in text
    assert "Every watt here is estimated" in text
    assert "cfd" in text


def test_usage_adds_up_to_the_node(open_site: Open) -> None:
    client = open_site(_worked_case(6))

    rows = client.get("/api/v1/usage", params={"by": "user", "from": "-1h"}).json()["items"]

    assert sum(row["energy_joules_total"] for row in rows) == 10_800.0
    assert {row["key"] for row in rows if row["kind"] == "unit"} == {"alice", "bob"}


def test_pages_of_units_follow_one_another(open_site: Open) -> None:
    journal = HandJournal(cpus=100)
    journal.append([unit(key(f"u{at}"), figures(100 + at % 3, 0)) for at in range(7)])
    client = open_site(journal)
    seen: list[str] = []
    after = ""
    while True:
        page = client.get("/api/v1/units", params={"limit": 3, **({"after": after} if after else {})}).json()
        seen += [item["unit"] for item in page["items"]]
        after = page["next"]
        if not after:
            break

    assert sorted(seen) == [f"u{at}" for at in range(7)]


@pytest.mark.parametrize("path", ["/api/v1/units", "/api/v1/nodes", "/api/v1/users", "/api/v1/projects"])
def test_a_cursor_that_is_not_ours_is_a_400(open_site: Open, path: str) -> None:
    assert open_site(_worked_case(1)).get(path, params={"after": "nonsense"}).status_code == 400


@pytest.mark.parametrize(("manager", "unit_id"), UGLY.items(), ids=UGLY)
def test_each_managers_ugliest_id_comes_through(open_site: Open, manager: str, unit_id: str) -> None:
    journal = HandJournal()
    journal.append([unit(key(unit_id, manager), figures(7_000_000, 0))])
    client = open_site(journal)

    path = f"units/c1/{manager}/{quote(unit_id, safe='')}"
    answer = client.get(f"/api/v1/{path}")

    assert answer.json()["unit"] == unit_id
    assert answer.json()["energy_joules_total"] == 7.0
    assert client.get(f"/{path}").status_code == 200
    assert client.get(f"/api/v1/{path}/series", params={"names": "power"}).json()["series"]


def test_one_name_in_two_clusters(open_site: Open) -> None:
    twin = _worked_case(1)
    twin.machine_id = "machine-2"
    client = open_site(_worked_case(1), twin)

    assert client.get("/api/v1/nodes/n1").status_code == 409
    assert client.get("/nodes/n1").status_code == 409
    assert client.get("/api/v1/nodes/n1", params={"cluster": "c2"}).json()["cluster"] == "c2"
    assert "all clusters" in client.get("/").text


def test_a_country_chosen_on_the_page_is_kept(open_site: Open) -> None:
    client = open_site(_worked_case(1))

    client.post("/emissions/zone", data={"zone": "FR"}, headers={"origin": "http://testserver"})

    assert "Chosen by a person." in client.get("/emissions").text


def test_a_list_without_a_span_says_that_completeness_is_of_the_last_day(open_site: Open) -> None:
    client = open_site(_worked_case(2))

    default = client.get("/api/v1/units").json()["span"]
    asked = client.get("/api/v1/units", params={"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}).json()

    begun, ended = (datetime.fromisoformat(default[name]) for name in ("from", "to"))
    assert (ended - begun).total_seconds() == 86_400
    assert asked["span"] == {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
