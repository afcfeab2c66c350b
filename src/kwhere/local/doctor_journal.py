"""What a journal file holds, read beside the agent that writes it: nothing is changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kwhere.ledger.decode import decode_slot
from kwhere.ledger.epoch_facts import EpochFacts
from kwhere.ledger.journal_store import HeldEpoch, JournalIdentity, JournalStore, journal_errors
from kwhere.ledger.rows import Entry, Slot

MOST_SLOTS_SEARCHED = 1500
"""A day of slots of a minute, and some."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the journal holds."""

    bound: JournalIdentity | None
    slots: int
    gone: int
    """Slots missing between the oldest and the newest of their epoch."""
    used_bytes: int
    newest_end_ns: int | None

    def bound_to(self, machine: JournalIdentity) -> bool:
        """Return whether it is this machine's; a product uuid that may not be read is no objection."""
        if self.bound is None:
            return True
        uuids = (self.bound.product_uuid, machine.product_uuid)
        same_product = None in uuids or uuids[0] == uuids[1]
        return (self.bound.machine_id, self.bound.node) == (machine.machine_id, machine.node) and same_product


def read_holdings(path: Path) -> Holdings:
    """Return what the journal holds. Raises JournalError, sqlite3.Error, OSError (see `journal_errors`)."""
    with _opened(path) as store:
        epochs = store.epochs()
        slots = store.count()
        newest = next(newest_slots(store, epochs), None)
        return Holdings(
            bound=store.binding(),
            slots=slots,
            gone=sum(epoch.newest - epoch.oldest + 1 for epoch in epochs) - slots,
            used_bytes=store.used_bytes(),
            newest_end_ns=None if newest is None else newest.end_ns,
        )


def last_entry(path: Path, manager: str | None, unit: str) -> tuple[Slot, Entry] | None:
    """Return the newest slot in which a unit of this id or name was booked, and its entry. Raises JournalError."""
    with journal_errors(path), _opened(path) as store:
        for number, slot in enumerate(newest_slots(store, store.epochs())):
            for entry in slot.entries:
                if is_called(entry, manager, unit):
                    return slot, entry
            if number >= MOST_SLOTS_SEARCHED:
                break
    return None


def is_called(entry: Entry, manager: str | None, unit: str) -> bool:
    """Return whether an entry is that of the unit: by id, run or name."""
    key = entry.key
    return key is not None and manager in (None, key.manager) and unit in (key.unit, key.run, entry.name)


def newest_slots(store: JournalStore, epochs: list[HeldEpoch]) -> Iterator[Slot]:
    """Yield slots, the newest first."""
    for epoch in reversed(epochs):
        columns = EpochFacts.from_json(epoch.facts).columns
        for seq in range(epoch.newest, epoch.oldest - 1, -1):
            for line in store.lines(epoch.number, seq - 1, seq):
                yield decode_slot(line, columns).slot


@contextmanager
def _opened(path: Path) -> Iterator[JournalStore]:
    store = JournalStore(path, writable=False)
    try:
        with store.snapshot():
            yield store
    finally:
        store.close()
