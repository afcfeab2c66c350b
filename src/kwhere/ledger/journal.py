"""The durable journal of one node: slots are appended once, chained, and served only after they are committed."""

import os
import threading
import uuid
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import structlog

from kwhere.core.clock import Clock, SystemClock
from kwhere.core.errors import JournalError, WireError
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.ledger.epoch_facts import EpochFacts
from kwhere.ledger.file_system import Durability, file_system_of
from kwhere.ledger.journal_lock import JournalLock
from kwhere.ledger.journal_reader import JournalPage, JournalReader, RunningEpoch
from kwhere.ledger.journal_stats import JournalStats
from kwhere.ledger.journal_store import JournalIdentity, JournalStore, Position, Tail, journal_errors
from kwhere.ledger.pages import Cursor
from kwhere.ledger.repair import without_bad_numbers
from kwhere.ledger.rows import Slot
from kwhere.ledger.settings import JournalSettings
from kwhere.ledger.wire import digest, encode_slot

FILE_NAME = "journal.sqlite"
LOCK_NAME = "journal.lock"
MAX_PAGE_BYTES = 8 * 1024 * 1024
_NS_PER_DAY = 86_400 * NANOSECONDS_PER_SECOND
_AGED_AT_ONCE = 10
"""Few at a time: a clock that stepped ahead, or a node that was off for weeks, must not empty the journal in one go."""
_FATAL_AT_START = frozenset({"network", "locked"})
_SET_ASIDE = frozenset({"corrupt", "foreign"})
_KEEPS_CONNECTION = frozenset({"full", "busy"})

log = structlog.get_logger(__name__)


