"""Non-interference: what a user is shown is the same, to the byte, whether there are others on the site or not."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import Engine
from tests.asgi_client import AsgiClient
from tests.databases import engine, sqlite_engine
from tests.two_tenants import FOREIGN, as_user, fill, open_door

from kwhere.api.app import ROUTES
from kwhere.web.app import PAGES

__all__ = ["engine"]
API = tuple(
    route.path
    for module in ROUTES
    for route in module.router.routes
    if isinstance(route, APIRoute) and "GET" in (route.methods or ())
)
TEMPLATES = (*API, *(path for path, _ in PAGES), "/metrics", "/openapi.json", "/api/v1/nosuch", "/nosuch")
PLACES = {
    "cluster": ("c1", "c2", "nosuch"),
    "manager": ("slurm", "oar"),
    "unit": ("a-0", "silent", "b-0", "w-bob", "nosuch", "a-0/series", "90", "again", "b-90"),
    "user": ("alice", "bob", "nosuch"),
    "project": ("cfd", "darkproject", "nosuch"),
    "node": ("n1", "n2", "nosuch"),
}
_QUERY_WORDS = """
cluster=c1 cluster=c2 limit=1 user=bob project=darkproject node=n1 q=secret span=24h from=-3h format=csv after=nonsense
"""
_LIST_WORDS = """
limit=1&sort=-submitted_at limit=1&sort=asked_cpus
node=n2 user=alice project=cfd q=cfd sort=-power_watts sort=started_at sort=-cpu_seconds manager=slurm names=power
by=user by=project by=node by=day by=cluster&from=-3h by=manager state=running state=ended state=vanished state=pending
run=a-0@1764000000 run=b-0@1764000000 name=secretjob name=a-9 name=b-9 job=90 job=again job=b-0
week=2025-W48 week=x limit=0 from=x from=-400d&to=-399d X-Scope-OrgID=other
"""
_ACCOUNTS = ("/users", "/projects", "/memberships", "/clusters")
_ACCOUNT_WORDS = "limit=1&sort=last_seen_at limit=1&sort=-last_seen_at limit=1&sort=-name q=a"
_LISTS = ("/units", "/usage", "{unit:path}", "/series", "/queue")
SAID_BY_HEADERS = ("date",)
OF_ONE_JOB = ("a-90", "a-91", "again")


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AsgiClient, AsgiClient]]:
    """The doors of two servers: alice's site, and the same with others."""
    place = tmp_path_factory.mktemp("twins")
    engines = [sqlite_engine(place / f"{name}.sqlite") for name in ("alone", "others")]
    fill(engines[0], others=False)
    fill(engines[1], others=True)
    yield open_door(engines[0], place), open_door(engines[1], place)
    for each in engines:
        each.dispose()


def _paths(template: str) -> list[str]:
    names = re.findall(r"{(\w+)(?::path)?}", template)
    plain = re.sub(r":path}", "}", template)
    values = itertools.product(*(PLACES[name] for name in names))
    return [plain.format(**dict(zip(names, (quote(word) for word in words), strict=True))) for words in values]


def _shown(answer: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in answer.headers.items() if name not in SAID_BY_HEADERS}
    return answer.status_code, headers, answer.content


def _both(twins: tuple[AsgiClient, AsgiClient], path: str, **headers: str) -> httpx.Response:
    """Ask both and return the answer, which is the same and names nobody that was not asked for."""
    alone, others = (twin.get(path, headers=as_user("alice", **headers)) for twin in twins)

    assert _shown(alone) == _shown(others), path
    told = [word for word in FOREIGN if word in others.text and word not in path]
    assert not told, (path, told)
    assert alone.status_code < 500, (path, alone.text[:300])
    return alone


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_case_users_3_4_nothing_of_others_shows(twins: tuple[AsgiClient, AsgiClient], template: str) -> None:
    first, *others = _paths(template)
    more = _LIST_WORDS if template.endswith(_LISTS) else _ACCOUNT_WORDS if template.endswith(_ACCOUNTS) else ""
    queries = [*_QUERY_WORDS.split(), *more.split()]
    for path in (first, *others):
        # Each query on the route's first place; the others as they are: a route reads its places before its query.
        for query in ["", *queries] if path == first else [""]:
            answer = _both(twins, f"{path}?{query}" if query else path)
            if answer.headers.get("content-type", "").startswith("application/json") and '"next"' in answer.text:
                _follow(twins, path, query, answer)


def _follow(twins: tuple[AsgiClient, AsgiClient], path: str, query: str, answer: httpx.Response) -> None:
    for _ in range(5):
        after = answer.json().get("next")
        if not after:
            return
        answer = _both(twins, f"{path}?{query}&after={quote(after)}")


