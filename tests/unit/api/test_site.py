"""Nodes, usage, accounts, factors, health, and what holds for every route."""

import csv
import io
from typing import NoReturn

import pytest
from fastapi import FastAPI
from tests.asgi_client import AsgiClient
from tests.emission_services import NOON
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_forecast import Ahead

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.errors import NotPermitted, SourceError, Unavailable
from kwhere.database.health_records import DatabaseHealth
from kwhere.database.records import NodeRecord
from kwhere.reports.sources import Sources

TOKEN = "correct-horse-battery"


def _app(account: FakeAccount | None = None, token: str | None = None) -> FastAPI:
    sources = Sources(account=account or FakeAccount(), clock=FixedClock(), version="0.1.0")
    return build_app(sources, GuardRules(token=token, hosts=frozenset({"testserver"})))


@pytest.fixture
def client() -> AsgiClient:
    return AsgiClient(_app())


def test_clusters(client: AsgiClient) -> None:
    (cluster,) = client.get("/api/v1/clusters").json()["items"]

    assert cluster["cluster"] == "local"
    assert cluster["power_watts"] == 318.0


def test_nodes(client: AsgiClient) -> None:
    answer = client.get("/api/v1/nodes").json()

    assert [node["node"] for node in answer["items"]] == ["node-a", "node-b"]
    assert {"cluster", "node", "state", "power_watts", "completeness"} <= set(answer["items"][0])
    assert answer["next"] is None


def test_one_node(client: AsgiClient) -> None:
    assert client.get("/api/v1/nodes/node-a").json()["state"] == "up"
    assert client.get("/api/v1/nodes/nowhere").status_code == 404


def test_a_name_that_several_clusters_have_is_a_conflict(client: AsgiClient) -> None:
    answer = client.get("/api/v1/nodes/twin")

    assert answer.status_code == 409
    assert answer.json()["clusters"] == ["c1", "c2"]
    assert client.get("/api/v1/nodes/twin", params={"cluster": "c1"}).status_code == 200


def test_a_balance_adds_up_to_the_microjoule(client: AsgiClient) -> None:
    slots = client.get("/api/v1/nodes/node-a/balance", params={"from": "-10min"}).json()["slots"]

    assert len(slots) == 60
    for slot in slots:
        parts = slot["units_microjoules"] + slot["system_microjoules"] + slot["unallocated_microjoules"]
        assert slot["node_microjoules"] == parts + slot["residual_microjoules"]
        assert slot["residual_microjoules"] == 0
        assert set(slot["components"]) == {"cpu", "dram", "other"}


def test_usage_by_user_has_rows_of_its_own_for_what_no_one_caused(client: AsgiClient) -> None:
    answer = client.get("/api/v1/usage", params={"by": "user"}).json()

    kinds = {row["kind"] for row in answer["items"]}
    assert kinds == {"unit", "system", "unallocated"}
    assert answer["measured_share"] == 0.941


def test_usage_as_csv(client: AsgiClient) -> None:
    answer = client.get("/api/v1/usage", params={"by": "project", "format": "csv"})

    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert {row["key"] for row in rows} >= {"aero", "vision", "bio", "infra"}
    assert "usage-by-project.csv" in answer.headers["content-disposition"]


@pytest.mark.parametrize(("path", "name"), [("users", "alice"), ("projects", "aero")])
def test_accounts(client: AsgiClient, path: str, name: str) -> None:
    assert name in [item["name"] for item in client.get(f"/api/v1/{path}").json()["items"]]
    assert client.get(f"/api/v1/{path}/{name}").json()["items"][0]["name"] == name
    assert client.get(f"/api/v1/{path}/nobody").status_code == 404


def test_the_greenest_hours_of_the_sites_own_zones() -> None:
    providers = [Ahead("one", *([300.0] * 3), *([100.0] * 4), 300.0)]
    sources = Sources(account=FakeAccount(), clock=FixedClock(now=NOON), factor_providers=providers)
    client = AsgiClient(build_app(sources, GuardRules(hosts=frozenset({"testserver"}))))
    zone = FakeAccount().clusters()[0].zone
    providers[0].zone = str(zone)

    document = client.get("/api/v1/emission-factors/forecast", params={"within": "8"}).json()

    (item,) = document["items"]
    assert (item["provider"], item["zone"], item["basis"]) == ("one", zone, "average")
    assert (item["grams_per_kwh"], item["now_grams_per_kwh"], item["mean_grams_per_kwh"]) == (100, 250, 200)
    assert item["window"]["from"] == "2026-11-29T15:00:00Z"
    assert len(item["points"]) == 8
    assert client.get("/api/v1/emission-factors/forecast", params={"zone": "ZZ"}).status_code == 404
    assert client.get("/api/v1/emission-factors/forecast", params={"length": "0"}).status_code in (400, 422)