class Journal:
    """Writes from one thread, reads and counts from any.

    A journal that cannot be written is not fatal: `append` raises JournalError, and works again when the cause is
    gone. One that is damaged or another machine's is set aside and a new one begun, in a new epoch.
    """

    def __init__(
        self, directory: Path, identity: JournalIdentity, facts: EpochFacts, settings: JournalSettings, clock: Clock
    ) -> None:
        self._directory = directory
        self._path = directory / FILE_NAME
        self._identity = identity
        self._facts = facts
        self._settings = settings
        self._clock = clock
        self._file_lock = JournalLock(directory / LOCK_NAME)
        self._lock = threading.RLock()
        self._reader = JournalReader(self._path)
        self._store: JournalStore | None = None
        self._epoch = str(uuid.uuid4())
        self._epoch_number = 0
        self._committed_seq = 0
        self._facts_are_written = False
        self._tail: Tail | None = None
        self._state: str | None = None
        self._pulled = Position(0, 0)
        self._damage: str | None = None
        self._faults = FailureMemory()
        self._is_adopted = False
        self._errors: Counter[str] = Counter()
        self._stats = JournalStats(0, 0, {}, 0, 0, clock.utc_ns() / NANOSECONDS_PER_SECOND)

    @classmethod
    def open(
        cls,
        directory: Path,
        identity: JournalIdentity,
        facts: EpochFacts,
        settings: JournalSettings | None = None,
        clock: Clock | None = None,
    ) -> "Journal":
        """Return the journal of `directory`, in a new epoch.

        Raises JournalError `network` (its file system is another machine's) or `locked` (another agent has it).
        """
        journal = cls(directory, identity, facts, settings or JournalSettings(), clock or SystemClock())
        try:
            with journal_errors(journal._path):
                journal._ensure_store()
        except JournalError as error:
            journal._errors[error.cause] += 1
            if error.cause in _FATAL_AT_START:
                raise
            log.error("journal cannot be opened, measuring goes on", cause=error.cause, error=str(error))
        return journal

    @property
    def epoch(self) -> str:
        """Return the uuid of the epoch being written; another one after a journal was set aside."""
        return self._epoch

    @property
    def next_seq(self) -> int:
        """Return the seq that the next slot has to carry."""
        return self._committed_seq + 1

    def last_state(self) -> str | None:
        """Return what was saved with the newest slot of the epochs before this one; None in a new journal."""
        return self._state

    def set_facts(self, facts: EpochFacts) -> None:
        """Replace what pages say of this epoch, from the next slot on; columns stay."""
        with self._lock:
            self._facts = replace(facts, columns=self._facts.columns)
            self._facts_are_written = False

    def set_parent(self, parent: str | None) -> bool:
        """Name the hypervisor node and VM unit that feed this node; return whether that is news.

        A header speaks of a whole epoch, so another parent begins a new one; an epoch without a slot just takes it.
        """
        with self._lock:
            if parent == self._facts.parent:
                return False
            self.set_facts(replace(self._facts, parent=parent))
            if self._committed_seq:
                self._epoch = str(uuid.uuid4())
                self._epoch_number += 1
                self._committed_seq = 0
            return True

    def append(self, slot: Slot, saved_state_json: str) -> None:
        """Commit a slot, and with it the state a restart needs. Raises JournalError: nothing was written."""
        with self._lock:
            if slot.seq != self.next_seq:
                raise JournalError("sequence", f"{self._path}: expected slot {self.next_seq}, found {slot.seq}")
            try:
                self._append_or_begin_anew(slot, saved_state_json)
            except JournalError as error:
                self._errors[error.cause] += 1
                if error.cause not in _KEEPS_CONNECTION:
                    self._drop_store()
                raise

    def read(self, after: Cursor | None, limit: int, max_bytes: int = MAX_PAGE_BYTES) -> JournalPage:
        """Return a page of slots after the cursor, from the oldest without one.

        Raises NotFound (epoch not held), WireError (past the newest slot), JournalError.
        """
        try:
            with journal_errors(self._path):
                return self._reader.read(after, limit, max_bytes, self._running())
        except JournalError as error:
            self._errors[error.cause] += 1
            if error.cause == "corrupt":
                self._damage = str(error)
            raise

    def pulled(self, cursor: Cursor) -> None:
        """Note that a reader holds everything up to the cursor; kept with the next slot."""
        with journal_errors(self._path):
            number = self._reader.epoch_number(cursor.epoch)
        with self._lock:
            if number is not None:
                self._pulled = max(self._pulled, Position(number, cursor.seq))

    def stats(self) -> JournalStats:
        """Return what was counted since the process began."""
        return replace(self._stats, errors_total=dict(self._errors))

    def close(self) -> None:
        """Close the file and let another agent have it."""
        with self._lock:
            self._reader.close()
            self._drop_store()
            self._file_lock.release()

    def _running(self) -> RunningEpoch:
        with self._lock:
            return RunningEpoch(self._epoch, self._facts, self._epoch_number, self._committed_seq)

    def _append_or_begin_anew(self, slot: Slot, state: str) -> None:
        try:
            with journal_errors(self._path):
                self._append_once(slot, state)
        except JournalError as error:
            if error.cause != "corrupt":
                raise
            self._damage = str(error)
            with journal_errors(self._path):
                self._append_once(slot, state)

    def _append_once(self, slot: Slot, state: str) -> None:
        store = self._ensure_store()
        position = Position(self._epoch_number, self.next_seq)
        line = self._encoded(replace(slot, seq=position.seq))
        self._name_nodes(slot)
        with store.transaction():
            if not self._facts_are_written:
                store.write_epoch(position.epoch_number, self._epoch, self._facts.to_json())
            store.write_slot(position, slot.end_ns, line, state)
            store.write_pulled(self._pulled)
            removed = self._remove_surplus(store, position)
        self._committed_seq = position.seq
        self._tail = Tail(position, digest(line))
        self._facts_are_written = True
        self._count_slot(store, removed)

    def _encoded(self, slot: Slot) -> bytes:
        """Return the slot's line; one number that cannot be written must not keep the others from being."""
        prev = self._tail.digest if self._tail else None
        try:
            return encode_slot(slot, prev)
        except WireError as error:
            repaired, places = without_bad_numbers(slot)
            if self._faults.failed("numbers", "bad", self._clock.monotonic_ns()) is not None:
                log.error("numbers that cannot be written are unknown now", places=places[:5], count=len(places))
            try:
                return encode_slot(repaired, prev)
            except WireError:
                raise JournalError("unwritable", f"{self._path}: {error}") from error

    def _name_nodes(self, slot: Slot) -> None:
        """The header names every node that rows speak of: a reader takes others for a foreign node's."""
        seen = {entry.node_name for entry in slot.entries if entry.node_name}
        if not seen <= {self._facts.node, *self._facts.node_names}:
            self.set_facts(replace(self._facts, node_names=tuple(sorted(seen.union(self._facts.node_names)))))

    def _remove_surplus(self, store: JournalStore, newest: Position) -> list[Position]:
        horizon_ns = self._clock.utc_ns() - int(self._settings.max_days * _NS_PER_DAY)
        removed = store.remove_ended_before(horizon_ns, _AGED_AT_ONCE, newest)
        max_bytes = int(self._settings.max_mebibytes * 1024 * 1024)
        while store.used_bytes() > max_bytes:
            batch = store.remove_oldest(max(1, store.count() // 50), newest)
            if not batch:
                break
            removed += batch
        if removed:
            store.remove_empty_epochs()
        return removed

    def _count_slot(self, store: JournalStore, removed: list[Position]) -> None:
        lost = sum(position > self._pulled for position in removed)
        if lost and (times := self._faults.failed("lost", "bound", self._clock.monotonic_ns())) is not None:
            log.warning("slots removed that no reader had pulled", count=lost, times=times)
        self._stats = replace(
            self._stats,
            slots_total=self._stats.slots_total + 1,
            lost_total=self._stats.lost_total + lost,
            slots_held=self._stats.slots_held + 1 - len(removed),
            bytes_held=store.used_bytes(),
        )

    def _ensure_store(self) -> JournalStore:
        """Return the open file; opens it, and begins a new one where it is damaged, foreign or gone."""
        if self._store is not None and self._damage is None and self._is_in_place(self._store):
            return self._store
        self._drop_store()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_file_system()
        self._file_lock.take()
        with self._reader.paused():
            if self._damage is not None:
                self._set_aside("corrupt", self._damage)
            self._store = self._open_or_begin_anew()
        return self._store

    def _open_or_begin_anew(self) -> JournalStore:
        try:
            with journal_errors(self._path):
                return self._open_store()
        except JournalError as error:
            if error.cause not in _SET_ASIDE:
                raise
            self._set_aside(error.cause, str(error))
            return self._open_store()

    def _open_store(self) -> JournalStore:
        store = JournalStore(self._path, writable=True)
        try:
            self._check_and_bind(store)
            self._adopt(store)
        except BaseException:
            store.close()
            raise
        return store

    def _is_in_place(self, store: JournalStore) -> bool:
        try:
            return os.stat(self._path).st_ino == store.inode
        except FileNotFoundError:
            return False

    def _check_file_system(self) -> None:
        durability, name = file_system_of(self._directory)
        if durability is Durability.NETWORK:
            raise JournalError(
                "network", f"{self._directory}: lies on {name}; the journal needs a directory on a disk of this machine"
            )
        if durability is Durability.MEMORY and not self._is_adopted:
            log.warning(
                "journal lies in memory: the account survives a restart of the agent, not one of the machine",
                directory=str(self._directory),
                file_system=name,
            )

    def _adopt(self, store: JournalStore) -> None:
        if not (self._is_adopted and self._is_continued_by(store)):
            self._begin_epoch(store)
        self._is_adopted = True

    def _is_continued_by(self, store: JournalStore) -> bool:
        """Whether the file reopened is the one left; a slot whose commit was never acknowledged may have been added."""
        if self._tail is None:
            return all(epoch.number == self._epoch_number for epoch in store.epochs())
        return store.digest_at(self._tail.position) == self._tail.digest

    def _check_and_bind(self, store: JournalStore) -> None:
        if not self._is_adopted:
            store.check_whole(self._path)
        bound = store.binding()
        if bound is not None and not _is_same_machine(bound, self._identity):
            raise JournalError("foreign", f"{self._path}: belongs to {bound}, this machine is {self._identity}")
        if bound is None or (bound.product_uuid is None and self._identity.product_uuid is not None):
            with store.transaction():
                store.bind(self._identity)

    def _begin_epoch(self, store: JournalStore) -> None:
        if self._is_adopted:
            self._epoch = str(uuid.uuid4())
            log.error("journal was replaced under the agent, a new epoch begins", epoch=self._epoch)
        else:
            self._state = store.state()
        self._epoch_number = store.next_epoch_number()
        self._committed_seq = 0
        self._facts_are_written = False
        self._tail = store.tail()
        self._pulled = store.pulled()
        self._stats = replace(self._stats, slots_held=store.count(), bytes_held=store.used_bytes())
        store.give_back_pages()

    def _set_aside(self, cause: str, why: str) -> None:
        stamp = datetime.fromtimestamp(self._clock.utc_ns() // NANOSECONDS_PER_SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self._path.with_name(f"{FILE_NAME}.{cause}-{stamp}")
        number = 0
        while aside.exists():
            number += 1
            aside = self._path.with_name(f"{FILE_NAME}.{cause}-{stamp}-{number}")
        for suffix in ("", "-wal", "-shm"):
            source = self._path.with_name(FILE_NAME + suffix)
            if source.exists():
                source.rename(aside.with_name(aside.name + suffix))
        self._damage = None
        log.error("journal set aside, a new one begins", cause=cause, why=why, kept_as=str(aside))

    def _drop_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _is_same_machine(bound: JournalIdentity, found: JournalIdentity) -> bool:
    """A product uuid that only root may read is compared when both are known."""
    same_product = None in (bound.product_uuid, found.product_uuid) or bound.product_uuid == found.product_uuid
    return bound.machine_id == found.machine_id and bound.node == found.node and same_product
