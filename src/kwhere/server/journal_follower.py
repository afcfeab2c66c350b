"""Following one journal: whose it is, which of a page's slots are new, which are lost, and where to go on."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from sqlalchemy import Connection

from kwhere.core.errors import IntakeRefused
from kwhere.database import cursors
from kwhere.database.cursors import CursorRow, Step
from kwhere.ledger.columns import ColumnLine, ColumnPage
from kwhere.ledger.epoch_facts import facts_of
from kwhere.ledger.pages import Cursor, PageHeader
from kwhere.server.target import Target

MAX_FACTS_BYTES = 1 << 20

log = structlog.get_logger(__name__)


class JournalStopped(IntakeRefused):
    """The journal broke its word, and is not read until a person says so; `epoch` says which."""

    def __init__(self, epoch: str, message: str) -> None:
        super().__init__(message)
        self.epoch = epoch


@dataclass(slots=True)
class News:
    """What is worth a line in the log, kept until the page is in the database: a page refused is told once, as such."""

    lines: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def warn(self, event: str, **facts: object) -> None:
        """Keep a warning."""
        self.lines.append(("warning", event, facts))

    def alarm(self, event: str, **facts: object) -> None:
        """Keep an error."""
        self.lines.append(("error", event, facts))

    def tell(self) -> None:
        """Write it to the log."""
        for level, event, facts in self.lines:
            getattr(log, level)(event, **facts)


@dataclass(frozen=True, slots=True)
class Follower:
    """One page of one journal, in one transaction."""

    connection: Connection
    target: Target
    node_id: int
    now_ns: int
    news: News

    def find(self, page: ColumnPage, active_targets: Collection[str]) -> CursorRow:
        """Return the row of the page's epoch, opened if it is new to us. Raises IntakeRefused, JournalStopped."""
        header = page.header
        row = cursors.find_epoch(self.connection, header.epoch)
        if row is None:
            return self._open(page)
        if row.stopped is not None:
            raise IntakeRefused(f"epoch {row.epoch} is stopped: {row.stopped}")
        if row.machine_id != header.machine_id:
            raise IntakeRefused(f"epoch {row.epoch}: expected machine-id {row.machine_id}, found {header.machine_id}")
        found = replace(row, target=self.target.key, node_id=self.node_id, boot_id=header.boot_id)
        if row.target != self.target.key:
            self._check_alone(row, active_targets)
        elif row.node_id != self.node_id:
            raise IntakeRefused(f"epoch {row.epoch}: its slots were another node's, and now are {header.node}'s")
        if row.boot_id != header.boot_id and row.newest_end_ns is not None:
            raise IntakeRefused(f"epoch {row.epoch}: expected boot id {row.boot_id}, found {header.boot_id}")
        if found != row:
            cursors.adopt(self.connection, found)
        return found

    def _check_alone(self, row: CursorRow, active_targets: Collection[str]) -> None:
        if row.target in active_targets:
            raise IntakeRefused(f"epoch {row.epoch} is served by two targets: {row.target} and {self.target.key}")
        self.news.warn("journal is served elsewhere", epoch=row.epoch, before=row.target, now=self.target.key)

    def _open(self, page: ColumnPage) -> CursorRow:
        """Open an epoch: at 0 behind its predecessor, else at the oldest slot of a journal that is new to us."""
        before = self._read_before(page)
        if before is not None:
            row = _following(before, page.header.epoch)
            row = replace(row, node_id=self.node_id, target=self.target.key, boot_id=page.header.boot_id)
            cursors.open_epoch(self.connection, row, self.now_ns)
            return row
        return self._begin(page)

    def _begin(self, page: ColumnPage) -> CursorRow:
        header = page.header
        row = CursorRow(
            epoch=header.epoch,
            node_id=self.node_id,
            journal=header.epoch,
            seq=(header.oldest or 1) - 1,  # whichever slots this page has
            digest=None,
            finished=False,
            target=self.target.key,
            machine_id=header.machine_id,
            boot_id=header.boot_id,
            first_start_ns=None,
            newest_end_ns=None,
            stopped=None,
        )
        before = cursors.predecessor(self.connection, row)
        cursors.open_epoch(self.connection, row, self.now_ns)
        if before is not None:
            self.news.warn("another journal follows", node=header.node, epoch=row.epoch, before=before.epoch)
        return row

    def _read_before(self, page: ColumnPage) -> CursorRow | None:
        """Return the epoch before the page's. Raises IntakeRefused unless all before are read to their ends."""
        header = page.header
        before: CursorRow | None = None
        for epoch in header.epochs[: header.epochs.index(header.epoch)]:
            before = cursors.find_epoch(self.connection, epoch)
            if before is None or not (before.finished or self._ends_with(before, page)):
                raise IntakeRefused(f"epoch {header.epoch}: epoch {epoch} before it is not read to its end")
        return before

    def _ends_with(self, before: CursorRow, page: ColumnPage) -> bool:
        """Return whether the page's first slot names the one we hold as the last before it; then that epoch is over."""
        if not page.lines or before.digest is None or before.stopped is not None:
            return False
        first = page.lines[0]
        if first.slot.seq != 1 or first.line.prev != before.digest:
            return False
        cursors.finish(self.connection, before.epoch)
        return True

    def new_lines(self, row: CursorRow, page: ColumnPage) -> Sequence[ColumnLine]:
        """Return the slots past the cursor. Those before must be the ones we know. Raises JournalStopped."""
        known = [line for line in page.lines if line.slot.seq <= row.seq]
        if known:
            digests = cursors.digests(self.connection, row.epoch, [line.slot.seq for line in known])
            for line in known:
                if digests.get(line.slot.seq, line.line.digest) != line.line.digest:
                    raise JournalStopped(
                        row.epoch, f"slot {line.slot.seq} of epoch {row.epoch} is not the one we booked"
                    )
        newest = page.header.newest
        if newest is not None and newest < row.seq and row.digest is not None:
            raise JournalStopped(row.epoch, f"epoch {row.epoch}: we hold slot {row.seq}, the agent only {newest}")
        return page.lines[len(known) :]

    def advance(self, row: CursorRow, lines: Sequence[ColumnLine], header: PageHeader) -> CursorRow:
        """Move the cursor over new slots, which follow the one we hold. Raises IntakeRefused, JournalStopped."""
        first, last = lines[0], lines[-1]
        start_ns = min(line.slot.start_ns for line in lines)
        end_ns = max(line.slot.end_ns for line in lines)
        self._check_no_clone(row, start_ns, end_ns)
        if first.slot.seq > row.seq + 1:
            self._pass_over_hole(row, first, header)
        elif row.digest is not None and first.line.prev != row.digest:
            raise JournalStopped(
                row.epoch,
                f"slot {first.slot.seq} of epoch {row.epoch} does not follow the slot we hold: it was rewritten",
            )
        if row.newest_end_ns is None:
            cursors.close_lost(self.connection, self.node_id, start_ns)
        facts = facts_of(header).to_json()
        if len(facts) > MAX_FACTS_BYTES:
            raise IntakeRefused(f"epoch {row.epoch}: its header has {len(facts)} bytes, no real one has")
        cursors.advance(self.connection, row, Step(last.slot.seq, last.line.digest, start_ns, end_ns, facts))
        return replace(row, seq=last.slot.seq, digest=last.line.digest, newest_end_ns=end_ns)

    def _check_no_clone(self, row: CursorRow, start_ns: int, end_ns: int) -> None:
        other = cursors.overlapping(self.connection, row, start_ns, end_ns)
        if other is not None:
            raise IntakeRefused(
                f"epoch {row.epoch}: another journal of the same machine or node, epoch {other.epoch} of"
                f" {other.target}, speaks for the same time; a cloned machine needs its own machine-id"
            )

    def _pass_over_hole(self, row: CursorRow, first: ColumnLine, header: PageHeader) -> None:
        """Slots are lost when the agent no longer holds them; a page that merely leaves them out is a wrong page."""
        if header.oldest is not None and header.oldest <= row.seq + 1:
            raise IntakeRefused(
                f"epoch {row.epoch}: expected slot {row.seq + 1}, which the agent holds, found {first.slot.seq}"
            )
        cursors.record_lost(self.connection, row, first.slot.seq - 1, first.slot.start_ns, self.now_ns)
        self.news.alarm("slots lost", epoch=row.epoch, first=row.seq + 1, last=first.slot.seq - 1)

    def go_on(self, row: CursorRow, header: PageHeader) -> Cursor:
        """Return where to go on; opens the following epoch only when this one is read to its end."""
        following = header.epochs[header.epochs.index(header.epoch) + 1 :]
        if not following or row.seq < (header.newest or 0):
            return row.cursor
        cursors.finish(self.connection, row.epoch)
        known = cursors.find_epoch(self.connection, following[0])
        if known is not None:
            return known.cursor
        opened = _following(row, following[0])
        cursors.open_epoch(self.connection, opened, self.now_ns)
        return opened.cursor


def _following(row: CursorRow, epoch: str) -> CursorRow:
    """Return where `epoch` begins behind `row`: its first slot has to name the last one of `row` before it."""
    return replace(row, epoch=epoch, seq=0, finished=False, first_start_ns=None, newest_end_ns=None)
