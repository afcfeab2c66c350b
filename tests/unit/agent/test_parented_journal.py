"""A guest's journal through a migration: every slot lies in the epoch of the host that told what it holds."""

from pathlib import Path

from tests.unit.ledger.journals import open_journal
from tests.unit.ledger.slots import slot

from kwhere.agent.parented_journal import ParentedJournal
from kwhere.ledger.journal import Journal
from kwhere.ledger.pages import Cursor


class Feed:
    """Who feeds the guest, as the test has it."""

    parent: str | None = None


def parents(journal: Journal) -> list[tuple[str | None, int]]:
    """Return the parent and seq of every slot, in order."""
    found: list[tuple[str | None, int]] = []
    after: Cursor | None = None
    while True:
        page = journal.read(after, 1)
        found += [(page.header.parent, page.header.newest or 0) for _ in page.lines]
        if page.header.next is None:
            return found
        epoch, seq = page.header.next.split(":")
        after = Cursor(epoch, int(seq))


def test_each_slot_lies_with_the_host_it_began_with(tmp_path: Path) -> None:
    journal, feed = open_journal(tmp_path), Feed()
    parented = ParentedJournal(journal, lambda: feed.parent)

    parented.append(slot(1), "state")  # nobody is known yet
    assert not parented.is_turning()
    feed.parent = "hv1/vm"
    assert not parented.is_turning()  # nothing of another host is in the open slot
    parented.append(slot(parented.next_seq), "state")
    feed.parent = "hv2/vm"
    assert parented.is_turning()
    parented.append(slot(parented.next_seq), "state")  # what hv1 told until then
    assert not parented.is_turning()
    parented.append(slot(parented.next_seq), "state")

    assert [parent for parent, _ in parents(journal)] == [None, "hv1/vm", "hv1/vm", "hv2/vm"]
    assert parented.last_state() is None


def test_a_host_known_from_the_start_needs_no_epoch_of_its_own(tmp_path: Path) -> None:
    journal, feed = open_journal(tmp_path), Feed()
    first = journal.epoch
    parented = ParentedJournal(journal, lambda: feed.parent)
    feed.parent = "hv1/vm"

    parented.append(slot(1), "state")

    assert parents(journal) == [("hv1/vm", 1)]
    assert journal.epoch == first
