"""The ledger's outbound road: an agent behind NAT, or a server that passes on what it took in, sends pages.

    POST /ledger   a page (ledger/pages.py), gzip   → 200 {"after": "EPOCH:SEQ" | null}

The server keeps the cursor and says in each answer where to go on (null: at the oldest slot). A page without slots asks
where that is. What was sent twice is booked once, so a lost answer costs nothing.
"""

import gzip
import json
import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, NotFound, NotPermitted, SourceError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.ledger.journal_reader import JournalPage
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import encode_page, parse_cursor
from kwhere.transport.http import Answer, HttpClient

PATH = "/ledger"
CLOCK_HEADER = "x-clock-utc-ns"
_MOST_WAIT_SECONDS = 600.0
_GZIP_LEVEL = 1

log = structlog.get_logger(__name__)


class PageSource(Protocol):
    """Where pages come from: an agent's journal, or what a server keeps of one."""

    def read(self, after: Cursor | None, limit: int) -> JournalPage:
        """Return slots after the cursor. Raises NotFound if its epoch is not held."""
        ...

    def pulled(self, cursor: Cursor) -> None:
        """Take note that the server holds all slots up to the cursor."""
        ...


class Sender(Protocol):
    """What goes out in rounds."""

    def push_all(self, is_over: Callable[[], bool] = lambda: False) -> int:
        """Send until the server holds everything; return the number of slots it was sent. Raises KwhereError."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class Pusher:
    """Sends what a server does not hold yet."""

    def __init__(self, client: HttpClient, journal: PageSource, clock: Clock, page_slots: int) -> None:
        self._client = client
        self._journal = journal
        self._clock = clock
        self._page_slots = page_slots

    def push_all(self, is_over: Callable[[], bool] = lambda: False) -> int:
        """Send until the server holds everything; return the number of slots it was sent.

        Raises JournalError; Unavailable, NotPermitted or SourceError where the server does not take a page.
        """
        return self.push_from(self.send(self._journal.read(None, 0)), is_over)

    def push_from(self, after: Cursor | None, is_over: Callable[[], bool]) -> int:
        """Send what follows the cursor; otherwise like `push_all`."""
        sent = 0
        while not is_over():
            page = self._page_after(after)
            if page.header.next is None:
                break
            if not page.lines:
                # the epoch is read to its end and another follows
                after = parse_cursor(page.header.next)
                continue
            reached = self.send(page)
            if reached is None or reached == after:
                raise SourceError(f"{PATH}: expected the server to go on after {after}, found {reached}")
            after = reached
            sent += len(page.lines)
            self._journal.pulled(after)
        return sent

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def _page_after(self, after: Cursor | None) -> JournalPage:
        try:
            return self._journal.read(after, self._page_slots)
        except NotFound:
            # the server stands in an epoch that is not held any more: it records the rest as lost
            return self._journal.read(None, self._page_slots)

    def send(self, page: JournalPage) -> Cursor | None:
        """Send a page; return where the server wants to go on. Raises like `push_all`."""
        body = gzip.compress(encode_page(page.header, page.lines), _GZIP_LEVEL, mtime=0)
        headers = {
            "content-type": "application/x-ndjson",
            "content-encoding": "gzip",
            CLOCK_HEADER: str(self._clock.utc_ns()),
        }
        return _cursor_in(self._client.post(PATH, content=body, headers=headers))


class LedgerPush:
    """Pushes in rounds, in a thread of its own, from `start` to `stop`."""

    def __init__(self, pusher: Sender, clock: Clock, interval_seconds: float) -> None:
        self._pusher = pusher
        self._clock = clock
        self._interval_s = interval_seconds
        self._failures = FailureMemory()
        self._failed_rounds = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger push", daemon=True)

    def start(self) -> None:
        """Begin; the first round is at once."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; a page under way is sent again at the next start."""
        self._over.set()
        self._thread.join(0.5)
        self._pusher.close()

    def round(self) -> float:
        """Do one round; return the seconds to wait for the next: longer after each failure."""
        try:
            self._pusher.push_all(self._over.is_set)
        except KwhereError as error:
            return self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - the one runner of rounds: its thread must outlive any fault
            return self._failed(f"{type(error).__name__}: {error}")
        self._failed_rounds = 0
        if self._failures.recovered("push"):
            log.info("ledger is sent again")
        return self._interval_s

    def _failed(self, fault: str) -> float:
        if self._over.is_set():
            return self._interval_s
        self._failed_rounds += 1
        repeats = self._failures.failed("push", fault, self._clock.monotonic_ns())
        if repeats is not None:
            log.warning("ledger cannot be sent", fault=fault, count=repeats)
        return max(self._interval_s, min(self._interval_s * 2.0 ** min(self._failed_rounds, 16), _MOST_WAIT_SECONDS))

    def _run(self) -> None:
        while not self._over.wait(self.round()):
            pass


def _cursor_in(answer: Answer) -> Cursor | None:
    record = _object(answer)
    if answer.status != 200:
        detail = record.get("detail") or answer.text[:120]
        if answer.status in (401, 403):
            raise NotPermitted(f"{PATH}: the server refuses our credentials: {detail}")
        if answer.status in (429, 502, 503, 504):
            raise Unavailable("busy", f"{PATH}: {detail}")
        raise SourceError(f"{PATH}: expected status 200, found {answer.status}: {detail}")
    after = record.get("after", "")
    if after is None:
        return None
    if not isinstance(after, str):
        raise SourceError(f"{PATH}: expected a cursor, found {answer.text[:80]!r}")
    return parse_cursor(after)


def _object(answer: Answer) -> dict[str, object]:
    try:
        record = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
