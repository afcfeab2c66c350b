"""Units over the API."""

import csv
import io
from urllib.parse import quote

import pytest
from tests.asgi_client import AsgiClient
from tests.fake_account import FakeAccount, FixedClock

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.api.csv_text import csv_lines
from kwhere.reports.sources import Sources

HOSTS = frozenset({"testserver"})


@pytest.fixture
def client() -> AsgiClient:
    app = build_app(Sources(account=FakeAccount(), clock=FixedClock()), GuardRules(hosts=HOSTS))
    return AsgiClient(app)


def test_a_list_has_items_next_span_and_completeness(client: AsgiClient) -> None:
    answer = client.get("/api/v1/units", params={"limit": 3}).json()

    assert set(answer) == {"items", "next", "span", "completeness"}
    assert set(answer["span"]) == {"from", "to"}
    assert len(answer["items"]) == 3
    assert answer["completeness"] == 0.9987
    energies = [item["energy_joules_total"] for item in answer["items"]]
    assert energies == sorted(energies, reverse=True)


def test_pages_follow_one_another_without_overlap(client: AsgiClient) -> None:
    seen: list[str] = []
    after = None
    while True:
        page = client.get("/api/v1/units", params={"limit": 5, **({"after": after} if after else {})}).json()
        seen += [item["run"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break

    assert len(seen) == len(set(seen)) == 12


def test_a_unit_has_every_field_of_the_contract(client: AsgiClient) -> None:
    unit = client.get("/api/v1/units/local/slurm/4242").json()

    assert {
        *("cluster", "manager", "unit", "run", "name", "user", "project", "state", "nodes", "submitted_at"),
        *("started_at", "ended_at", "allocation", "power_watts", "cpu_seconds", "cpu_efficiency_ratio"),
        *("memory_peak_bytes", "gpu_busy_seconds", "energy_joules", "energy_joules_total", "emissions_grams"),
        *("emissions", "cost", "method", "quality", "node_runs"),
    } <= set(unit)
    assert unit["power_watts"] == 161.0
    assert unit["allocation"] == {"cpus": 32, "memory_bytes": 32 * 4 * 2**30, "gpus": {}}
    assert set(unit["energy_joules"]) == {"cpu", "dram", "other", "total"}
    assert unit["energy_joules"]["other"]["idle"] is None
    assert unit["energy_joules"]["total"] == unit["energy_joules_total"]
    assert unit["cost"] is None
    assert unit["gpu_busy_seconds"] is None
    assert unit["node_runs"][0]["node"] == "node-a"
    assert unit["started_at"].endswith("Z")


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({"user": "alice"}, 2),
        ({"manager": "process"}, 2),
        ({"project": "vision"}, 2),
        ({"state": "ended"}, 3),
        ({"state": "FAILED"}, 0),
        ({"queue": "none"}, 0),
        ({"job": "4242.batch,4190-4199"}, 2),
        ({"q": "WING"}, 2),
        ({"cluster": "elsewhere"}, 0),
        ({"node": "node-b"}, 6),
        ({"sort": "-power_watts"}, 9),
        ({"from": "-24h", "to": "now"}, 12),
    ],
)
def test_filters(client: AsgiClient, params: dict[str, str], count: int) -> None:
    assert len(client.get("/api/v1/units", params=params).json()["items"]) == count


@pytest.mark.parametrize(
    ("params", "status", "said"),
    [
        ({"sort": "name"}, 400, "sort"),
        ({"sort": ""}, 400, "sort"),
        ({"sort": "--energy_joules"}, 400, "sort"),
        ({"state": "fast asleep"}, 400, "state"),
        ({"job": "4_"}, 400, "job"),
        ({"after": "nonsense"}, 400, "cursor"),
        ({"from": "yesterday"}, 400, "from"),
        ({"from": "now", "to": "-1h"}, 400, "before"),
        ({"limit": "0"}, 422, "limit"),
        ({"limit": "many"}, 422, "limit"),
        ({"format": "xml"}, 422, "format"),
    ],
)
def test_what_is_not_understood_is_a_problem(
    client: AsgiClient, params: dict[str, str], status: int, said: str
) -> None:
    answer = client.get("/api/v1/units", params=params)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert said in problem["detail"]