def test_factors_carry_their_provenance(client: AsgiClient) -> None:
    (factor,) = client.get("/api/v1/emission-factors").json()["items"]

    assert factor["grams_per_kwh"] == 56.0
    assert (factor["basis"], factor["scope"], factor["quality"]) == ("average", "lifecycle", "static")
    assert factor["source"]
    assert set(factor["span"]) == {"from", "to"}


def test_health() -> None:
    account = FakeAccount()
    account.is_managed = False

    assert AsgiClient(_app(account)).get("/api/v1/health").json()["status"] == "ok"


def test_health_says_what_is_wrong() -> None:
    class Ailing(FakeAccount):
        def health(self) -> DatabaseHealth:
            return DatabaseHealth("0001", "sqlite", {}, 1, 0, 3, None)

    client = AsgiClient(_app(Ailing()))
    answer = client.get("/api/v1/health").json()

    assert answer["status"] == "degraded"
    assert len(answer["reasons"]) == 3
    assert answer["reasons"][2] == (
        "kubernetes of cluster local cannot be read since 2026-11-29T17:59:20+00:00: connection refused"
    )
    assert [manager["manager"] for manager in answer["managers"]] == ["kubernetes", "slurm"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v2/units", 404),
        ("GET", "/api/v1/units/", 404),
        ("POST", "/api/v1/units", 405),
        ("DELETE", "/api/v1/units/local/slurm/1", 405),
        ("PUT", "/api/v1/nodes/node-a", 405),
        ("GET", "/api/v1/usage?by=moon", 422),
        ("GET", "/nowhere", 404),
    ],
)
def test_every_refusal_is_a_problem(client: AsgiClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path, headers={"origin": "http://testserver"})

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail"} <= set(answer.json())
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Unavailable("closed", "the database is locked"), 503),
        (SourceError("nonsense"), 502),
        (NotPermitted("ask the operator"), 403),
        (RuntimeError("secret detail"), 500),
    ],
)
def test_faults_below_become_problems_without_their_inside(error: Exception, status: int) -> None:
    class Broken(FakeAccount):
        def node(self, node: str, cluster: str | None = None) -> NodeRecord:
            return _raise(error)

    client = AsgiClient(_app(Broken()), raise_errors=False)
    answer = client.get("/api/v1/nodes/node-a")

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text


def _raise(error: Exception) -> NoReturn:
    raise error


def test_the_api_is_described() -> None:
    client = AsgiClient(_app())
    document = client.get("/openapi.json").json()

    assert set(document["paths"]) == {
        *(
            "/api/v1/units",
            "/api/v1/units/{cluster}/{manager}/{unit}",
            "/api/v1/units/{cluster}/{manager}/{unit}/runs",
            "/api/v1/units/{cluster}/{manager}/{unit}/parts",
            "/api/v1/units/{cluster}/{manager}/{unit}/series",
        ),
        *("/api/v1/clusters", "/api/v1/nodes", "/api/v1/nodes/{node}", "/api/v1/nodes/{node}/balance"),
        "/api/v1/nodes/{node}/reconciliation",
        *("/api/v1/usage", "/api/v1/users", "/api/v1/users/{user}", "/api/v1/projects", "/api/v1/projects/{project}"),
        *("/api/v1/emission-factors", "/api/v1/emission-factors/forecast", "/api/v1/health"),
        *("/api/v1/managers", "/api/v1/manager-nodes", "/api/v1/memberships", "/api/v1/queue", "/api/v1/racks"),
        *("/api/v1/clusters/{cluster}/capacity", "/api/v1/clusters/{cluster}/occupancy"),
        *("/api/v1/whoami", "/api/v1/audit"),
    }
    for path in document["paths"].values():
        for operation in path.values():
            assert operation["description"]


def test_answers_are_compressed(client: AsgiClient) -> None:
    assert client.get("/api/v1/units", headers={"accept-encoding": "gzip"}).headers["content-encoding"] == "gzip"


def test_the_door_is_in_front() -> None:
    client = AsgiClient(_app(token=TOKEN))
    assert client.get("/api/v1/units").status_code == 401
    assert client.get("/openapi.json").status_code == 401
    assert client.get("/api/v1/units", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/api/v1/units", headers={"host": "evil.example"}).status_code == 421
