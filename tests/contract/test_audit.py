"""The audit log: what privileged people look at, who may read it, and what it costs to look again."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.asgi_client import AsgiClient
from tests.databases import sqlite_engine
from tests.managed_site import said, tell
from tests.two_tenants import NOW, as_user, fill, open_door

PEOPLE: dict[str, object] = {
    "people": [
        {"name": "root2", "roles": ["operator"]},
        {"name": "eve", "roles": ["auditor"]},
        {"name": "bob", "roles": ["project manager"]},
    ]
}
Lines = Callable[[], list[tuple[str, str, str]]]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[AsgiClient]:
    engine = sqlite_engine(tmp_path / "account.sqlite")
    fill(engine, others=True)
    yield open_door(engine, tmp_path, PEOPLE)
    engine.dispose()


@pytest.fixture
def lines(client: AsgiClient) -> Lines:
    def read() -> list[tuple[str, str, str]]:
        answer = client.get("/api/v1/audit", headers=as_user("eve"))
        assert answer.status_code == 200, answer.text
        return [(item["actor"], item["action"], item["subject"]) for item in answer.json()["items"]]

    return read


def test_a_look_at_anothers_unit_leaves_a_line(client: AsgiClient, lines: Lines) -> None:
    client.get("/api/v1/units/c1/slurm/a-0", headers=as_user("root2"))
    client.get("/units?user=alice&state=ended", headers=as_user("eve"))

    assert lines() == [
        ("eve", "list units", "user=alice states=ended"),
        ("root2", "read unit", "c1/slurm/a-0@1764000000"),
    ]


def test_runs_of_others_beside_ones_own_and_units_of_a_name_leave_lines(tmp_path: Path, lines: Lines) -> None:
    engine = sqlite_engine(tmp_path / "account.sqlite")
    tell(
        engine,
        said("7", 0, 10, user="alice", name="cfd"),
        said("7", 20_000, 20_010, user="root2", name="cfd"),
        said("8", 30_000, 30_010, user="alice", name="cfd"),
        said("9", 30_100, 30_110, user="alice", name="cfd"),
    )
    client = open_door(engine, tmp_path, PEOPLE)

    for path in ("/api/v1/units/c1/slurm/7/runs", "/units/c1/slurm/9", "/api/v1/units?name=cfd&user=alice"):
        assert client.get(path, headers=as_user("root2")).status_code == 200

    told = lines()
    engine.dispose()
    assert {(who, what, of) for who, what, of in told if who == "root2"} >= {
        ("root2", "list units", "runs of c1/slurm/7"),
        ("root2", "read unit", "c1/slurm/9@1764030100"),
        ("root2", "list units", "cluster=c1 manager=slurm user=alice name=cfd"),
        ("root2", "list units", "user=alice name=cfd"),
    }


def test_the_same_look_again_is_no_news(client: AsgiClient, lines: Lines) -> None:
    for _ in range(3):
        client.get("/api/v1/units/c1/slurm/a-0", headers=as_user("root2"))

    assert len(lines()) == 1


def test_a_list_of_the_last_hour_is_told_once_however_often_it_is_refreshed(client: AsgiClient, lines: Lines) -> None:
    for minutes in range(3):
        start, end = (NOW + timedelta(minutes=minutes - length) for length in (180, 0))
        span = {"from": start.isoformat(), "to": end.isoformat()}
        client.get("/api/v1/units", params={"user": "alice", **span}, headers=as_user("root2"))

    assert len(lines()) == 1


def test_ones_own_units_are_nobodys_business(client: AsgiClient, lines: Lines) -> None:
    client.get("/api/v1/units", headers=as_user("alice"))
    client.get("/api/v1/units/c1/slurm/b-0", headers=as_user("bob"))
    client.get("/api/v1/units/c1/slurm/a-0", headers=as_user("alice"))

    assert lines() == []


def test_what_was_not_shown_was_not_seen(client: AsgiClient, lines: Lines) -> None:
    assert client.get("/api/v1/units/c1/slurm/nosuch", headers=as_user("root2")).status_code == 404
    assert client.get("/api/v1/units/c1/slurm/a-0", headers=as_user("bob")).status_code == 404

    assert lines() == []


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("/api/v1/users/alice", "list users"),
        ("/api/v1/usage?by=user&from=-3h", "read usage"),
        ("/api/v1/usage?by=day&from=-3h&user=alice", "read usage"),
        ("/api/v1/queue", "list waiting units"),
        ("/", "list units"),
        ("/api/v1/units?format=csv", "list units"),
        ("/api/v1/units/c1/slurm/a-0/series", "read unit"),
    ],
)
def test_every_way_to_see_others_is_told(client: AsgiClient, lines: Lines, path: str, action: str) -> None:
    assert client.get(path, headers=as_user("root2")).status_code == 200

    assert action in {line[1] for line in lines()}


@pytest.mark.parametrize(("name", "status"), [("eve", 200), ("root2", 200), ("bob", 403), ("alice", 403)])
def test_the_log_is_for_auditors_and_operators(client: AsgiClient, name: str, status: int) -> None:
    answer = client.get("/api/v1/audit", headers=as_user(name))

    assert answer.status_code == status
    if status == 403:
        assert "auditor or operator" in answer.json()["detail"]
        assert "ask hpc@example.org" in answer.json()["detail"]


def test_the_log_is_paged_and_narrowed(client: AsgiClient) -> None:
    for at in range(4):
        client.get(f"/api/v1/units/c1/slurm/a-{at}", headers=as_user("root2"))
    client.get("/api/v1/users/alice", headers=as_user("eve"))

    def ask(query: str) -> list[str]:
        found: list[str] = []
        after = ""
        while True:
            page = client.get(f"/api/v1/audit?limit=2&{query}{after}", headers=as_user("eve")).json()
            found += [item["subject"] for item in page["items"]]
            if page["next"] is None:
                return found
            after = f"&after={page['next']}"

    assert ask("actor=root2") == [f"c1/slurm/a-{at}@1764000000" for at in (3, 2, 1, 0)]
    assert ask("action=list%20users") == ["name=alice"]
    assert ask("to=-1h") == []
    assert len(ask("from=-1h&to=2100-01-01T00:00:00Z")) == 6


def test_an_auditor_changes_nothing(client: AsgiClient) -> None:
    headers = as_user("eve", origin="http://testserver")

    answer = client.post("/emissions/zone", data={"zone": "FR"}, headers=headers)

    assert answer.status_code == 403
    assert "needs the role operator" in answer.text
    assert client.post("/emissions/zone", data={"zone": "FR"}, headers=as_user("root2")).status_code == 403  # origin
