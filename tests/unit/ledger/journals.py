"""A machine and its journal, for tests."""

import json
from pathlib import Path

from tests.unit.ledger.slots import MINUTE_NS, START_NS, slot

from kwhere.core.errors import JournalError
from kwhere.ledger.epoch_facts import EpochFacts
from kwhere.ledger.journal import Journal
from kwhere.ledger.journal_store import JournalIdentity
from kwhere.ledger.pages import Cursor
from kwhere.ledger.settings import JournalSettings

IDENTITY = JournalIdentity(machine_id="m1", product_uuid="p1", node="c1")
FACTS = EpochFacts(
    node="c1",
    node_names=("c1",),
    machine_id="m1",
    boot_id="b1",
    parent=None,
    slot_seconds=60,
    idle_policy="allocation",
    cpus=8,
    p_max_mw={"cpu": 500_000},
    version="0.1.0",
)
_opened: list[Journal] = []


class StandingClock:
    """A clock that a test sets."""

    def __init__(self, utc_ns: int = START_NS) -> None:
        self.now_ns = utc_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def utc_ns(self) -> int:
        return self.now_ns


def open_journal(
    directory: Path,
    *,
    identity: JournalIdentity = IDENTITY,
    facts: EpochFacts = FACTS,
    settings: JournalSettings | None = None,
    clock: StandingClock | None = None,
) -> Journal:
    journal = Journal.open(directory, identity, facts, settings, clock or StandingClock())
    _opened.append(journal)
    return journal


def close_journals() -> None:
    """Close what a test left open; closing twice does nothing."""
    while _opened:
        _opened.pop().close()


def append(journal: Journal, count: int = 1) -> None:
    for _ in range(count):
        seq = journal.next_seq
        journal.append(slot(seq), json.dumps({"seq": seq}))


def append_at(journal: Journal, clock: StandingClock, minutes: int) -> None:
    """Append the slot of a minute, counted from the start, at its end."""
    start_ns = START_NS + minutes * MINUTE_NS
    clock.now_ns = start_ns + MINUTE_NS
    journal.append(slot(journal.next_seq, start_ns), "{}")


def seqs(journal: Journal, after: Cursor | None = None, limit: int = 1_000) -> list[int]:
    return [json.loads(line)["seq"] for line in journal.read(after, limit).lines]


def cause_of(error: BaseException) -> str:
    assert isinstance(error, JournalError)
    return error.cause
