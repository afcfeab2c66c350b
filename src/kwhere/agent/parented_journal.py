"""A guest's journal: its header names the host that feeds it, and another host begins another epoch."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from kwhere.ledger.journal import Journal
from kwhere.ledger.rows import Slot

log = structlog.get_logger(__name__)


class ParentedJournal:
    """Passes slots on to the journal and tells it who feeds this guest.

    A slot holds what one host told: the first reading at another host is a baseline, and the slot ends with it.
    """

    def __init__(self, journal: Journal, parent: Callable[[], str | None]) -> None:
        """`parent` returns `<host node>/<VM unit>`, None while it is not known."""
        self._journal = journal
        self._parent = parent
        self._known: str | None = None

    @property
    def next_seq(self) -> int:
        """Return the number that the next slot will have, unless another epoch begins with it."""
        return self._journal.next_seq

    def is_turning(self) -> bool:
        """Return whether another host feeds this guest than fed it when the open slot began."""
        return self._known is not None and self._parent() != self._known

    def append(self, slot: Slot, saved_state_json: str) -> None:
        """Commit a slot under the host that it began with; one from before any is known goes to the first.

        Raises JournalError.
        """
        parent = self._parent()
        if self._known is None:
            self._turn_to(parent)
        self._journal.append(replace(slot, seq=self._journal.next_seq), saved_state_json)
        self._turn_to(parent)

    def last_state(self) -> str | None:
        """Return what was saved with the newest slot of the epochs before this process."""
        return self._journal.last_state()

    def _turn_to(self, parent: str | None) -> None:
        if parent is not None and parent != self._known:
            self._journal.set_parent(parent)
            self._known = parent
            log.info("hypervisor is known", parent=parent)
