"""A guest's journal: its header names the host that feeds it, and another host begins another epoch."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from kwhere.ledger.journal import Journal
from kwhere.ledger.rows import Slot

log = structlog.get_logger(__name__)


class ParentedJournal:
    """Passes slots on to the journal, and first tells it who feeds this guest now."""

    def __init__(self, journal: Journal, parent: Callable[[], str | None]) -> None:
        """`parent` returns `<host node>/<VM unit>`, None while it is not known."""
        self._journal = journal
        self._parent = parent

    @property
    def next_seq(self) -> int:
        """Return the number that the next slot will have, unless another epoch begins with it."""
        return self._journal.next_seq

    def append(self, slot: Slot, saved_state_json: str) -> None:
        """Commit a slot, in a new epoch where the host is another one. Raises JournalError."""
        parent = self._parent()
        if parent is not None and self._journal.set_parent(parent):
            log.info("hypervisor is known", parent=parent, epoch=self._journal.epoch)
        self._journal.append(replace(slot, seq=self._journal.next_seq), saved_state_json)

    def last_state(self) -> str | None:
        """Return what was saved with the newest slot of the epochs before this process."""
        return self._journal.last_state()
