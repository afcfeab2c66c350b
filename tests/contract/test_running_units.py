"""What still runs is listed on request whatever the span is, over the API and both databases."""

from collections.abc import Mapping

import pytest
from sqlalchemy import Engine
from tests.account_site import Site
from tests.asgi_client import AsgiClient
from tests.journals import T0_NS
from tests.managed_site import T0, said, tell

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.reports.sources import Sources

DAY = 86_400
SPAN = {"from": T0.isoformat(), "to": T0.replace(minute=T0.minute + 1).isoformat()}


@pytest.fixture
def client(engine: Engine) -> AsgiClient:
    site = Site(engine)
    site.clock.now_ns = T0_NS + 2 * DAY * 10**9
    tell(
        engine,
        said("before", -DAY, -60),
        said("within", 0, 30),
        said("since-before", -DAY, None),
        said("started-later", DAY, None),
        said("ended-later", DAY, DAY + 60),
    )
    sources = Sources(account=site.reader, clock=site.clock, version="0")
    return AsgiClient(build_app(sources, GuardRules(hosts=frozenset({"testserver"}))))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("", {"within", "since-before"}, id="span-alone"),
        pytest.param("&running", {"within", "since-before", "started-later"}, id="case_ceems_271"),
        pytest.param("&running=true", {"within", "since-before", "started-later"}, id="case_ceems_271-true"),
        pytest.param("&running=1", {"within", "since-before", "started-later"}, id="case_ceems_271-one"),
        pytest.param("&running=false", {"within", "since-before"}, id="case_ceems_271-false"),
        pytest.param("&running&user=nobody", set(), id="case_ceems_271-of-a-user"),
    ],
)
def test_what_has_not_finished_is_listed_whatever_the_window(client: AsgiClient, query: str, found: set[str]) -> None:
    answer = client.get(f"/api/v1/units?from={_quoted(SPAN)}{query}")

    assert answer.status_code == 200
    assert {unit["unit"] for unit in answer.json()["items"]} == found


def _quoted(span: Mapping[str, str]) -> str:
    return f"{span['from']}&to={span['to']}".replace("+", "%2B")


def test_without_a_span_nothing_changes(client: AsgiClient) -> None:
    plain, asked = (client.get(f"/api/v1/units{query}").json()["items"] for query in ("", "?running"))

    assert [unit["unit"] for unit in plain] == [unit["unit"] for unit in asked]
    assert len(plain) == 5
