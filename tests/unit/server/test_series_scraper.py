"""The scraper against real HTTP servers and the real embedded store."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import structlog

from kwhere.core.clock import SystemClock
from kwhere.core.errors import ConfigError, Unavailable
from kwhere.core.timespan import Span
from kwhere.series.embedded import EmbeddedSeriesStore
from kwhere.series.settings import EmbeddedStoreSettings, ScrapeSettings
from kwhere.series.store import RawSeries, ScrapedSample, Selector
from kwhere.server.series_scraper import ScrapeCounts, ScrapeTarget, SeriesScraper
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

ALWAYS = Span(datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


class Agent:
    """An agent's /metrics that a test scripts."""

    def __init__(self) -> None:
        self.status = 200
        self.page = b"kwhere_node_load1 0.5\n"
        self.asked: list[str] = []
        self.url = ""
        self.may_answer = threading.Event()
        self.may_answer.set()


@contextmanager
def agent() -> Iterator[Agent]:
    scripted = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scripted.asked.append(f"{self.path} {self.headers['Accept']}")
            scripted.may_answer.wait()
            self.send_response(scripted.status)
            self.send_header("Content-Length", str(len(scripted.page)))
            self.end_headers()
            self.wfile.write(scripted.page)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    scripted.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield scripted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedSeriesStore]:
    store = EmbeddedSeriesStore(tmp_path, EmbeddedStoreSettings(threads=1), SystemClock())
    yield store
    store.close()


def connect(target: ScrapeTarget) -> HttpClient:
    return HttpClient(target.url, HttpClientSettings(connect_timeout_seconds=2, read_timeout_seconds=2))


def scraper_of(
    store: EmbeddedSeriesStore, *targets: ScrapeTarget, settings: ScrapeSettings | None = None
) -> SeriesScraper:
    return SeriesScraper(store, lambda: targets, connect, SystemClock(), settings)


def last(found: Sequence[RawSeries]) -> list[tuple[dict[str, str], float]]:
    return [(dict(series.labels), series.values[-1]) for series in found]


def test_every_sample_gets_cluster_and_node(store: EmbeddedSeriesStore) -> None:
    with agent() as one:
        one.page = b'kwhere_units{manager="slurm"} 3\nkwhere_node_load1{node="lies"} 0.5\nkwhere_odd NaN\n'
        scraper = scraper_of(store, ScrapeTarget("c", "n1", one.url))
        done = scraper.scrape_once()
        scraper.stop()

    assert done == ScrapeCounts(scrapes=1, failures=0, samples=4)
    assert last(store.select(Selector("kwhere_units", {"cluster": "c"}), ALWAYS, 10)) == [
        ({"cluster": "c", "node": "n1", "manager": "slurm"}, 3)
    ]
    assert last(store.select(Selector("kwhere_node_load1", {}), ALWAYS, 10)) == [
        ({"cluster": "c", "node": "n1", "exported_node": "lies"}, 0.5)
    ]
    assert last(store.select(Selector("up", {}), ALWAYS, 10)) == [({"cluster": "c", "node": "n1"}, 1)]
    assert not store.select(Selector("kwhere_odd", {}), ALWAYS, 10)
    assert one.asked == ["/metrics text/plain; version=0.0.4"]


@pytest.mark.parametrize("kind", ["status", "garbage", "too many"])
def test_an_agent_that_answers_nonsense_is_down_and_takes_no_other_down(store: EmbeddedSeriesStore, kind: str) -> None:
    with agent() as bad, agent() as good:
        bad.status = 503 if kind == "status" else 200
        bad.page = {"status": b"a 1\n", "garbage": b"<html>oops</html>", "too many": b"a 1\nb 2\nc 3\n"}[kind]
        scraper = scraper_of(
            store,
            ScrapeTarget("c", "bad", bad.url),
            ScrapeTarget("c", "good", good.url),
            settings=ScrapeSettings(max_samples=2),
        )
        done = scraper.scrape_once()
        scraper.stop()

    assert (done.scrapes, done.failures) == (2, 1)
    assert last(store.select(Selector("up", {}), ALWAYS, 10)) == [
        ({"cluster": "c", "node": "bad"}, 0),
        ({"cluster": "c", "node": "good"}, 1),
    ]
    assert not store.select(Selector("a", {}), ALWAYS, 10)


