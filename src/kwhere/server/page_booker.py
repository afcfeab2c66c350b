"""Taking one page in, exactly once: which slots are new, which are lost, which must wait, and whose journal it is."""

import threading
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection, Engine

from kwhere.core.errors import IntakeRefused
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Flag
from kwhere.database import booking, cursors, nodes
from kwhere.database.cursors import CursorRow
from kwhere.database.engine import SQLITE, writing
from kwhere.database.grid import Grid
from kwhere.database.identities import NodeRow, RunRegistry, ensure_node
from kwhere.database.nodes import PullFacts
from kwhere.database.retention import buckets_from
from kwhere.database.sums import HeldBack, PageSums
from kwhere.ledger.columns import ColumnLine, ColumnPage
from kwhere.ledger.pages import Cursor, PageHeader
from kwhere.ledger.wire import LARGEST_INTEGER
from kwhere.server.aggregate import aggregate
from kwhere.server.checks import Limits, fault_of, residuals
from kwhere.server.target import Target

CLOCK_TOLERANCE_NS = 2 * NANOSECONDS_PER_SECOND

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
    after: Cursor
    """Where to go on."""
    more: bool
    """Whether the agent may have more to tell at once."""


class JournalStopped(IntakeRefused):
    """The journal broke its word, and is not read until a person says so; `epoch` says which."""

    def __init__(self, epoch: str, message: str) -> None:
        super().__init__(message)
        self.epoch = epoch


class PageBooker:
    """Books pages into one database. Thread-safe: SQLite's writers queue here, PostgreSQL's in the database."""

    def __init__(self, engine: Engine, grid: Grid, pull_seconds: float) -> None:
        self._engine = writing(engine)
        self._grid = grid
        self._pull_seconds = pull_seconds
        self._registry = RunRegistry()
        self._turn = threading.Lock() if engine.dialect.name == SQLITE else None

    def book(self, received: Received, active_targets: Collection[str] = ()) -> Outcome:
        """Take a page in. Raises IntakeRefused, with nothing booked; JournalStopped also stops the journal."""
        node_id: int | None = None
        try:
            with self._turn or nullcontext(), self._engine.begin() as connection:
                node = ensure_node(connection, received.target.cluster, received.page.header.node)
                node_id = node.id
                return self._book(connection, node, received, active_targets)
        except BaseException as error:
            if node_id is not None:
                self._registry.forget(node_id)
            if isinstance(error, JournalStopped):
                self.stop(error.epoch, str(error))
            raise

    def stop(self, epoch: str, reason: str) -> None:
        """Stop reading a journal, loudly and once."""
        with self._turn or nullcontext(), self._engine.begin() as connection:
            news = cursors.stop(connection, epoch, reason)
        if news:
            _log.error("journal stopped", epoch=epoch, reason=reason)

    def _book(
        self, connection: Connection, node: NodeRow, received: Received, active_targets: Collection[str]
    ) -> Outcome:
        header = received.page.header
        _check_node(received)
        row = cursors.find_epoch(connection, header.epoch)
        if row is None:
            row = _open(connection, node, received)
        elif row.stopped is not None:
            raise IntakeRefused(f"epoch {row.epoch} is stopped: {row.stopped}")
        elif row.target != received.target.key:
            _take_over(connection, row, received.target, active_targets)
        lines = _new_lines(connection, row, received.page)
        sums = self._sort(lines, received)
        if lines:
            row = _advance(connection, row, lines, received.now_ns)
            turn = booking.Booking(node, row.epoch, received.now_ns, self._grid, buckets_from(connection))
            booking.book(connection, turn, sums, self._registry)
        nodes.record_pull(connection, node.id, _facts(received, self._pull_seconds))
        after = _go_on(connection, row, header, received)
        return Outcome(len(sums.slots), len(sums.held_back), after, after != row.cursor or bool(lines))

    def _sort(self, lines: Sequence[ColumnLine], received: Received) -> PageSums:
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
            _log.warning("slot held back", node=received.page.header.node, seq=slot.seq, reason=reason)
        is_off = abs(received.clock_offset_ns or 0) > CLOCK_TOLERANCE_NS
        aggregate(good, sums, frozenset({Flag.CLOCK}) if is_off else frozenset())
        return sums


def _check_node(received: Received) -> None:
    expected, found = received.target.node, received.page.header.node
    if expected is not None and expected != found:
        raise IntakeRefused(f"target {received.target.url}: expected node {expected}, found {found}")


