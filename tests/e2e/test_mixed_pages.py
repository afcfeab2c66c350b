"""A browser walks a site with a bit of everything: whatever names are like, tables fit a laptop, and pages a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.databases import sqlite_engine
from tests.e2e.browser import MODES, running_browser, visit
from tests.e2e.server_thread import serve
from tests.mixed_site import fill_mixed
from tests.two_tenants import NOW, SECRET, door_of

pytestmark = [pytest.mark.service("chromium"), pytest.mark.slow]

PATHS = (
    *("/", "/units", "/units/alpine/slurm/990001", "/nodes", "/nodes/g001", "/clusters/alpine"),
    *("/clusters/alpine/nodes", "/queue", "/users", "/users/alice", "/projects/aero"),
    *("/usage?by=node&span=7d", "/usage?by=week&span=14d"),
)
OVERFLOWING = """
[...document.querySelectorAll(".table-wrap:not(.wide)")].filter((wrap) => wrap.scrollWidth > wrap.clientWidth + 1)
  .map((wrap) => `${wrap.scrollWidth} px in ${wrap.clientWidth}`)
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place: Path = tmp_path_factory.mktemp("mixed")
    engine = sqlite_engine(place / "mixed.sqlite")
    fill_mixed(engine, NOW, days=2)
    people: dict[str, object] = {"people": [{"name": "olga", "roles": ["operator"]}]}
    with serve(door_of(engine, place, people, host="127.0.0.1")) as url:
        yield url
    engine.dispose()


@pytest.mark.parametrize("mode", ["light", "narrow"])
def test_whatever_names_are_like_pages_fit(browser: Browser, base_url: str, mode: str) -> None:
    headers = {"x-forwarded-user": "olga", "x-kwhere-proxy-secret": SECRET}
    context = browser.new_context(**MODES[mode], extra_http_headers=headers)  # type: ignore[arg-type]
    context.set_default_timeout(20_000)
    found: dict[str, object] = {}
    for path in PATHS:
        page, faults = visit(context, base_url + path)
        width, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        tables = page.evaluate(OVERFLOWING) if mode == "light" else []
        if faults or width > room or tables:
            found[path] = (faults, width, room, tables)
        page.close()
    context.close()

    assert found == {}
