"""Every error is a JSON problem (RFC 9457) to a program, wherever it comes from: door, routes, parameters, database."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from tests.asgi_client import AsgiClient
from tests.databases import sqlite_engine
from tests.two_tenants import SECRET, as_user, fill, open_door

from kwhere.access.guard import Receive, Scope
from kwhere.access.principal import PRINCIPAL_KEY, Principal
from kwhere.access.refusals import Send
from kwhere.access.roles import Role
from kwhere.api.problems import install_problems
from kwhere.core.errors import KwhereError, SourceError, Unavailable
from kwhere.database.visibility import AccountName, Visibility

ADDRESS = "http://prometheus.internal:9090/api/v1/query: status 401"
ALICE = Principal("alice", frozenset({Role.USER}), "", Visibility(users=frozenset({AccountName("alice")})))
AUDITOR = Principal("carol", frozenset({Role.AUDITOR}), "", Visibility(everything=True))
HEADERS = {"x-forwarded-user": "alice", "x-kwhere-proxy-secret": SECRET}
BAD = {"x-forwarded-user": "alice", "x-kwhere-proxy-secret": "wrong"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsgiClient]:
    place = tmp_path_factory.mktemp("errors")
    engine = sqlite_engine(place / "account.sqlite")
    fill(engine, others=False)
    yield open_door(engine, place)
    engine.dispose()


def _is_problem(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/v1/units", {}, 401),
        ("GET", "/api/v1/units", {"authorization": "Bearer nonsense"}, 401),
        ("GET", "/api/v1/units", {"authorization": "Bearer kwt_0_0"}, 401),
        ("GET", "/api/v1/units", BAD, 403),
        ("GET", "/api/v1/units", {**HEADERS, "x-forwarded_user": "bob"}, 400),
        ("GET", "/api/v1/units", {**HEADERS, "x-forwarded-user": "al ice"}, 400),
        ("GET", "/api/v1/units", {**HEADERS, "host": "evil.example"}, 421),
        ("GET", "/api/v1/nodes", HEADERS, 403),
        ("GET", "/api/v1/audit", HEADERS, 403),
        ("GET", "/api/v1/units/c1/slurm/nosuch", HEADERS, 404),
        ("GET", "/api/v1/nosuch", HEADERS, 404),
        ("GET", "/api", HEADERS, 404),
        ("GET", "/api/", HEADERS, 404),
        ("GET", "/api/v1", HEADERS, 404),
        ("GET", "/api/v1/../units", HEADERS, 404),
        ("GET", "/api/v1/units?limit=x", HEADERS, 422),
        ("GET", "/api/v1/units?sort=nosuch", HEADERS, 400),
        ("GET", "/api/v1/units?after=%00", HEADERS, 400),
        ("GET", "/api/v1/usage?from=nosuch", HEADERS, 400),
        ("POST", "/api/v1/units", {**HEADERS, "origin": "http://testserver"}, 403),
        ("DELETE", "/api/v1/units", {**HEADERS, "origin": "http://evil.example"}, 403),
        ("GET", "/metrics", {}, 401),
    ],
)
def test_case_ceems_414_errors_are_json(
    client: AsgiClient, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    _is_problem(client.request(method, path, headers=headers), status)


@pytest.mark.parametrize("path", ["/nodes", "/units/c1/slurm/nosuch", "/nosuch"])
def test_a_browser_gets_a_page_that_says_what_to_do(client: AsgiClient, path: str) -> None:
    answer = client.get(path, headers=as_user("alice"))

    assert answer.status_code in (403, 404)
    assert answer.headers["content-type"].startswith("text/html")
    if answer.status_code == 403:
        assert "operators and auditors" in answer.text
        assert "ask hpc@example.org" in answer.text
        assert "alice" in answer.text


@pytest.mark.parametrize(("error", "status"), [(Unavailable("refused", ADDRESS), 503), (SourceError(ADDRESS), 502)])
def test_case_ceems_303_a_user_is_not_told_the_address_of_a_source(error: KwhereError, status: int) -> None:
    app = FastAPI()
    install_problems(app)

    @app.get("/fails")
    def fails() -> None:
        raise error

    def asked_by(principal: Principal | None) -> httpx.Response:
        async def known(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, PRINCIPAL_KEY: principal}, receive, send)

        return AsgiClient(known).get("/fails")

    for asker in (ALICE, None):
        answer = asked_by(asker)
        _is_problem(answer, status)
        assert "internal" not in answer.text
    assert "internal" in asked_by(AUDITOR).text
