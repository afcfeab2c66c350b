"""A site's own dcgm-exporter as a source of activity: on GPUs of before Hopper only DCGM can tell it."""

import socket
import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from urllib.parse import urlsplit

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.dcgm_page import read_activity
from kwhere.devices.gpu_activity import OutsideActivity, OutsideState

SOURCE = "dcgm_exporter"
AUTO = "auto"
AUTO_URL = "http://127.0.0.1:9400"
PERIOD_SECONDS = 10.0
HOLD_SECONDS = 90.0
"""An exporter reads every 30 s by default, and its page is empty while it reads its counters file again."""
RETRY_SECONDS = 300.0
_CONNECT_SECONDS = 2.0
_READ_SECONDS = 10.0
_MOST_BYTES = 32 << 20


class DcgmExporter:
    """Asks on a thread of its own, while somebody wants to know; `latest` never waits."""

    def __init__(
        self,
        url: str,
        is_wanted: Callable[[], bool] = lambda: True,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`url` may be `auto`: the one on this machine's port 9400, unless that is our own face."""
        self._url = (AUTO_URL if url == AUTO else url).rstrip("/").removesuffix("/metrics")
        self._place = _without_secrets(self._url)
        self._is_auto = url == AUTO
        self._is_wanted = is_wanted
        self._monotonic_ns = monotonic_ns
        self._lock = Lock()
        self._latest: OutsideActivity | None = None
        self._answered_ns = 0
        self._state = OutsideState(SOURCE, self._place, False, "unasked")
        self._over = Event()
        self._thread: Thread | None = None

    def states(self) -> tuple[OutsideState, ...]:
        """Return how it does."""
        return (self._state,)

    def latest(self) -> OutsideActivity | None:
        """Return the newest activity; None where none is known, or it is too old."""
        if self._thread is None and not self._over.is_set():
            self._thread = Thread(target=self._run, name="dcgm-exporter", daemon=True)
            self._thread.start()
        with self._lock:
            age_ns = self._monotonic_ns() - self._answered_ns
            return self._latest if age_ns <= HOLD_SECONDS * NANOSECONDS_PER_SECOND else None

    def close(self) -> None:
        """Ask no more."""
        self._over.set()

    def ask(self) -> None:
        """Ask once; it takes 15 s at most."""
        try:
            page = self._page()
            found = read_activity(page)
        except (Unavailable, SourceError, ConfigError) as error:
            reason = error.reason if isinstance(error, Unavailable) else "error"
            self._state = OutsideState(SOURCE, self._place, False, reason, str(error))
            return
        if found:
            with self._lock:
                self._latest, self._answered_ns = OutsideActivity(SOURCE, found), self._monotonic_ns()
        self._state = OutsideState(SOURCE, self._place, True)
        if not found:
            self._state = OutsideState(SOURCE, self._place, True, "no_data", f"{self._place}: no DCGM_FI_PROF_ fields")

    def _run(self) -> None:
        while not self._over.is_set():
            seconds = PERIOD_SECONDS
            if self._is_wanted():
                self.ask()
                seconds = RETRY_SECONDS if self._is_auto and not self._state.up else PERIOD_SECONDS
            self._over.wait(seconds)

    def _page(self) -> str:
        """Return the page. Raises Unavailable, SourceError, ConfigError."""
        if self._is_auto:
            knock(self._url)  # most nodes have none: they shall not pay for an HTTP client
        from kwhere.transport.http import HttpClient
        from kwhere.transport.settings import HttpClientSettings

        settings = HttpClientSettings(
            connect_timeout_seconds=_CONNECT_SECONDS,
            read_timeout_seconds=_READ_SECONDS,
            total_timeout_seconds=_READ_SECONDS + _CONNECT_SECONDS,
            max_answer_bytes=_MOST_BYTES,
        )
        with HttpClient(self._url, settings) as client:
            answer = client.get("/metrics")
        if answer.headers.get("server", "").startswith("kwhere"):
            raise Unavailable("own", f"{self._place}: is this agent's own face")
        if answer.status != 200:
            raise SourceError(f"{self._place}: expected status 200, found {answer.status}")
        return answer.text


def _without_secrets(url: str) -> str:
    """Return an address without user, password and query, to be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def knock(url: str) -> None:
    """Raise Unavailable where nobody listens."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or 80), _CONNECT_SECONDS).close()
    except OSError as error:
        raise Unavailable("absent", f"{url}: {error.strerror or error}") from error
