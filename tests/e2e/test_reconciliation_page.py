"""A browser looks whether a node's meters agree: a BMC, RAPL, psys and hwmon, an hour of the real sampler's series."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from tests.e2e.browser import MODES, PICTURES, running_browser, text_faults, visit
from tests.e2e.server_thread import serve
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_units import NOW
from tests.meters_world import START_S, Wiring, scrape_node

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.core.clock import SystemClock
from kwhere.reports.sources import Sources
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings
from kwhere.server.agreement_round import AgreementRound
from kwhere.web.app import build_pages
from kwhere.web.settings import WebSettings

pytestmark = [pytest.mark.service("chromium"), pytest.mark.slow]

SECONDS = 3700
WIRINGS = {
    "agree": Wiring(),
    "disagree": Wiring(psys=0.25, redfish=0.7, idle_watts=300),
    "alone": Wiring(None, None, None),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module", params=WIRINGS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the wiring's name and the site's address; its newest sample is as old as the account's clock."""
    store = EmbeddedSeriesStore(tmp_path_factory.mktemp("series"), EmbeddedStoreSettings(threads=1), SystemClock())
    shift = NOW.timestamp() - START_S - SECONDS
    samples = scrape_node(WIRINGS[request.param], SECONDS)
    store.append([replace(each, time_s=each.time_s + shift) for each in samples])
    account, clock = FakeAccount(), FixedClock()
    agreements = AgreementRound(account, store, clock)
    agreements.run_once()
    sources = Sources(account=account, clock=clock, series=store, time_zone="Europe/Paris", agreements=agreements)
    app = build_app(sources, GuardRules(hosts=frozenset({"127.0.0.1"})))
    app.mount("/", build_pages(sources, WebSettings(refresh_seconds=1)))
    with serve(app) as url:
        yield request.param, url
    store.close()


def _open(browser: Browser, mode: str) -> BrowserContext:
    context = browser.new_context(**MODES[mode])  # type: ignore[arg-type]
    context.set_default_timeout(10_000)
    return context


def _keep(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


@pytest.mark.parametrize("mode", MODES)
def test_the_node_page_says_whether_its_meters_agree(browser: Browser, site: tuple[str, str], mode: str) -> None:
    name, url = site
    context = _open(browser, mode)
    page, faults = visit(context, f"{url}/nodes/node-a")
    _keep(page, f"reconciliation-{name}-{mode}")

    panel = page.locator("section.sources")
    figures = page.locator("section.figures")
    assert faults == []
    width, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= room
    said = {
        "agree": "BMC (redfish) agrees with the components within ±",
        "disagree": "BMC (redfish) shows only",
        "alone": "No second source here",
    }
    assert said[name] in panel.inner_text()
    assert ("meters disagree" in panel.inner_text()) == (name == "disagree")
    assert ("no second source" in figures.inner_text()) == (name == "alone")
    if name != "alone":
        legend = page.locator("#chart-reconciliation .legend").inner_text()
        assert all(word in legend for word in ("redfish", "psys", "hwmon_power", "components"))
    context.close()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_its_text_stands_out_from_its_ground(browser: Browser, site: tuple[str, str], mode: str) -> None:
    context = _open(browser, mode)
    page, _ = visit(context, f"{site[1]}/nodes/node-a")

    assert text_faults(page) == []
    context.close()


def test_the_first_page_says_it_in_its_headline(browser: Browser, site: tuple[str, str]) -> None:
    name, url = site
    context = _open(browser, "light")
    page, faults = visit(context, f"{url}/")
    _keep(page, f"reconciliation-overview-{name}")

    said = {"agree": "meters agree within", "disagree": "node's meters disagree", "alone": "no second source"}
    assert faults == []
    assert said[name] in page.locator(".trust").inner_text()
    context.close()
