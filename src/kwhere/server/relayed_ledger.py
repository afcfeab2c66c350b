"""One node's ledger as this server took it in, in pages for another server: the lines unchanged, so that they chain."""

import json
from dataclasses import replace

from sqlalchemy import Connection, Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import NotFound, SourceError
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import relayed
from kwhere.database.relayed import RelayedEpoch
from kwhere.ledger.epoch_facts import EpochFacts, page_header
from kwhere.ledger.journal_reader import JournalPage
from kwhere.ledger.pages import Cursor, PageHeader
from kwhere.ledger.wire import digest

MAX_PAGE_BYTES = 8 << 20
UNKNOWN_FOR_NS = 3600 * NANOSECONDS_PER_SECOND
"""How long the other server may stand in an epoch that we have not: a database that was restored is refilled."""


class RelayedLedger:
    """Pages of one node. Raises Unavailable where the database does not answer."""

    def __init__(self, engine: Engine, node_id: int, clock: Clock) -> None:
        self._engine = engine
        self._node_id = node_id
        self._clock = clock
        self._unknown: tuple[str, int] | None = None
        """An epoch we do not know and when we first heard of it."""

    def question(self) -> JournalPage | None:
        """Return a page that only asks where the other server stands; None: there is nothing to tell it of."""
        with self._engine.connect() as connection:
            epochs = _readable(relayed.find_epochs(connection, self._node_id))
        return JournalPage(_header(epochs[-1], (epochs[-1].epoch,), None), ()) if epochs else None

    def opening(self) -> JournalPage:
        """Return a page without slots that begins a node: what is gone here already is then lost, not passed over."""
        with self._engine.connect() as connection:
            first, *_ = _readable(relayed.find_epochs(connection, self._node_id))
        return JournalPage(_header(first, (first.epoch,), (1, first.seq)), ())

    def read(self, after: Cursor | None, limit: int) -> JournalPage:
        """Return slots after the cursor, of the first epoch that has some.

        Raises NotFound, at first SourceError, if its epoch was never taken in here.
        """
        with self._engine.connect() as connection:
            epochs = _readable(relayed.find_epochs(connection, self._node_id))
            at = self._index_of(epochs, after)
            for index in range(at, len(epochs)):
                seq = after.seq if after is not None and index == at else 0
                lines = _take(connection, epochs[index].epoch, seq, limit)
                if lines:
                    return _page(epochs[index], _sent_whole(epochs[at], after) if index > at else None, lines)
        return JournalPage(_header(epochs[-1], (epochs[-1].epoch,), None), ())

    def pulled(self, cursor: Cursor) -> None:
        """Nothing is kept of it: the other server is asked."""

    def _index_of(self, epochs: list[RelayedEpoch], after: Cursor | None) -> int:
        if after is None:
            return 0
        for index, epoch in enumerate(epochs):
            if epoch.epoch == after.epoch:
                self._unknown = None
                return index
        now_ns = self._clock.monotonic_ns()
        if self._unknown is None or self._unknown[0] != after.epoch:
            self._unknown = (after.epoch, now_ns)
        if now_ns - self._unknown[1] < UNKNOWN_FOR_NS:
            raise SourceError(f"the other server stands at {after}, of an epoch that was not taken in here (yet)")
        raise NotFound(f"cursor {after}: its epoch was not taken in here")


def _readable(epochs: list[RelayedEpoch]) -> list[RelayedEpoch]:
    return [epoch for epoch in epochs if epoch.facts is not None]


def _sent_whole(epoch: RelayedEpoch, after: Cursor | None) -> RelayedEpoch | None:
    return epoch if after is not None and after.seq >= epoch.seq and epoch.digest is not None else None


def _take(connection: Connection, epoch: str, seq: int, limit: int) -> list[tuple[int, bytes]]:
    """Return lines that follow one another; a page must not have a hole or a break in it."""
    taken: list[tuple[int, bytes]] = []
    size = 0
    for number, line in relayed.lines_after(connection, epoch, seq, limit):
        size += len(line)
        if taken and (size > MAX_PAGE_BYTES or number != taken[-1][0] + 1 or not _follows(line, taken[-1][1])):
            break
        taken.append((number, line))
    return taken


def _follows(line: bytes, before: bytes) -> bool:
    return bool(json.loads(line)["prev"] == digest(before))


def _page(epoch: RelayedEpoch, before: RelayedEpoch | None, lines: list[tuple[int, bytes]]) -> JournalPage:
    first, last = lines[0][0], lines[-1][0]
    epochs: tuple[str, ...] = (epoch.epoch,)
    if before is not None and first == 1 and json.loads(lines[0][1])["prev"] == before.digest:
        # Nothing is gone in between. Without the epoch before, the other server records what it misses as lost.
        epochs = (before.epoch, epoch.epoch)
    header = _header(epoch, epochs, (first, max(last, epoch.seq)))
    return JournalPage(replace(header, next=str(Cursor(epoch.epoch, last))), tuple(line for _, line in lines))


def _header(epoch: RelayedEpoch, epochs: tuple[str, ...], held: tuple[int, int] | None) -> PageHeader:
    assert epoch.facts is not None
    facts = EpochFacts.from_json(epoch.facts)
    return page_header(facts, epoch.epoch, epochs=epochs, held=held, next_cursor=None)