def _open(connection: Connection, node: NodeRow, received: Received) -> CursorRow:
    """Open the epoch of a journal that is new to us: from its oldest slot, if no other speaks for that time."""
    header, lines = received.page.header, received.page.lines
    first = lines[0].slot.seq if lines else (header.oldest or 1)
    row = CursorRow(
        epoch=header.epoch,
        node_id=node.id,
        journal=header.epoch,
        seq=first - 1,
        digest=None,
        finished=False,
        target=received.target.key,
        machine_id=header.machine_id,
        boot_id=header.boot_id,
        first_start_ns=None,
        newest_end_ns=None,
        stopped=None,
    )
    before = cursors.predecessor(connection, row)
    cursors.open_epoch(connection, row, received.now_ns)
    if before is not None:
        _log.warning("another journal follows", node=header.node, epoch=row.epoch, before=before.epoch)
    return row


def _take_over(connection: Connection, row: CursorRow, target: Target, active_targets: Collection[str]) -> None:
    if row.target in active_targets:
        raise IntakeRefused(f"epoch {row.epoch} is served by two targets: {row.target} and {target.key}")
    cursors.adopt(connection, row.epoch, target.key)
    _log.warning("journal is served elsewhere", epoch=row.epoch, before=row.target, now=target.key)


def _new_lines(connection: Connection, row: CursorRow, page: ColumnPage) -> Sequence[ColumnLine]:
    """Return the slots past the cursor. Those before must be the ones we know."""
    known = [line for line in page.lines if line.slot.seq <= row.seq]
    if known:
        digests = cursors.digests(connection, row.epoch, [line.slot.seq for line in known])
        for line in known:
            if digests.get(line.slot.seq, line.line.digest) != line.line.digest:
                raise JournalStopped(row.epoch, f"slot {line.slot.seq} of epoch {row.epoch} is not the one we booked")
    newest = page.header.newest
    if newest is not None and newest < row.seq:
        raise JournalStopped(row.epoch, f"epoch {row.epoch}: we hold slot {row.seq}, the agent only {newest}")
    return page.lines[len(known) :]


def _advance(connection: Connection, row: CursorRow, lines: Sequence[ColumnLine], now_ns: int) -> CursorRow:
    first, last = lines[0], lines[-1]
    start_ns = min(line.slot.start_ns for line in lines)
    end_ns = max(line.slot.end_ns for line in lines)
    other = cursors.overlapping(connection, row, start_ns, end_ns)
    if other is not None:
        raise IntakeRefused(
            f"epoch {row.epoch}: another journal of the same machine or node, epoch {other.epoch} of {other.target},"
            " speaks for the same time; a cloned machine needs its own machine-id"
        )
    if first.slot.seq > row.seq + 1:
        cursors.record_lost(connection, row, first.slot.seq - 1, first.slot.start_ns, now_ns)
        _log.error("slots lost", epoch=row.epoch, first=row.seq + 1, last=first.slot.seq - 1)
    elif row.digest is not None and first.line.prev != row.digest:
        raise JournalStopped(
            row.epoch, f"slot {first.slot.seq} of epoch {row.epoch} does not follow the slot we hold: it was rewritten"
        )
    cursors.advance(connection, row, last.slot.seq, last.line.digest, start_ns, end_ns)
    return replace(row, seq=last.slot.seq, digest=last.line.digest, newest_end_ns=end_ns)


def _go_on(connection: Connection, row: CursorRow, header: PageHeader, received: Received) -> Cursor:
    """Return where to go on; opens the following epoch only when this one is read to its end."""
    following = header.epochs[header.epochs.index(header.epoch) + 1 :]
    if not following or row.seq < (header.newest or 0):
        return row.cursor
    cursors.finish(connection, row.epoch)
    known = cursors.find_epoch(connection, following[0])
    if known is not None:
        return known.cursor
    opened = replace(row, epoch=following[0], seq=0, finished=False, first_start_ns=None, newest_end_ns=None)
    cursors.open_epoch(connection, opened, received.now_ns)
    return opened.cursor


def _facts(received: Received, pull_seconds: float) -> PullFacts:
    header = received.page.header
    return PullFacts(
        pull_ns=received.now_ns,
        pull_seconds=pull_seconds,
        clock_offset_ns=received.clock_offset_ns,
        parent=header.parent,
        slot_seconds=header.slot_seconds,
        cpus=header.cpus,
        version=header.version,
        idle_policy=header.idle_policy,
    )
