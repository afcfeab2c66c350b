"""The scraper of the embedded store: every agent's /metrics, each interval, with `cluster` and `node` added.

An agent that does not answer gives `up` 0 and no other sample: its curves end there.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, SourceError
from kwhere.core.failure_memory import FailureMemory
from kwhere.series.parse import ExpositionParser
from kwhere.series.settings import ScrapeSettings
from kwhere.series.store import ScrapedSample, WritableSeriesStore
from kwhere.transport.http import HttpClient

log = structlog.get_logger(__name__)

ACCEPT = "text/plain; version=0.0.4"
UPKEEP_SECONDS = 60.0
_OK = 200


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """One agent: where it is, and which labels its samples get."""

    cluster: str
    node: str
    url: str
    """Scheme, host and port; /metrics is asked of it."""


Connect = Callable[[ScrapeTarget], HttpClient]
"""Opens a client with the credentials and trust that the site set for a target."""


@dataclass(frozen=True, slots=True)
class ScrapeCounts:
    """What was scraped since the start."""

    scrapes: int = 0
    failures: int = 0
    samples: int = 0
    late: int = 0
    """Intervals left out because the round before them took too long."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    target: ScrapeTarget
    samples: Sequence[ScrapedSample]
    error: str | None


class _Reporter:
    """Logs a failure on change, then hourly, and its end. For one thread."""

    def __init__(self, failed: str, recovered: str, clock: Clock) -> None:
        self._failed = failed
        self._recovered = recovered
        self._clock = clock
        self._memory = FailureMemory()

    def tell(self, subject: str, error: str | None) -> None:
        if error is not None:
            times = self._memory.failed(subject, error, self._clock.monotonic_ns())
            if times is not None:
                log.warning(self._failed, subject=subject, error=error, times=times)
        elif self._memory.recovered(subject):
            log.info(self._recovered, subject=subject)


class _Reader:
    """Reads one target, page after page."""

    def __init__(self, target: ScrapeTarget, client: HttpClient, settings: ScrapeSettings, clock: Clock) -> None:
        self._target = target
        self._client = client
        self._settings = settings
        self._clock = clock
        self._labels = (("cluster", target.cluster), ("node", target.node))
        self._parser = ExpositionParser(self._labels)

    def read(self) -> _Outcome:
        """Return the samples of one page, or why there are none; never raises."""
        time_s = round(self._clock.utc_ns() / 1e9, 3)
        began_ns = self._clock.monotonic_ns()
        try:
            samples = list(self._samples(time_s))
        except KwhereError as error:
            return _Outcome(self._target, (self._own("up", time_s, 0.0),), str(error))
        except Exception as error:  # noqa: BLE001 - the runner of a scrape: one agent never ends the others' rounds
            return _Outcome(self._target, (self._own("up", time_s, 0.0),), f"{type(error).__name__}: {error}")
        taken_s = (self._clock.monotonic_ns() - began_ns) / 1e9
        samples += (self._own("up", time_s, 1.0), self._own("scrape_duration_seconds", time_s, taken_s))
        return _Outcome(self._target, samples, None)

    def _samples(self, time_s: float) -> Iterator[ScrapedSample]:
        limit = self._settings.timeout_seconds
        answer = self._client.get("/metrics", headers={"Accept": ACCEPT}, timeout_seconds=limit)
        if answer.status != _OK:
            raise SourceError(f"{self._target.url}/metrics: expected status 200, found {answer.status}")
        parsed = self._parser.parse(answer.body)
        most = self._settings.max_samples
        if len(parsed) > most:
            raise SourceError(f"{self._target.url}: expected at most {most} samples, found {len(parsed)}")
        for name, labels, value, time_ms in parsed:
            if not math.isnan(value):
                yield ScrapedSample(name, labels, time_s if time_ms is None else time_ms / 1000, value)

    def _own(self, name: str, time_s: float, value: float) -> ScrapedSample:
        return ScrapedSample(name, self._labels, time_s, value)

    def close(self) -> None:
        """Give back the connection."""
        self._client.close()


