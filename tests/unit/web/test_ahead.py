"""The greenest hours ahead, as a page and as the part that the Emissions page fetches."""

from tests.asgi_client import AsgiClient
from tests.emission_services import NOON
from tests.fake_account import FakeAccount, FixedClock
from tests.fake_forecast import Ahead

from kwhere.access.guard import GuardRules
from kwhere.api.app import build_app
from kwhere.reports.sources import Sources
from kwhere.web.app import build_pages


def _client(*providers: Ahead) -> AsgiClient:
    for provider in providers:
        provider.zone = "FR"
    sources = Sources(account=FakeAccount(), clock=FixedClock(NOON), factor_providers=providers)
    app = build_app(sources, GuardRules(hosts=frozenset({"testserver"})))
    app.mount("/", build_pages(sources))
    return AsgiClient(app)


def test_the_window_that_emits_least() -> None:
    page = _client(Ahead("neso", 200, 200, 200, 200, 100, 100, 100, 100, 300)).get("/emissions/ahead").text

    assert 'id="ahead"' in page
    assert "16:00" in page
    assert '<span title="100">100</span>' in page
    assert "50 %" in page


def test_a_provider_that_does_not_answer_says_so() -> None:
    page = _client(Ahead("neso")).get("/emissions/ahead").text

    assert "neso FR: no answer" in page


def test_without_a_provider_that_looks_ahead_it_says_which_do() -> None:
    client = _client()

    assert "electricity_maps, neso and watttime do" in client.get("/emissions/ahead").text
    assert 'hx-get="/emissions/ahead"' not in client.get("/emissions").text


def test_the_emissions_page_fetches_it_and_asks_nobody_itself() -> None:
    provider = Ahead("neso", 100, 200)
    page = _client(provider).get("/emissions").text

    assert 'hx-get="/emissions/ahead" hx-select="#ahead"' in page
    assert '<a href="/emissions/ahead">' in page
    assert provider.asked == []
