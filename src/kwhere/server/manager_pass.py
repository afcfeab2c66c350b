"""The pass that reads one resource manager: its units into the account, its queue, accounts and nodes beside them.

How far it got is kept. A window is noted as good only once it is written, so what fails is asked for again, an outage
is made up for from where it began, and each look goes back a little: managers write late. A manager that pushes is
heard from where it was heard last instead (`watched_units`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError
from kwhere.core.managed import Queue
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.database.claims import ClaimCounts, ClaimTurn, claim_waiting, oldest_waiting
from kwhere.database.grid import from_ns, to_ns
from kwhere.database.managed_units import write_accounts, write_nodes, write_units
from kwhere.database.manager_states import ManagerState, manager_state, note_error, note_good
from kwhere.database.vanished import Living, end_vanished
from kwhere.database.waiting import write_queue
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.resource_manager import QueueingManager, WatchingManager
from kwhere.server.passes import Turn
from kwhere.server.told_units import ToldUnits
from kwhere.server.watched_units import BATCH, hear

DEEP_SECONDS = 3600
"""How often the manager is asked again about the time of runs that it did not know."""
MENDED_SECONDS = 300
"""So long after a failure that time is asked for once more: what was held back meanwhile has then been written."""

LOOK_SECONDS = 60
"""A look that took so long is broken off after the span it is at: other passes wait for it."""
MOST_INTERVALS = 10

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Look:
    """What one look at a manager may still ask, and what it found."""

    spans_left: int
    until_ns: int
    """Monotonic."""
    counts: ClaimCounts = field(default_factory=ClaimCounts)
    told: ToldUnits = field(default_factory=ToldUnits)
    is_whole: bool = True
    """Whether everything up to now was read."""


class ManagerPass:
    """Reads one manager of one cluster, as often as its settings say."""

    def __init__(self, engine: Engine, manager: BuiltManager, clock: Clock) -> None:
        self.name = f"manager {manager.settings.cluster} {manager.source.name}"
        self._engine = engine
        self._manager = manager
        self._settings = manager.settings
        self._clock = clock
        self._due_ns = 0
        self._deep_ns = 0
        self._deep: Iterator[Span] = iter(())
        self._has_failed = False
        self._is_behind = False

    def is_due(self) -> bool:
        """Return whether its time has come."""
        return self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Read what is new. Raises KwhereError, after noting it; the same span is then read again."""
        began_ns = self._clock.monotonic_ns()
        try:
            self._run(turn)
        finally:
            self._due_ns = began_ns + self._rest_ns(self._clock.monotonic_ns() - began_ns)

    def _rest_ns(self, took_ns: int) -> int:
        """Return how long after the beginning of a look the next one begins."""
        interval_ns = _ns(self._settings.interval_seconds)
        return max(interval_ns, min(int(took_ns / self._settings.load_ratio), took_ns + MOST_INTERVALS * interval_ns))

    def _run(self, turn: Turn) -> None:
        state = manager_state(self._engine, self._settings.cluster, self._manager.claims)
        work = ClaimTurn(state.cluster_id, self._manager.claims, self._clock.utc_ns())
        try:
            if self._read(work, state, turn) and turn.goes_on():
                self._read_facts(work, state)
        except KwhereError as error:
            self._has_failed = True
            note_error(self._engine, work, str(error))
            raise
        if self._has_failed:
            self._has_failed = False
            self._deep_ns = self._clock.monotonic_ns() + _ns(MENDED_SECONDS)

    def _read_facts(self, work: ClaimTurn, state: ManagerState) -> None:
        if state.facts_ns is None or work.now_ns - state.facts_ns >= _ns(self._settings.facts_seconds):
            write_accounts(self._engine, work, self._manager.source.fetch_accounts())
            write_nodes(self._engine, work, self._manager.source.fetch_nodes())

    def _read(self, work: ClaimTurn, state: ManagerState, turn: Turn) -> bool:
        """Return whether all was read: else somebody stopped us."""
        source = self._manager.source
        if isinstance(source, WatchingManager):
            cursor = None if self._waits_since(work) is not None else state.cursor
            counts = hear(self._engine, source, work, state, cursor)
            queue, fault = self._queue()
        else:
            # The queue comes first: what starts meanwhile is then young, and not taken for lost.
            queue, fault = self._queue()
            living = None
            if queue is not None and queue.living is not None:
                living = Living(work.now_ns, state.heard_ns, queue.living)
            look = self._read_windows(work, self._start(state.good_until_ns, work.now_ns), living, turn)
            if look is None:
                return False
            counts = look.counts
            if living is not None and look.is_whole:
                end_vanished(self._engine, work, living)
        if queue is not None:
            write_queue(self._engine, work, queue.waiting)
        self._tell(counts.plus(claim_waiting(self._engine, work, turn.goes_on)))
        if fault is not None:
            raise fault
        return True

    def _queue(self) -> tuple[Queue | None, KwhereError | None]:
        """A controller that is away keeps nobody from reading the accounting."""
        source = self._manager.source
        if not isinstance(source, QueueingManager):
            return None, None
        try:
            return source.fetch_queue(), None
        except KwhereError as error:
            return None, error

    def _tell(self, counts: ClaimCounts) -> None:
        if counts.claimed or counts.unverified:
            log.info(
                "runs of nodes mapped", server_pass=self.name, claimed=counts.claimed, unverified=counts.unverified
            )

    def _start(self, good_until_ns: int | None, now_ns: int) -> int:
        first_ns = now_ns - _ns(self._settings.backfill_days * 86_400)
        if good_until_ns is None:
            return first_ns
        overlap_ns = 0 if self._is_behind else _ns(self._settings.overlap_seconds)
        return max(first_ns, min(good_until_ns, now_ns) - overlap_ns)

    def _read_windows(self, work: ClaimTurn, start_ns: int, living: Living | None, turn: Turn) -> _Look | None:
        """Return what was read, None where somebody stopped us."""
        look = _Look(self._settings.windows_per_look, self._clock.monotonic_ns() + _ns(LOOK_SECONDS))
        for window in self._windows(start_ns, work.now_ns):
            if not turn.goes_on():
                return None
            if not self._may_ask(look):
                look.is_whole = False
                break
            self._take(work, window, living, look)
            note_good(self._engine, work, to_ns(window.end))
        self._is_behind = not look.is_whole
        if look.is_whole:
            self._look_deep(work, start_ns, living, turn, look)
        return look

    def _may_ask(self, look: _Look) -> bool:
        look.spans_left -= 1
        return look.spans_left >= 0 and self._clock.monotonic_ns() < look.until_ns

    def _windows(self, start_ns: int, end_ns: int) -> Iterator[Span]:
        width_ns = _ns(self._settings.window_hours * 3600)
        end_ns -= end_ns % 1000  # a span knows microseconds
        start_ns -= start_ns % 1000
        while start_ns < end_ns:
            next_ns = min(start_ns + width_ns, end_ns)
            yield Span(from_ns(start_ns), from_ns(next_ns))
            start_ns = next_ns

    def _take(self, work: ClaimTurn, window: Span, living: Living | None, look: _Look) -> None:
        units = look.told.news(self._manager.source.fetch_units(window))
        while batch := list(islice(units, BATCH)):
            look.counts = look.counts.plus(write_units(self._engine, work, batch, living))

    def _waits_since(self, work: ClaimTurn) -> int | None:
        """Return since when runs of nodes wait, now and then: their manager is then asked about that time again."""
        if self._clock.monotonic_ns() < self._deep_ns:
            return None
        self._deep_ns = self._clock.monotonic_ns() + _ns(DEEP_SECONDS)
        return oldest_waiting(self._engine, work)

    def _look_deep(self, work: ClaimTurn, start_ns: int, living: Living | None, turn: Turn, look: _Look) -> None:
        """A manager that was cut off writes of the past once it is back: ask again where runs of nodes wait for it."""
        oldest_ns = self._waits_since(work)
        if oldest_ns is not None and oldest_ns < start_ns:
            self._deep = self._windows(oldest_ns, start_ns)
        while turn.goes_on() and self._may_ask(look):
            window = next(self._deep, None)
            if window is None:
                return
            self._take(work, window, living, look)


def _ns(seconds: float) -> int:
    return int(seconds * NANOSECONDS_PER_SECOND)
