"""The intake: every agent's ledger pulled, page by page, into the database; one agent's fault delays no other."""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import IntakeRefused, KwhereError, NotPermitted, SourceError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import cursors
from kwhere.database.engine import writing
from kwhere.ledger.columns import decode_column_page
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import parse_cursor
from kwhere.server.page_booker import PageBooker, Received
from kwhere.server.settings import ServerSettings
from kwhere.server.target import Target
from kwhere.transport.http import Answer, HttpClient

CLOCK_HEADER = "x-clock-utc-ns"
MOST_BACK_OFF_SECONDS = 300.0
PAGES_PER_TURN = 1000
"""Pages read from one agent before others have their turn again."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Line:
    """What is remembered of one target between pulls."""

    client: HttpClient | None = None
    after: Cursor | None = None
    is_known: bool = False
    """Whether `after` was looked up in the database."""
    due_ns: int = 0
    failures: int = 0
    busy: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class IntakeCounts:
    """What was taken in since the start."""

    pulls: int = 0
    failures: int = 0
    slots: int = 0
    held_back: int = 0


class Intake:
    """Reads targets in turn with a few workers. `targets` is asked before each round; `connect` once per target."""

    def __init__(
        self,
        engine: Engine,
        booker: PageBooker,
        clock: Clock,
        settings: ServerSettings,
        targets: Callable[[], Sequence[Target]],
        connect: Callable[[Target], HttpClient],
    ) -> None:
        self._engine = engine
        self._booker = booker
        self._clock = clock
        self._settings = settings
        self._targets = targets
        self._connect = connect
        self._lines: dict[Target, _Line] = {}
        self._failures = FailureMemory()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.counts = IntakeCounts()

    def start(self) -> None:
        """Read on, from a thread of its own."""
        self._thread = threading.Thread(target=self._read_on, name="intake", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End soon; a page that is being booked is finished."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(2.0)
        for line in self._lines.values():
            if line.client is not None:
                line.client.close()

    def pull_all(self) -> None:
        """Read every target that is due to its end, once. Never raises for a target."""
        with ThreadPoolExecutor(self._settings.workers, "pull") as pool:
            list(pool.map(self._pull, self._due()))

    def _read_on(self) -> None:
        with ThreadPoolExecutor(self._settings.workers, "pull") as pool:
            while not self._over.wait(min(0.2, self._settings.pull_seconds)):
                for target in self._due():
                    pool.submit(self._pull, target)

    def _due(self) -> list[Target]:
        current = self._targets()
        with self._lock:
            for gone in self._lines.keys() - set(current):
                client = self._lines.pop(gone).client
                if client is not None:
                    client.close()
            now_ns = self._clock.monotonic_ns()
            lines = [(target, self._lines.setdefault(target, _Line())) for target in current]
            return [target for target, line in lines if line.due_ns <= now_ns and not line.busy.locked()]

    def _pull(self, target: Target) -> None:
        line = self._lines.get(target)
        if line is None or not line.busy.acquire(blocking=False):
            return
        try:
            self._read_to_end(target, line)
        except KwhereError as error:
            self._failed(target, line, str(error))
        except Exception as error:  # noqa: BLE001 - the one runner of a pull: a target's fault stays its own
            self._failed(target, line, f"{type(error).__name__}: {error}")
        else:
            self._went_well(target, line)
        finally:
            line.busy.release()

    def _read_to_end(self, target: Target, line: _Line) -> None:
        if line.client is None:
            line.client = self._connect(target)
        if not line.is_known:
            line.after, line.is_known = self._held(target), True
        for _ in range(PAGES_PER_TURN):
            if self._over.is_set() or not self._read_page(target, line):
                return

    def _read_page(self, target: Target, line: _Line) -> bool:
        """Read and book one page; return whether there may be more at once."""
        assert line.client is not None
        params = {"limit": str(self._settings.page_slots)}
        if line.after is not None:
            params["after"] = str(line.after)
        answer = line.client.get("/ledger", params=params)
        now_ns = self._clock.utc_ns()
        if answer.status == 410:
            self._skip_lost(line, answer)
            return True
        _check(target, line, answer)
        page = decode_column_page(answer.body)
        received = Received(target, page, now_ns, _clock_offset_ns(answer, now_ns))
        active = {other.key for other, each in self._lines.items() if other != target and each.failures == 0}
        try:
            outcome = self._booker.book(received, active)
        except IntakeRefused:
            line.is_known = False  # another reader may have moved on: look again where the books stand
            raise
        moved = outcome.after != line.after
        line.after = outcome.after
        self._count(slots=outcome.booked, held_back=outcome.held_back)
        return outcome.more and (moved or bool(page.lines))

    def _held(self, target: Target) -> Cursor | None:
        with self._engine.connect() as connection:
            row = cursors.find_target(connection, target.key)
        return row.cursor if row is not None else None

    def _skip_lost(self, line: _Line, answer: Answer) -> None:
        """The agent no longer holds where we were: record what is lost, go on at its oldest slot."""
        oldest = _problem(answer).get("oldest")
        if not isinstance(oldest, str) or line.after is None:
            raise SourceError(f"ledger: expected the oldest cursor held, found {answer.text[:80]!r}")
        with writing(self._engine).begin() as connection:
            row = cursors.find_epoch(connection, line.after.epoch)
            if row is not None:
                cursors.record_lost(connection, row, None, None, self._clock.utc_ns())
                cursors.finish(connection, row.epoch)
        log.error("slots lost", epoch=line.after.epoch, after=line.after.seq, goes_on_at=oldest)
        line.after = parse_cursor(oldest)

    def _failed(self, target: Target, line: _Line, fault: str) -> None:
        line.failures += 1
        back_off_s = min(self._settings.pull_seconds * 2 ** min(line.failures - 1, 10), MOST_BACK_OFF_SECONDS)
        line.due_ns = self._clock.monotonic_ns() + int(back_off_s * NANOSECONDS_PER_SECOND)
        self._count(failures=1)
        with self._lock:
            times = self._failures.failed(target.key, fault, self._clock.monotonic_ns())
        if times is not None:
            log.warning("pull failed", target=target.url, cluster=target.cluster, fault=fault, times=times)

    def _went_well(self, target: Target, line: _Line) -> None:
        line.failures = 0
        line.due_ns = self._clock.monotonic_ns() + int(self._settings.pull_seconds * NANOSECONDS_PER_SECOND)
        self._count(pulls=1)
        with self._lock:
            back = self._failures.recovered(target.key)
        if back:
            log.info("pull works again", target=target.url, cluster=target.cluster)

    def _count(self, *, pulls: int = 0, failures: int = 0, slots: int = 0, held_back: int = 0) -> None:
        with self._lock:
            old = self.counts
            self.counts = IntakeCounts(
                old.pulls + pulls, old.failures + failures, old.slots + slots, old.held_back + held_back
            )


def _check(target: Target, line: _Line, answer: Answer) -> None:
    """Raise what an answer that is no page stands for."""
    if answer.status == 200:
        return
    detail = _problem(answer).get("detail") or answer.text[:120]
    if answer.status in (401, 403):
        raise NotPermitted(f"{target.url}/ledger: the agent refuses our credentials: {detail}")
    if answer.status == 409:
        line.is_known = False
        raise IntakeRefused(f"{target.url}/ledger: the agent's journal went back behind {line.after}: {detail}")
    if answer.status == 503:
        raise Unavailable("busy", f"{target.url}/ledger: {detail}")
    raise SourceError(f"{target.url}/ledger: expected status 200, found {answer.status}: {detail}")


def _problem(answer: Answer) -> dict[str, object]:
    try:
        document = json.loads(answer.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _clock_offset_ns(answer: Answer, now_ns: int) -> int | None:
    """Return the agent's clock less ours, the answer's way taken as half of its time."""
    text = answer.headers.get(CLOCK_HEADER, "")
    if not text.isdecimal():
        return None
    return int(text) - (now_ns - int(answer.elapsed_seconds / 2 * NANOSECONDS_PER_SECOND))