def test_a_failure_is_logged_on_change_and_its_end_too(store: EmbeddedSeriesStore) -> None:
    with agent() as one, structlog.testing.capture_logs() as logs:
        scraper = scraper_of(store, ScrapeTarget("c", "n1", one.url))
        for status in (200, 500, 500, 500, 404, 200, 200):
            one.status = status
            scraper.scrape_once()
        scraper.stop()

    assert [line["event"] for line in logs] == ["scrape failed", "scrape failed", "scrape works again"]
    assert scraper.counts == ScrapeCounts(scrapes=7, failures=4, samples=3 * 3 + 4)


def test_a_target_that_goes_is_closed_and_one_that_comes_is_scraped(store: EmbeddedSeriesStore) -> None:
    targets: list[ScrapeTarget] = []
    with agent() as one, agent() as two:
        scraper = SeriesScraper(store, lambda: targets, connect, SystemClock())
        assert scraper.scrape_once() == ScrapeCounts()
        targets[:] = [ScrapeTarget("c", "one", one.url)]
        scraper.scrape_once()
        targets[:] = [ScrapeTarget("c", "two", two.url)]
        scraper.scrape_once()
        scraper.stop()

    assert (len(one.asked), len(two.asked)) == (1, 1)


def test_a_target_without_credentials_is_reported_and_tried_again(store: EmbeddedSeriesStore) -> None:
    tries = iter([ConfigError("token_file /x: absent")])

    def moody(target: ScrapeTarget) -> HttpClient:
        error = next(tries, None)
        if error is not None:
            raise error
        return connect(target)

    with agent() as one, structlog.testing.capture_logs() as logs:
        scraper = SeriesScraper(store, lambda: [ScrapeTarget("c", "n", one.url)], moody, SystemClock())
        assert scraper.scrape_once().scrapes == 0
        assert scraper.scrape_once().scrapes == 1
        scraper.stop()

    assert [line["event"] for line in logs] == ["scrape failed", "scrape works again"]


class FullStore:
    """A store whose disk is full for the first `failures` calls."""

    scrape_seconds = 10.0

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.taken = 0

    def _work(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("write", "no space left")

    def append(self, samples: Sequence[ScrapedSample]) -> None:
        self._work()
        self.taken += len(samples)

    def maintain(self) -> None:
        self._work()

    def select(self, selector: Selector, span: Span, step_seconds: float) -> Sequence[RawSeries]:
        return []

    def kept(self, cluster: str, now: datetime) -> None:
        return None

    def close(self) -> None:
        pass


@pytest.mark.parametrize("work", [SeriesScraper.scrape_once, SeriesScraper.tidy])
def test_a_store_that_cannot_write_is_logged_once_and_never_ends_the_rounds(
    work: Callable[[SeriesScraper], object],
) -> None:
    full = FullStore(failures=3)
    with structlog.testing.capture_logs() as logs:
        scraper = SeriesScraper(full, list, connect, SystemClock())
        for _ in range(5):
            work(scraper)

    assert [line["log_level"] for line in logs] == ["warning", "info"]


def test_an_agent_that_hangs_holds_up_no_other_and_is_down(store: EmbeddedSeriesStore) -> None:
    with agent() as slow, agent() as quick:
        slow.may_answer.clear()
        seen = threading.Event()

        def targets() -> list[ScrapeTarget]:
            if len(quick.asked) >= 5 and len(slow.asked) >= 2:
                seen.set()
            return [ScrapeTarget("c", "quick", quick.url), ScrapeTarget("c", "slow", slow.url)]

        settings = ScrapeSettings(interval_seconds=0.05, timeout_seconds=0.5)
        scraper = SeriesScraper(store, targets, connect, SystemClock(), settings)
        scraper.start()
        assert seen.wait(30)
        slow.may_answer.set()
        scraper.stop()

    quick_up, slow_up = store.select(Selector("up", {}), ALWAYS, 0.001)
    assert set(quick_up.values) == {1}
    assert slow_up.values[0] == 0
    assert len(quick_up.values) > len(slow_up.values)


def test_the_threads_scrape_until_they_are_stopped(store: EmbeddedSeriesStore) -> None:
    seen = threading.Event()
    with agent() as one:
        target = ScrapeTarget("c", "n1", one.url)

        def targets() -> list[ScrapeTarget]:
            if len(one.asked) >= 3:
                seen.set()
            return [target]

        scraper = SeriesScraper(store, targets, connect, SystemClock(), ScrapeSettings(interval_seconds=0.02))
        scraper.start()
        assert seen.wait(30)
        scraper.stop()

    assert len(store.select(Selector("up", {}), ALWAYS, 0.001)[0].values) >= 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("series-", "scrape"))]
