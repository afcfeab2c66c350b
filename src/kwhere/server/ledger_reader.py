"""Reading one agent's ledger: ask for a page, judge the answer, have it booked, ask on from there."""

import json
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import IntakeRefused, NotPermitted, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import cursors
from kwhere.database.engine import writing
from kwhere.ledger.columns import decode_column_page
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import parse_cursor
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.target import Target
from kwhere.transport.http import Answer, HttpClient

CLOCK_HEADER = "x-clock-utc-ns"
PAGES_PER_TURN = 1000
"""Pages read from one agent before it waits for its next turn."""
_AT_ONCE = threading.BoundedSemaphore(4)
"""Pages in work: they are large in memory, and a database has only so many connections."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a turn took in."""

    slots: int = 0
    held_back: int = 0


class LedgerReader:
    """Stands where the books stand. Used by one thread at a time."""

    def __init__(
        self, engine: Engine, booker: PageBooker, clock: Clock, target: Target, client: HttpClient, page_slots: int
    ) -> None:
        self._engine = engine
        self._booker = booker
        self._clock = clock
        self._target = target
        self._client = client
        self._page_slots = page_slots
        self._after: Cursor | None = None
        self._is_known = False
        """Whether `_after` is where the books stand: after a fault it is looked up again."""

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def read_to_end(self, others: Callable[[], Collection[str]], is_over: Callable[[], bool]) -> Taken:
        """Book all that the agent holds. `others` are targets that answer. Raises KwhereError, with whole pages booked.

        CursorMoved: another server was faster.
        """
        slots = held_back = 0
        for _ in range(PAGES_PER_TURN):
            if is_over():
                break
            page = self._read_page(others)
            if page is None:
                continue
            slots, held_back = slots + page.slots, held_back + page.held_back
            if not page.more:
                break
        return Taken(slots, held_back)

    def _read_page(self, others: Callable[[], Collection[str]]) -> "_Page | None":
        if not self._is_known:
            self._after = self._held()
        self._is_known = False
        params = {"limit": str(self._page_slots)}
        if self._after is not None:
            params["after"] = str(self._after)
        answer = self._client.get("/ledger", params=params)
        if answer.status == 410:
            self._skip_lost(answer)
            return None
        if answer.status == 409:
            self._went_back(answer)
            return None
        self._check(answer)
        return self._book(answer, others())

    def _book(self, answer: Answer, others: Collection[str]) -> "_Page":
        now_ns = self._clock.utc_ns()
        with _AT_ONCE:
            page = decode_column_page(answer.body)
            if self._after is not None and page.header.epoch != self._after.epoch:
                raise IntakeRefused(
                    f"{self._target.url}/ledger: asked for epoch {self._after.epoch}, found a page of"
                    f" {page.header.epoch}"
                )
            offset_ns = _clock_offset_ns(answer, now_ns)
            outcome = self._booker.book(Received(self._target, page, now_ns, offset_ns), others)
        moved = outcome.after != self._after
        self._after, self._is_known = outcome.after, True
        return _Page(outcome.booked, outcome.held_back, outcome.more and moved)

    def _held(self) -> Cursor | None:
        with self._engine.connect() as connection:
            row = cursors.find_target(connection, self._target.key)
        return row.cursor if row is not None else None

    def _skip_lost(self, answer: Answer) -> None:
        """The agent no longer holds where we were: record what is lost, go on at its oldest slot."""
        oldest = _problem(answer).get("oldest")
        if not isinstance(oldest, str) or self._after is None:
            raise SourceError(f"{self._target.url}/ledger: expected the oldest cursor, found {answer.text[:80]!r}")
        goes_on = parse_cursor(oldest)
        if goes_on.epoch == self._after.epoch:
            raise SourceError(f"{self._target.url}/ledger: epoch {goes_on.epoch} is said to be gone and to be held")
        with writing(self._engine).begin() as connection:
            row = cursors.find_epoch(connection, self._after.epoch)
            if row is not None and not row.finished:
                cursors.record_lost(connection, row, None, None, self._clock.utc_ns())
                cursors.finish(connection, row.epoch)
        log.error("slots lost", epoch=self._after.epoch, after=self._after.seq, goes_on_at=oldest)
        self._after, self._is_known = goes_on, True

    def _went_back(self, answer: Answer) -> None:
        """The agent's journal ends before our cursor: it is stopped, or, when a person let it go on, passed over."""
        detail = _problem(answer).get("detail") or answer.text[:120]
        after = self._after
        if after is None:
            raise SourceError(f"{self._target.url}/ledger: expected a page, found status 409: {detail}")
        with writing(self._engine).begin() as connection:
            row = cursors.find_epoch(connection, after.epoch)
            resumed = row is not None and row.stopped is None and row.digest is None and row.seq > 0
            if resumed:
                cursors.finish(connection, after.epoch)
        if not resumed:
            reason = f"epoch {after.epoch}: we hold slot {after.seq}, the agent's journal went back: {detail}"
            self._booker.stop(after.epoch, reason)
            raise IntakeRefused(f"{self._target.url}/ledger: {reason}")
        self._after, self._is_known = None, True

    def _check(self, answer: Answer) -> None:
        """Raise what an answer that is no page stands for."""
        if answer.status == 200:
            return
        place = f"{self._target.url}/ledger"
        detail = _problem(answer).get("detail") or answer.text[:120]
        if answer.status in (401, 403):
            raise NotPermitted(f"{place}: the agent refuses our credentials: {detail}")
        if answer.status in (429, 502, 503, 504):
            raise Unavailable("busy", f"{place}: {detail}")
        raise SourceError(f"{place}: expected status 200, found {answer.status}: {detail}")


@dataclass(frozen=True, slots=True)
class _Page:
    slots: int
    held_back: int
    more: bool


def _problem(answer: Answer) -> dict[str, object]:
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _clock_offset_ns(answer: Answer, now_ns: int) -> int | None:
    """Return the agent's clock less ours, the answer's way taken as half of its time."""
    text = answer.headers.get(CLOCK_HEADER, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        return None
    return int(text) - (now_ns - int(answer.elapsed_seconds / 2 * NANOSECONDS_PER_SECOND))