class SeriesScraper:
    """Feeds a store from agents. `targets` is asked before each round; `connect` once per target."""

    def __init__(
        self,
        store: WritableSeriesStore,
        targets: Callable[[], Sequence[ScrapeTarget]],
        connect: Connect,
        clock: Clock,
        settings: ScrapeSettings | None = None,
    ) -> None:
        self._store = store
        self._targets = targets
        self._connect = connect
        self._clock = clock
        self._settings = settings or ScrapeSettings()
        self._readers: dict[ScrapeTarget, _Reader] = {}
        self._asked: dict[ScrapeTarget, Future[_Outcome]] = {}
        """Targets that have not answered yet: a slow one holds up nobody else's next round."""
        self._scrapes = _Reporter("scrape failed", "scrape works again", clock)
        self._writes = _Reporter("series store cannot be written", "series store is written again", clock)
        self._upkeep = _Reporter("series store upkeep failed", "series store upkeep works again", clock)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.counts = ScrapeCounts()

    def scrape_once(self) -> ScrapeCounts:
        """Read every target once into the store; return what was done. Never raises for a target or the store."""
        with ThreadPoolExecutor(self._settings.workers, "scrape") as pool:
            return self._round(pool, wait_seconds=None)

    def _round(self, pool: ThreadPoolExecutor, wait_seconds: float | None) -> ScrapeCounts:
        """Ask every target that is not still being asked, and take what has come after `wait_seconds` at the most."""
        for target, reader in self._current_readers().items():
            if target not in self._asked:
                self._asked[target] = pool.submit(reader.read)
        wait(self._asked.values(), wait_seconds)
        done = [target for target, future in self._asked.items() if future.done()]
        return self._take([self._asked.pop(target).result() for target in done])

    def _take(self, outcomes: Sequence[_Outcome]) -> ScrapeCounts:
        for outcome in outcomes:
            self._scrapes.tell(f"{outcome.target.cluster} {outcome.target.url}", outcome.error)
        samples = [sample for outcome in outcomes for sample in outcome.samples]
        self._writes.tell("append", self._append(samples))
        taken = ScrapeCounts(len(outcomes), sum(o.error is not None for o in outcomes), len(samples))
        self.counts = ScrapeCounts(
            self.counts.scrapes + taken.scrapes,
            self.counts.failures + taken.failures,
            self.counts.samples + taken.samples,
            self.counts.late,
        )
        return taken

    def _append(self, samples: Sequence[ScrapedSample]) -> str | None:
        try:
            self._store.append(samples)
        except KwhereError as error:
            return str(error)
        return None

    def _current_readers(self) -> dict[ScrapeTarget, _Reader]:
        """Return a reader per present target; those of targets that went are closed."""
        wanted = list(dict.fromkeys(self._targets()))
        for gone in self._readers.keys() - set(wanted):
            self._readers.pop(gone).close()
        for target in wanted:
            if target not in self._readers:
                self._open(target)
        return {target: self._readers[target] for target in wanted if target in self._readers}

    def _open(self, target: ScrapeTarget) -> None:
        subject = f"connect {target.cluster} {target.url}"
        try:
            client = self._connect(target)
        except KwhereError as error:
            self._scrapes.tell(subject, str(error))
            return
        self._scrapes.tell(subject, None)
        self._readers[target] = _Reader(target, client, self._settings, self._clock)

    # -- threads

    def start(self) -> None:
        """Begin to scrape each interval and to keep the store tidy, in two threads."""
        for name, work in (("series-scraper", self._scrape_on), ("series-upkeep", self._tidy_on)):
            thread = threading.Thread(target=work, name=name)
            self._threads.append(thread)
            thread.start()

    def _scrape_on(self) -> None:
        interval_ns = int(self._settings.interval_seconds * 1e9)
        due_ns = self._clock.monotonic_ns()
        with ThreadPoolExecutor(self._settings.workers, "scrape") as pool:
            while not self._stop.is_set():
                self._round(pool, self._settings.interval_seconds / 2)
                missed = max(0, (self._clock.monotonic_ns() - due_ns) // interval_ns)
                self._count_late(missed)
                due_ns += (missed + 1) * interval_ns
                self._stop.wait(max(0.0, (due_ns - self._clock.monotonic_ns()) / 1e9))

    def _count_late(self, missed: int) -> None:
        if missed:
            counts = self.counts
            self.counts = ScrapeCounts(counts.scrapes, counts.failures, counts.samples, counts.late + missed)

    def _tidy_on(self) -> None:
        while not self._stop.is_set():
            self.tidy()
            self._stop.wait(UPKEEP_SECONDS)

    def tidy(self) -> None:
        """Let the store drop and merge what is due; a failure is logged on change."""
        try:
            self._store.maintain()
        except KwhereError as error:
            self._upkeep.tell("maintain", str(error))
        else:
            self._upkeep.tell("maintain", None)

    def stop(self) -> None:
        """End both threads and close the connections; the store is its owner's to close."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
