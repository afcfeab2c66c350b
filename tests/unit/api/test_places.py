"""Managers, their nodes, capacity, members, queues and lists of accounts in the API; large answers are compressed."""

import csv
import io

import pytest
from tests.asgi_client import AsgiClient
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import UNITS, many_units

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.reports.sources import Sources


def _client(account: FakeAccount | None = None) -> AsgiClient:
    sources = Sources(account=account or FakeAccount(), clock=FixedClock(), version="0.1.0")
    return AsgiClient(build_app(sources, GuardRules(hosts=frozenset({"testserver"}))))


@pytest.fixture
def client() -> AsgiClient:
    return _client()


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_managers_say_how_far_they_were_read(client: AsgiClient) -> None:
    kubernetes, slurm = client.get("/api/v1/managers").json()["items"]

    assert kubernetes["error"] == "connection refused"
    assert kubernetes["error_since"] == "2026-11-29T17:59:20Z"
    assert (slurm["good_until"], slurm["error"]) == ("2026-11-29T17:59:20Z", None)
    assert (slurm["nodes"], slurm["nodes_closed"], slurm["units_waiting"]) == (5, 2, 402)


def test_capacity_adds_up(client: AsgiClient) -> None:
    epyc, gpu, unknown = client.get("/api/v1/clusters/local/capacity").json()["items"]

    assert epyc["cpus"] == {"total": 256, "allocated": 72, "free": 96, "closed": 88}
    assert epyc["cpus"]["allocated"] + epyc["cpus"]["free"] + epyc["cpus"]["closed"] == epyc["cpus"]["total"]
    assert gpu["gpus"]["a100"]["allocated"] == 4
    assert unknown["cpus"]["allocated"] is None
    assert unknown["memory_bytes"] is None


def test_nodes_of_managers_as_json_and_csv(client: AsgiClient) -> None:
    path = "/api/v1/manager-nodes"
    closed = client.get(path, params={"schedulable": "false"}).json()["items"]
    rows = _rows(client.get(path, params={"format": "csv"}).text)

    assert [(node["name"], node["state"]) for node in closed] == [("node-a", "mixed+drain"), ("node-d", "down*")]
    assert closed[0]["reason"] == "memory errors on bank 3, ticket 4711"
    assert [row["name"] for row in rows] == ["gpu-1", "node-a", "node-b", "node-c", "node-d"]
    assert (rows[0]["gpus_total"], rows[0]["queues"], rows[1]["schedulable"]) == ("a100:4", "gpu", "false")
    assert (rows[1]["cpus_total"], rows[1]["cpus_free"], rows[1]["cpus_closed"]) == ("64", "0.0", "24")
    assert client.get(path, params={"sort": "colour"}).status_code == 400


def test_what_waits_as_json_and_csv(client: AsgiClient) -> None:
    first, array, unknown = client.get("/api/v1/queue").json()["items"]
    rows = _rows(client.get("/api/v1/queue", params={"format": "csv"}).text)

    assert (first["waiting_seconds"], first["asked"]["gpus"]) == (30.2 * 3600, {"a100": 2.0})
    assert (array["tasks"], array["expected_start_at"]) == (400, None)
    assert (unknown["submitted_at"], unknown["waiting_seconds"], unknown["asked"]["memory_bytes"]) == (None, None, None)
    assert [row["asked_gpus"] for row in rows] == ["a100:2", "a100:2", ""]
    assert client.get("/api/v1/queue", params={"sort": "-mood"}).status_code == 400


def test_memberships_as_json_and_csv(client: AsgiClient) -> None:
    (bob,) = client.get("/api/v1/memberships", params={"user": "bob"}).json()["items"]
    rows = _rows(client.get("/api/v1/memberships", params={"format": "csv"}).text)

    assert bob == {"cluster": "local", "user": "bob", "project": "vision", "managers": ["kubernetes", "slurm"]}
    assert [row["user"] for row in rows] == ["alice", "grace", "bob"]


def test_projects_and_users_as_csv(client: AsgiClient) -> None:
    projects = _rows(client.get("/api/v1/projects", params={"format": "csv"}).text)
    users = client.get("/api/v1/users", params={"sort": "-last_seen_at"}).json()["items"]

    assert {row["parent"] for row in projects} == {"engineering"}
    assert users[0]["last_seen_at"] == "2026-11-29T18:00:00Z"
    assert client.get("/api/v1/projects", params={"sort": "-energy"}).status_code == 400


def test_a_node_says_what_its_manager_says(client: AsgiClient) -> None:
    (said,) = client.get("/api/v1/nodes/node-a").json()["managers"]

    assert (said["manager"], said["state"], said["schedulable"]) == ("slurm", "mixed+drain", False)
    assert client.get("/api/v1/nodes/node-b").json()["managers"] == []


def test_occupancy_is_null_where_nothing_is_known(client: AsgiClient) -> None:
    days = client.get("/api/v1/clusters/local/occupancy").json()["items"]

    assert len(days) == 30
    assert days[4]["cpu_allocated_seconds"] is None
    assert days[0]["cpu_capacity_seconds"] == 128 * 86_400


@pytest.mark.parametrize("path", ["/api/v1/units?limit=1000", "/api/v1/units?format=csv", "/openapi.json"])
def test_large_answers_are_compressed_where_that_is_taken_case_ceems_374(path: str) -> None:
    client = _client(FakeAccount(records=UNITS + many_units(900)))

    zipped = client.get(path, headers={"accept-encoding": "gzip"})
    plain = client.get(path, headers={"accept-encoding": "identity"})

    assert zipped.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in zipped.headers["vary"].lower()
    assert "content-encoding" not in plain.headers
    assert zipped.content == plain.content
    assert zipped.num_bytes_downloaded < plain.num_bytes_downloaded / 3


@pytest.mark.parametrize("said", ["gzip;q=0", "deflate, gzip;q=0.0", "*;q=0", "gzip;q=0, br", ""])
def test_who_forbids_gzip_gets_none_case_ceems_374(said: str) -> None:
    client = _client(FakeAccount(records=UNITS + many_units(900)))

    answer = client.get("/api/v1/units?limit=1000", headers={"accept-encoding": said})

    assert "content-encoding" not in answer.headers
    assert "accept-encoding" in answer.headers["vary"].lower()
    assert answer.json()["items"]


def test_small_answers_are_left_as_they_are_case_ceems_374() -> None:
    account = FakeAccount(empty=True)
    account.is_managed = False
    answer = _client(account).get("/api/v1/health", headers={"accept-encoding": "gzip"})

    assert "content-encoding" not in answer.headers
