"""The intake: every agent's ledger pulled, page by page, into the database; one agent's fault delays no other."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, NotPermitted, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.cursors import CursorMoved
from kwhere.database.nodes import record_target_failure
from kwhere.server.ledger_reader import LedgerReader, Taken
from kwhere.server.page_booker import PageBooker
from kwhere.server.settings import ServerSettings
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient

MOST_BACK_OFF_SECONDS = 300.0
STOP_SECONDS = 1.8
TICK_SECONDS = 0.2

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Line:
    """What is remembered of one target between pulls, under the lock; `reader` is its pull's alone."""

    target: Target
    reader: LedgerReader | None = None
    due_ns: int = 0
    failures: int = 0
    was_read: bool = False
    is_busy: bool = False
    is_gone: bool = False
    fault: str | None = None


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
        self._queue: SimpleQueue[_Line | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.counts = IntakeCounts()

    @property
    def faults(self) -> Mapping[str, str]:
        """Return, by target's key, why its last pull failed; of those that went well nothing."""
        with self._lock:
            return {line.target.key: line.fault for line in self._lines.values() if line.fault is not None}

    def start(self) -> None:
        """Read on, in threads of its own."""
        names = ["intake", *(f"pull-{number}" for number in range(self._settings.workers))]
        for name in names:
            work = self._dispatch if name == "intake" else self._work
            # Daemons: one that waits for a dead host must not hold up the end; what it had begun is rolled back.
            thread = threading.Thread(target=work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End within two seconds; a page that is being booked is finished if it is quick, else rolled back."""
        self._over.set()
        for _ in self._threads:
            self._queue.put(None)
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            lines = list(self._lines.values())
        for line in lines:
            if line.reader is not None and not line.is_busy:
                line.reader.close()

    def pull_all(self) -> None:
        """Read every target that is due to its end, once. Never raises for a target."""
        with ThreadPoolExecutor(self._settings.workers, "pull") as pool:
            list(pool.map(self._pull, self._due(limited=False)))

    def _dispatch(self) -> None:
        while not self._over.wait(min(TICK_SECONDS, self._settings.pull_seconds)):
            for line in self._due(limited=True):
                self._queue.put(line)

    def _work(self) -> None:
        while (line := self._queue.get()) is not None:
            if not self._over.is_set():
                self._pull(line)

    def _due(self, *, limited: bool) -> list[_Line]:
        """Return the lines whose turn it is, marked busy. Those that failed last get half of the workers at most."""
        current = self._targets()
        with self._lock:
            gone = [self._lines.pop(target) for target in self._lines.keys() - set(current)]
            for target in current:
                self._lines.setdefault(target, _Line(target))
            now_ns = self._clock.monotonic_ns()
            due = [line for line in self._lines.values() if line.due_ns <= now_ns and not line.is_busy]
            if limited:
                due = self._without_most_failing(due)
            for line in due:
                line.is_busy = True
        for line in gone:
            self._let_go(line)
        return due

    def _without_most_failing(self, due: list[_Line]) -> list[_Line]:
        under_way = sum(line.is_busy and line.failures > 0 for line in self._lines.values())
        room = max(1, self._settings.workers // 2) - under_way
        failing = [line for line in due if line.failures > 0]
        return [line for line in due if line.failures == 0] + failing[: max(0, room)]

    def _let_go(self, line: _Line) -> None:
        """Forget a target that is no longer one; a pull under way ends by itself."""
        with self._lock:
            line.is_gone = True
            self._failures.recovered(line.target.key)
            close = not line.is_busy
        if close and line.reader is not None:
            line.reader.close()

    def _pull(self, line: _Line) -> None:
        try:
            taken = self._read(line)
        except CursorMoved:
            self._went_well(line, Taken())  # another server on this database was faster
        except KwhereError as error:
            self._failed(line, f"{error}{_hint(line.target, error)}")
        except Exception as error:  # noqa: BLE001 - the one runner of a pull: a target's fault stays its own
            self._failed(line, f"{type(error).__name__}: {error}")
        else:
            self._went_well(line, taken)
        with self._lock:
            line.is_busy = False
            close = line.is_gone or self._over.is_set()
        if close and line.reader is not None:
            line.reader.close()

    def _read(self, line: _Line) -> Taken:
        if line.reader is None:
            client = self._connect(line.target)
            line.reader = LedgerReader(
                self._engine, self._booker, self._clock, line.target, client, self._settings.page_slots
            )
        return line.reader.read_to_end(lambda: self._others_of(line), self._over.is_set)

    def _others_of(self, line: _Line) -> set[str]:
        """Return keys of the other targets that answer: what one of them serves is not ours to go on with."""
        with self._lock:
            return {
                other.target.key
                for other in self._lines.values()
                if other is not line and other.was_read and other.failures == 0
            }

    def _failed(self, line: _Line, fault: str) -> None:
        now_ns = self._clock.monotonic_ns()
        target = line.target
        with self._lock:
            line.failures += 1
            line.fault = fault
            back_off_s = min(self._settings.pull_seconds * 2 ** min(line.failures - 1, 10), MOST_BACK_OFF_SECONDS)
            line.due_ns = now_ns + int(back_off_s * NANOSECONDS_PER_SECOND)
            self._count(Taken(), pulls=0, failures=1)
            times = None if line.is_gone or self._over.is_set() else self._failures.failed(target.key, fault, now_ns)
        if times is not None:
            log.warning("pull failed", target=target.url, cluster=target.cluster, fault=fault, times=times)
            self._note(target, fault)

    def _note(self, target: Target, fault: str) -> None:
        try:
            record_target_failure(self._engine, target.key, fault, self._clock.utc_ns())
        except Exception as error:  # noqa: BLE001 - the database may be what failed
            log.warning("fault of a pull could not be noted", target=target.url, fault=str(error))

    def _went_well(self, line: _Line, taken: Taken) -> None:
        with self._lock:
            line.failures, line.fault, line.was_read = 0, None, True
            line.due_ns = self._clock.monotonic_ns() + int(self._settings.pull_seconds * NANOSECONDS_PER_SECOND)
            self._count(taken, pulls=1, failures=0)
            back = self._failures.recovered(line.target.key)
        if back:
            log.info("pull works again", target=line.target.url, cluster=line.target.cluster)

    def _count(self, taken: Taken, pulls: int, failures: int) -> None:
        old = self.counts
        self.counts = IntakeCounts(
            old.pulls + pulls, old.failures + failures, old.slots + taken.slots, old.held_back + taken.held_back
        )


def _hint(target: Target, error: KwhereError) -> str:
    """Return what to do about an agent that wants credentials which it is not shown."""
    wants = isinstance(error, NotPermitted) or (isinstance(error, Unavailable) and error.reason in ("closed", "tls"))
    if target.may_see_credentials or not wants:
        return ""
    return f"; discovery alone named this host, so it is shown no credentials: see `hosts` of group {target.group}"
