"""A browser walks every page: light, dark, on a narrow screen and without script; what it sees is kept as pictures."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext
from tests.e2e.browser import MODES, PICTURES, running_browser, text_faults, visit
from tests.e2e.server_thread import serve
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_series import FakeSeries
from tests.fake_units import UNITS, many_units

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.reports.sources import Hint, Sources, ZoneChoice
from kwhere.web.app import build_pages
from kwhere.web.settings import WebSettings

pytestmark = [pytest.mark.service("chromium"), pytest.mark.slow]

TOKEN = "correct-horse-battery"
PAGES = {
    "overview": "/",
    "units": "/units",
    "units-filtered": "/units?q=wing&span=24h",
    "unit": "/units/local/slurm/4242",
    "unit-ended": "/units/local/slurm/4199",
    "nodes": "/nodes",
    "node": "/nodes/node-a",
    "clusters": "/clusters",
    "cluster": "/clusters/local",
    "cluster-nodes": "/clusters/local/nodes",
    "queue": "/queue",
    "users": "/users",
    "user": "/users/alice",
    "projects": "/projects",
    "project": "/projects/aero",
    "unit-compared": "/units/local/slurm/4243",
    "usage": "/usage",
    "usage-by-day": "/usage?by=day",
    "usage-by-week": "/usage?by=week",
    "emissions": "/emissions",
    "methodology": "/methodology",
}


def _app(account: FakeAccount) -> object:
    sources = Sources(
        account=account,
        clock=FixedClock(),
        series=FakeSeries(),
        time_zone="Europe/Paris",
        zones=(ZoneChoice("DE", "Germany"), ZoneChoice("FR", "France")),
        choose_zone=lambda zone, by: _choose(account, zone),
        hints=lambda: (Hint("RAPL is root-only", "One command opens it.", "sudo chmod a+r /sys/x", "sudo chmod go-r"),),
        version="0.1.0",
    )
    app = build_app(sources, GuardRules(token=TOKEN))
    app.mount("/", build_pages(sources, WebSettings(refresh_seconds=1)))
    return app


def _choose(account: FakeAccount, zone: str) -> None:
    account.zone, account.proposed = zone, False


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serve(_app(FakeAccount())) as url:
        yield url


def _enter(browser: Browser, base_url: str, mode: str) -> BrowserContext:
    """Return a context that has come in through the printed URL."""
    context = browser.new_context(**MODES[mode])  # type: ignore[arg-type]
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.goto(f"{base_url}/?token={TOKEN}")
    assert "token" not in page.url
    page.close()
    return context


@pytest.mark.parametrize("mode", MODES)
def test_a_browser_walks_every_page(browser: Browser, base_url: str, mode: str) -> None:
    context = _enter(browser, base_url, mode)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, path in PAGES.items():
        page, faults = visit(context, base_url + path)
        page.screenshot(path=PICTURES / f"{name}-{mode}.png", full_page=True)

        assert faults == [], f"{name}, {mode}"
        width, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert width <= room, f"{name}, {mode}: {width} px wide in {room}"
        assert page.locator("h1").count() == 1
        assert page.locator("main").inner_text().strip()
        page.close()
    context.close()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, base_url: str, mode: str) -> None:
    context = _enter(browser, base_url, mode)
    too_faint: list[str] = []
    paths = (
        "/",
        "/units",
        "/units/local/slurm/4242",
        "/clusters/local",
        "/projects/aero",
        "/emissions",
        "/methodology",
    )
    for path in paths:
        page, _ = visit(context, base_url + path)
        too_faint += [f"{path} {mode}: {found}" for found in text_faults(page)]
        page.close()
    context.close()

    assert too_faint == []


def test_nothing_jumps_while_a_page_loads(browser: Browser, base_url: str) -> None:
    context = _enter(browser, base_url, "light")
    for path in ("/", "/units", "/units/local/slurm/4242", "/nodes/node-a", "/clusters/local", "/users/alice"):
        page, _ = visit(context, base_url + path)
        shift = page.evaluate(
            """() => new Promise((done) => new PerformanceObserver((list) => done(
                 list.getEntries().reduce((sum, entry) => sum + entry.value, 0)
               )).observe({type: "layout-shift", buffered: true}) || setTimeout(() => done(0), 200))"""
        )
        assert shift < 0.01, path
        page.close()
    context.close()


def test_charts_are_drawn_and_share_a_cursor(browser: Browser, base_url: str) -> None:
    context = _enter(browser, base_url, "light")
    page, faults = visit(context, f"{base_url}/units/local/slurm/4242")

    assert page.locator(".uplot canvas").count() == page.locator("figure[data-chart]").count() >= 5
    resting = page.locator("#chart-memory [data-value='0']").inner_text()
    box = page.locator("#chart-power .u-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.21, box["y"] + box["height"] / 2)
    page.wait_for_function(
        "text => document.querySelector('#chart-memory [data-value=\"0\"]').textContent !== text", arg=resting
    )
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d",
        page.locator("#chart-memory").evaluate(
            "figure => figure.closest('.panel').querySelector('[data-cursor-time]').textContent"
        ),
    )
    page.locator("[data-table-for='chart-cpu']").click()
    assert page.locator("#chart-cpu .chart-table").is_visible()
    assert faults == []
    context.close()


def test_the_overview_renews_itself_and_keeps_its_chart(browser: Browser, base_url: str) -> None:
    context = _enter(browser, base_url, "light")
    page, faults = visit(context, f"{base_url}/")
    page.evaluate("document.querySelector('#live').dataset.old = 'yes'")

    page.wait_for_selector("#live:not([data-old])")

    assert page.locator("#live .uplot canvas").count() == 1
    assert page.locator("#live .headline .value").first.inner_text().startswith("320")
    assert faults == []
    context.close()


def test_everything_is_within_reach_of_the_keyboard(browser: Browser, base_url: str) -> None:
    context = _enter(browser, base_url, "light")
    page, _ = visit(context, f"{base_url}/units")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("resnet")
    page.keyboard.press("Enter")
    page.wait_for_url("**/units?q=resnet")
    assert page.locator("tbody tr").count() == 1
    page.locator("tbody tr a").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/units/local/slurm/4199?**")
    context.close()


def test_filters_live_in_the_url(browser: Browser, base_url: str) -> None:
    context = _enter(browser, base_url, "light")
    page, _ = visit(context, f"{base_url}/units")

    page.locator("select[name=manager]").select_option("slurm")
    page.wait_for_url("**/units?manager=slurm")
    page.get_by_role("link", name="CPU time").click()
    page.wait_for_url("**sort=-cpu_seconds**")
    assert "manager=slurm" in page.url
    page.get_by_text("Columns").click()
    page.get_by_label("Peak memory").check()
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**columns=memory**")
    assert page.locator("th", has_text="Peak memory").count() == 1
    context.close()


def test_a_country_is_confirmed_on_the_page(browser: Browser) -> None:
    with serve(_app(FakeAccount())) as url:
        context = _enter(browser, url, "light")
        page, faults = visit(context, f"{url}/emissions")
        assert page.get_by_text("proposed").is_visible()

        page.get_by_label("Country or zone").select_option("DE")
        page.get_by_role("button", name="Confirm").click()

        page.wait_for_url("**/emissions?saved=1")
        assert page.get_by_text("Chosen by a person.").is_visible()
        assert not page.get_by_text("proposed").is_visible()
        assert faults == []
        context.close()


def test_times_can_be_read_in_the_viewers_zone(browser: Browser, base_url: str) -> None:
    context = browser.new_context(timezone_id="America/New_York")
    page = context.new_page()
    page.goto(f"{base_url}/?token={TOKEN}")
    page.goto(f"{base_url}/units/local/slurm/4242")
    started = page.locator(".unit-facts time[data-absolute]").first
    assert started.inner_text() == "2026-11-29 12:48"

    page.get_by_role("button", name="show in America/New_York").click()

    assert started.inner_text() == "2026-11-29 06:48"
    context.close()


def test_an_empty_account_is_explained(browser: Browser) -> None:
    account = FakeAccount(empty=True, zone=None)
    account.is_managed = False
    with serve(_app(account)) as url:
        context = _enter(browser, url, "light")
        for name in ("overview", "units", "nodes", "clusters", "queue", "usage", "emissions", "methodology"):
            page, faults = visit(context, url + PAGES[name])
            page.screenshot(path=PICTURES / f"{name}-empty.png", full_page=True)
            assert faults == []
            page.close()
        page, _ = visit(context, url)
        assert page.get_by_text("Waiting for the first slot.").is_visible()
        context.close()


def test_the_numbers_of_a_trend_can_be_opened_without_script(browser: Browser, base_url: str) -> None:
    context = _enter(browser, base_url, "no-script")
    page, faults = visit(context, f"{base_url}/projects/aero?trend=week")

    assert not page.locator(".numbers table").is_visible()
    page.get_by_text("The same in numbers").click()
    assert page.locator(".numbers tbody tr").first.inner_text().startswith("2026-W48")
    page.get_by_role("link", name="alice").first.click()
    page.wait_for_url("**/users/alice**")
    assert faults == []
    context.close()


def test_ten_thousand_units_are_paged_through(browser: Browser) -> None:
    with serve(_app(FakeAccount(records=UNITS + many_units(10_000)))) as url:
        context = _enter(browser, url, "light")
        page, faults = visit(context, f"{url}/units")
        assert page.locator("tbody tr").count() == 50
        page.get_by_role("link", name="Next").click()
        page.wait_for_url("**after=50**")
        assert page.locator("tbody tr").count() == 50
        assert faults == []
        context.close()


def test_without_the_token_the_page_says_where_it_is(browser: Browser, base_url: str) -> None:
    context = browser.new_context()
    page = context.new_page()

    answer = page.goto(f"{base_url}/units")

    assert answer
    assert answer.status == 401
    assert page.get_by_text("state directory").is_visible()
    context.close()


def test_a_page_says_since_when_the_server_is_silent(browser: Browser) -> None:
    with serve(_app(FakeAccount())) as url:
        context = _enter(browser, url, "light")
        page, _ = visit(context, url)
        assert not page.locator("[data-stale]").is_visible()

    page.wait_for_selector("[data-stale]:not([hidden])")
    assert "has not answered since" in page.locator("[data-stale]").inner_text()
    assert page.locator(".headline .value").first.inner_text().startswith("320")
    context.close()