@pytest.mark.slow
def test_every_route_answers_a_user_and_a_manager_on_either_database(engine: Engine, tmp_path: Path) -> None:
    fill(engine, others=True)
    client = open_door(engine, tmp_path, {"people": [{"name": "carol", "roles": ["project manager"]}]})
    for template, name in itertools.product(TEMPLATES, ("alice", "carol")):
        path = _paths(template)[0]
        for query in ("", "limit=1&sort=-last_seen_at", "from=-3h&by=day", "format=csv"):
            answer = client.get(f"{path}?{query}", headers=as_user(name))

            assert answer.status_code < 500, (path, query, name, answer.text[:300])
            assert name == "carol" or "darkproject" not in answer.text, path


@pytest.mark.parametrize("path", ["/api/v1/units/c1/slurm/b-0", "/units/c1/slurm/b-0", "/api/v1/users/bob"])
def test_case_users_3_4_foreign_is_missing(twins: tuple[AsgiClient, AsgiClient], path: str) -> None:
    foreign = _both(twins, path)
    missing = _both(twins, path.replace("b-0", "zzz").replace("bob", "zzz"))

    assert foreign.status_code == missing.status_code == 404
    assert foreign.text.replace("b-0", "zzz").replace("bob", "zzz") == missing.text


def test_her_own_is_shown(twins: tuple[AsgiClient, AsgiClient]) -> None:
    units = _both(twins, "/api/v1/units").json()
    page = _both(twins, "/units/c1/slurm/a-0")
    overview = _both(twins, "/")

    assert {item["unit"] for item in units["items"]} == {"a-0", "a-1", "a-2", "a-3", "silent", *OF_ONE_JOB}
    assert page.status_code == overview.status_code == 200
    assert "cfd run" in page.text
    assert "cfd run" in overview.text
    assert [row["key"] for row in _both(twins, "/api/v1/usage?from=-3h").json()["items"]] == ["alice"]


def test_case_users_3_4_what_is_added_up_is_hers_alone_where_others_have_its_number(
    twins: tuple[AsgiClient, AsgiClient],
) -> None:
    array = _both(twins, "/api/v1/units/c1/slurm/90/parts").json()
    runs = _both(twins, "/api/v1/units/c1/slurm/again/runs").json()
    named = _both(twins, "/api/v1/units?name=a-9").json()

    assert [part["unit"] for part in array["parts"]] == ["a-90", "a-91"]
    assert [run["user"] for run in runs["parts"]] == ["alice", "alice"]
    assert {item["unit"] for item in named["items"]} == set(OF_ONE_JOB)


def test_the_sites_differ_for_who_sees_everything(tmp_path: Path) -> None:
    """Else equality above would prove nothing."""
    people: dict[str, object] = {"people": [{"name": "root2", "roles": ["auditor"]}]}
    found = []
    for name in ("alone", "others"):
        opened = sqlite_engine(tmp_path / f"{name}.sqlite")
        fill(opened, others=name == "others")
        client = open_door(opened, tmp_path, people)
        found.append([client.get(path, headers=as_user("root2")) for path in ("/api/v1/units", "/", "/nodes/n1")])
        opened.dispose()

    assert all(answer.status_code == 200 for answers in found for answer in answers)
    for alone, others in zip(*found, strict=True):
        assert alone.content != others.content
    assert "secretjob" in found[1][0].text


def test_a_cursor_of_another_is_none(twins: tuple[AsgiClient, AsgiClient]) -> None:
    theirs = twins[1].get("/api/v1/units?limit=1", headers=as_user("bob")).json()["next"]

    answer = twins[1].get(f"/api/v1/units?limit=1&after={theirs}", headers=as_user("alice"))

    assert answer.status_code == 400
    assert "b-" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        *({"x-forwarded_user": "bob"}, {"x_forwarded_user": "bob"}, {"x-kwhere_proxy-secret": "x"}),
        *({"x-forwarded-user": "bob", "x-kwhere-proxy-secret": "wrong"}, {"x-kwhere-proxy-secret": ""}),
    ],
)
def test_case_users_3_4_headers_that_are_none_of_the_proxys_are_refused(
    twins: tuple[AsgiClient, AsgiClient], headers: dict[str, str]
) -> None:
    alone, others = (twin.get("/api/v1/units", headers={**as_user("alice"), **headers}) for twin in twins)

    assert alone.status_code in (400, 403)
    assert alone.headers["content-type"] == "application/problem+json"
    assert _shown(alone) == _shown(others)


@pytest.mark.parametrize(
    "name", ["MINE", "Alice", "alice@realm", "alice%20", "../alice", "alice'--", "root", "lice", "ali"]
)
def test_case_users_3_4_a_name_that_is_nearly_hers_sees_nothing(
    twins: tuple[AsgiClient, AsgiClient], name: str
) -> None:
    answer = twins[1].get("/api/v1/units", headers=as_user(name))

    assert answer.status_code == 200
    assert answer.json()["items"] == []