@pytest.mark.parametrize("request_csv", [{"params": {"format": "csv"}}, {"headers": {"accept": "text/csv"}}])
def test_csv_holds_every_unit_in_full_precision(client: AsgiClient, request_csv: dict[str, dict[str, str]]) -> None:
    answer = client.get("/api/v1/units", **request_csv)

    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 12
    job = next(row for row in rows if row["unit"] == "4242")
    assert float(job["power_watts"]) == 161.0
    assert job["nodes"] == "node-a node-b"
    assert job["energy_gpu_dynamic_joules"] == ""
    assert job["ended_at"] == ""


def test_json_wins_where_both_are_accepted(client: AsgiClient) -> None:
    answer = client.get("/api/v1/units", headers={"accept": "application/json, text/csv"})

    assert answer.headers["content-type"] == "application/json"


def test_a_cell_that_a_spreadsheet_would_run_is_quoted() -> None:
    lines = "".join(csv_lines(["name"], [["=cmd()"], ["-5"], ["a,b\n"], [None], [True]]))

    assert lines == 'name\r\n\'=cmd()\r\n-5\r\n"a,b\n"\r\n""\r\nTrue\r\n'


UGLY = {
    "process with a slash, a blank and a percent sign": ("process", "erin:a%2Fb c%25"),
    "pod uid": ("kubernetes", "7f9c24e8-3b12-4fef-91a0-6e2ba5d2c0aa"),
    "run": ("run", "4711-1795975931"),
}


@pytest.mark.parametrize(("manager", "unit"), UGLY.values(), ids=UGLY.keys())
def test_the_ugliest_ids_come_through_the_route(client: AsgiClient, manager: str, unit: str) -> None:
    answer = client.get(f"/api/v1/units/local/{manager}/{quote(unit, safe='')}")

    assert answer.json()["unit"] == unit


def test_an_id_escaped_only_once_is_found_all_the_same(client: AsgiClient) -> None:
    assert client.get("/api/v1/units/local/process/erin:a%2Fb%20c%2525").json()["unit"] == "erin:a%2Fb c%25"


def test_an_unknown_unit_is_a_404_problem(client: AsgiClient) -> None:
    answer = client.get("/api/v1/units/local/slurm/1")

    assert answer.status_code == 404
    assert "no such unit" in answer.json()["detail"]


def test_a_run_that_is_not_the_units_is_a_404(client: AsgiClient) -> None:
    assert client.get("/api/v1/units/local/slurm/4242", params={"run": "4242@1"}).status_code == 404


def test_series_without_a_store_give_power_from_the_account_and_say_why_the_rest_is_missing(
    client: AsgiClient,
) -> None:
    answer = client.get("/api/v1/units/local/slurm/4242/series", params={"names": "power,cpu"}).json()

    (power,) = answer["series"]
    assert power["name"] == "power"
    assert power["unit"] == "watts"
    assert [column["label"] for column in power["columns"]][:2] == ["cpu dynamic", "cpu idle"]
    assert all(len(column["values"]) == len(power["times"]) for column in power["columns"])
    assert "store of series" in answer["missing"]["cpu"]


def test_series_as_csv_are_one_row_per_sample(client: AsgiClient) -> None:
    answer = client.get("/api/v1/units/local/slurm/4242/series", params={"names": "power", "format": "csv"})

    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert rows[0]["label"] == "cpu dynamic"
    assert {row["unit"] for row in rows} == {"watts"}


@pytest.mark.parametrize("params", [{"names": "happiness"}, {"step": "0.001"}, {"from": "x"}])
def test_series_refuse_what_they_do_not_know(client: AsgiClient, params: dict[str, str]) -> None:
    assert client.get("/api/v1/units/local/slurm/4242/series", params=params).status_code == 400
