"""The seam to where closed slots go: the journal, or nothing at all."""

from typing import Protocol

from kwhere.ledger.rows import Slot


class SlotSink(Protocol):
    """Takes slots in for good."""

    @property
    def next_seq(self) -> int:
        """Return the number that the next slot will have in its epoch."""
        ...

    def append(self, slot: Slot, saved_state_json: str) -> None:
        """Commit a slot with what a restart needs. Raises JournalError: then nothing of it is kept."""
        ...

    def last_state(self) -> str | None:
        """Return what was given with the newest slot of any epoch; None in a new journal."""
        ...


class NoJournal:
    """Forgets every slot: for one exposition and for tests."""

    def __init__(self) -> None:
        self._seq = 0

    @property
    def next_seq(self) -> int:
        """Return one more than the slots forgotten so far."""
        return self._seq + 1

    def append(self, slot: Slot, saved_state_json: str) -> None:
        """Count the slot."""
        del saved_state_json
        self._seq = slot.seq

    def last_state(self) -> str | None:
        """Return None: nothing was kept."""
        return None
