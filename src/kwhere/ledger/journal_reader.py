"""The reading side of a journal: pages as they are served, through a connection of its own."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import NotFound, WireError
from kwhere.ledger.epoch_facts import EpochFacts, page_header
from kwhere.ledger.journal_store import HeldEpoch, JournalStore
from kwhere.ledger.pages import Cursor, PageHeader


@dataclass(frozen=True, slots=True)
class JournalPage:
    """A page ready to be served: its header, and slot lines (without newline) as they were written."""

    header: PageHeader
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RunningEpoch:
    """The epoch that is being written: of its slots, those after `committed_seq` are not to be seen yet."""

    epoch: str
    facts: EpochFacts
    number: int
    committed_seq: int


class JournalReader:
    """Reads pages; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._store: JournalStore | None = None

    def read(self, after: Cursor | None, limit: int, max_bytes: int, running: RunningEpoch) -> JournalPage:
        """Return slots after the cursor: at most `limit`, and at most `max_bytes` of them unless it is one alone.

        Raises NotFound if the cursor's epoch is not held, WireError if it lies past the newest slot.
        """
        with self._lock:
            store = self._opened()
            with store.snapshot():
                epochs = _visible(store.epochs(), running)
                if not epochs:
                    return _nothing_yet(after, running)
                at = _index_of(epochs, after)
                epoch = epochs[at]
                seq = after.seq if after else 0
                if seq > epoch.newest:
                    raise WireError(f"cursor {after}: lies past the newest slot, {epoch.epoch}:{epoch.newest}")
                lines = _take(store, epoch, seq, limit, max_bytes)
                return _page(epochs, at, max(seq, epoch.oldest - 1) if lines else seq, lines)

    def epoch_number(self, epoch: str) -> int | None:
        """Return the number of an epoch that is held."""
        with self._lock:
            return next((held.number for held in self._opened().epochs() if held.epoch == epoch), None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep readers out and the file closed: a connection left on a replaced file could remove the new one's log."""
        with self._lock:
            self._forget()
            yield

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._forget()

    def _opened(self) -> JournalStore:
        if self._store is not None and os.stat(self._path).st_ino != self._store.inode:
            self._forget()
        if self._store is None:
            self._store = JournalStore(self._path, writable=False)
        return self._store

    def _forget(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _visible(epochs: list[HeldEpoch], running: RunningEpoch) -> list[HeldEpoch]:
    """A slot is seen only after its commit was acknowledged."""
    seen = [
        HeldEpoch(e.number, e.epoch, e.facts, e.oldest, min(e.newest, running.committed_seq))
        if e.number == running.number
        else e
        for e in epochs
    ]
    return [epoch for epoch in seen if epoch.newest >= epoch.oldest]


def _nothing_yet(after: Cursor | None, running: RunningEpoch) -> JournalPage:
    if after is not None and after.epoch != running.epoch:
        raise NotFound(f"cursor {after}: its epoch is not held")
    if after is not None and after.seq > 0:
        raise WireError(f"cursor {after}: lies past the newest slot, there is none yet")
    header = page_header(running.facts, running.epoch, epochs=(running.epoch,), held=None, next_cursor=None)
    return JournalPage(header, ())


def _index_of(epochs: list[HeldEpoch], after: Cursor | None) -> int:
    if after is None:
        return 0
    for index, epoch in enumerate(epochs):
        if epoch.epoch == after.epoch:
            return index
    raise NotFound(f"cursor {after}: its epoch is not held, the oldest is {epochs[0].epoch}")


def _take(store: JournalStore, epoch: HeldEpoch, seq: int, limit: int, max_bytes: int) -> tuple[bytes, ...]:
    lines: list[bytes] = []
    size = 0
    for line in store.lines(epoch.number, seq, epoch.newest):
        size += len(line)
        if len(lines) >= limit or (lines and size > max_bytes):
            break
        lines.append(line)
    return tuple(lines)


def _page(epochs: list[HeldEpoch], at: int, before: int, lines: tuple[bytes, ...]) -> JournalPage:
    epoch = epochs[at]
    last = before + len(lines)
    next_cursor = f"{epoch.epoch}:{last}" if lines else None
    if last == epoch.newest and at + 1 < len(epochs):
        next_cursor = f"{epochs[at + 1].epoch}:0"
    header = page_header(
        EpochFacts.from_json(epoch.facts),
        epoch.epoch,
        epochs=tuple(item.epoch for item in epochs),
        held=(epoch.oldest, epoch.newest),
        next_cursor=next_cursor,
    )
    return JournalPage(header, lines)
