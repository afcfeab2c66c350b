"""Taking one page in, exactly once: rows and cursor in one transaction."""

import threading
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection, Engine

from kwhere.core.errors import IntakeRefused
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Flag
from kwhere.database import booking, cursors, nodes
from kwhere.database.engine import SQLITE, writing
from kwhere.database.grid import Grid
from kwhere.database.identities import NodeRow, RunRegistry, ensure_node
from kwhere.database.nodes import PullFacts
from kwhere.database.retention import buckets_from
from kwhere.database.sums import HeldBack, PageSums
from kwhere.ledger.columns import ColumnLine, ColumnPage
from kwhere.ledger.pages import Cursor
from kwhere.ledger.wire import LARGEST_INTEGER
from kwhere.server.aggregate import aggregate
from kwhere.server.checks import Limits, check_header, fault_of, residuals
from kwhere.server.journal_follower import Follower, JournalStopped, News
from kwhere.server.target import Target

CLOCK_TOLERANCE_SECONDS = 2.0
__all__ = ["JournalStopped", "Outcome", "PageBooker", "Received"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A page as it came, with the circumstances."""

    target: Target
    page: ColumnPage
    now_ns: int
    clock_offset_ns: int | None = None
    """Node's clock less ours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a page did."""

    booked: int
    """Slots."""
    held_back: int
    after: Cursor | None
    """Where to go on; None: there is nothing yet."""
    more: bool
    """Whether the agent may have more to tell at once."""


class PageBooker:
    """Books pages into one database. Thread-safe: SQLite's writers queue here, PostgreSQL's in the database."""

    def __init__(
        self, engine: Engine, grid: Grid, pull_seconds: float, clock_tolerance_seconds: float = CLOCK_TOLERANCE_SECONDS
    ) -> None:
        self._engine = writing(engine)
        self._grid = grid
        self._pull_seconds = pull_seconds
        self._tolerance_ns = int(clock_tolerance_seconds * NANOSECONDS_PER_SECOND)
        self._registry = RunRegistry()
        self._turn = threading.Lock() if engine.dialect.name == SQLITE else None

    def book(self, received: Received, active_targets: Collection[str] = ()) -> Outcome:
        """Take a page in. Raises IntakeRefused, with nothing booked; JournalStopped also stops the journal."""
        _check_node(received)
        check_header(received.page.header)
        node_id: int | None = None
        news = News()
        try:
            with self._turn or nullcontext(), self._engine.begin() as connection:
                node = ensure_node(connection, received.target.cluster, received.page.header.node)
                node_id = node.id
                outcome = self._book(connection, node, received, active_targets, news)
        except BaseException as error:
            if node_id is not None:
                self._registry.forget(node_id)
            if isinstance(error, JournalStopped):
                self.stop(error.epoch, str(error))
            raise
        news.tell()
        return outcome

    def stop(self, epoch: str, reason: str) -> None:
        """Stop reading a journal, loudly and once."""
        with self._turn or nullcontext(), self._engine.begin() as connection:
            news = cursors.stop(connection, epoch, reason)
        if news:
            _log.error("journal stopped", epoch=epoch, reason=reason)

    def _book(
        self, connection: Connection, node: NodeRow, received: Received, active_targets: Collection[str], news: News
    ) -> Outcome:
        page = received.page
        nodes.record_pull(connection, node.id, self._facts(received))
        if page.header.newest is None:
            return Outcome(0, 0, None, more=False)
        follower = Follower(connection, received.target, node.id, received.now_ns, news)
        row = follower.find(page, active_targets)
        lines = follower.new_lines(row, page)
        sums = self._sort(lines, received, news)
        if lines:
            row = follower.advance(row, lines, page.header)
            turn = booking.Booking(node, row.epoch, received.now_ns, self._grid, buckets_from(connection))
            booking.book(connection, turn, sums, self._registry)
        after = follower.go_on(row, page.header)
        return Outcome(len(sums.slots), len(sums.held_back), after, after != row.cursor or bool(lines))

    def _sort(self, lines: Sequence[ColumnLine], received: Received, news: News) -> PageSums:
        limits = Limits.of(received.page.header, received.target.ceiling_mw)
        sums, good = PageSums(), []
        for line in lines:
            reason = fault_of(line, limits, received.now_ns)
            if reason is None:
                good.append(line)
                continue
            slot, off_uj = line.slot, sum(map(abs, residuals(line).values()))
            held = HeldBack(slot.seq, slot.start_ns, slot.end_ns, reason, min(off_uj, LARGEST_INTEGER), line.line.raw)
            sums.held_back.append(held)
            news.warn("slot held back", node=received.page.header.node, seq=slot.seq, reason=reason)
        is_off = abs(received.clock_offset_ns or 0) > self._tolerance_ns
        aggregate(good, sums, frozenset({Flag.CLOCK}) if is_off else frozenset())
        return sums

    def _facts(self, received: Received) -> PullFacts:
        header = received.page.header
        return PullFacts(
            pull_ns=received.now_ns,
            pull_seconds=self._pull_seconds,
            clock_offset_ns=received.clock_offset_ns,
            parent=header.parent,
            slot_seconds=header.slot_seconds,
            cpus=header.cpus,
            version=header.version,
            idle_policy=header.idle_policy,
        )


def _check_node(received: Received) -> None:
    target, found = received.target, received.page.header.node
    if not target.may_serve(found):
        raise IntakeRefused(f"target {target.url}: expected a page of node {target.expected_node()}, found {found}")
