"""How far each agent's journal has been read: one row per epoch, moved only from where it stands."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Row, and_, func, insert, or_, select, update

from kwhere.core.errors import IntakeRefused
from kwhere.database import bulk, schema
from kwhere.ledger.pages import Cursor

_cursors = schema.cursors


class CursorMoved(IntakeRefused):
    """Another reader was faster: nothing was booked, nothing is wrong."""


@dataclass(frozen=True, slots=True)
class CursorRow:
    """An epoch as the server has read it."""

    epoch: str
    node_id: int
    journal: str
    seq: int
    digest: str | None
    finished: bool
    target: str
    machine_id: str
    boot_id: str
    first_start_ns: int | None
    newest_end_ns: int | None
    stopped: str | None

    @property
    def cursor(self) -> Cursor:
        """Return it as the wire's `after`."""
        return Cursor(self.epoch, self.seq)


_COLUMNS = tuple(_cursors.c[name] for name in CursorRow.__slots__)


def _row(row: Row[tuple[object, ...]] | None) -> CursorRow | None:
    return None if row is None else CursorRow(**row._mapping)


def find_epoch(connection: Connection, epoch: str) -> CursorRow | None:
    """Return the row of an epoch."""
    return _row(connection.execute(select(*_COLUMNS).where(_cursors.c.epoch == epoch)).one_or_none())


def find_target(connection: Connection, target: str) -> CursorRow | None:
    """Return where reading of a target goes on: its newest epoch that is not read to its end."""
    query = (
        select(*_COLUMNS)
        .where(_cursors.c.target == target, _cursors.c.finished.is_(False))
        .order_by(_cursors.c.opened_ns.desc(), _cursors.c.epoch)
        .limit(1)
    )
    return _row(connection.execute(query).one_or_none())


def open_epoch(connection: Connection, row: CursorRow, now_ns: int) -> None:
    """Insert the row of an epoch. Raises CursorMoved if another reader was first."""
    values = {name: getattr(row, name) for name in CursorRow.__slots__}
    if find_epoch(connection, row.epoch) is not None:
        raise CursorMoved(f"epoch {row.epoch}: another reader has opened it")
    connection.execute(insert(_cursors).values(**values, opened_ns=now_ns))


@dataclass(frozen=True, slots=True)
class Step:
    """What moves a cursor: the last of some slots, the time they span, what their page said of the epoch."""

    to_seq: int
    digest: str
    start_ns: int
    end_ns: int
    facts: str
    """JSON, see ledger/epoch_facts.py."""


def advance(connection: Connection, row: CursorRow, step: Step) -> None:
    """Move a cursor from where `row` has it. Raises CursorMoved unless that touches one row."""
    moved = connection.execute(
        update(_cursors)
        .where(_cursors.c.epoch == row.epoch, _cursors.c.seq == row.seq)
        .values(
            seq=step.to_seq,
            digest=step.digest,
            first_start_ns=min(row.first_start_ns or step.start_ns, step.start_ns),
            newest_end_ns=max(row.newest_end_ns or step.end_ns, step.end_ns),
            facts=step.facts,
        )
    )
    if moved.rowcount != 1:
        raise CursorMoved(f"epoch {row.epoch}: another reader has moved on from slot {row.seq}; nothing was booked")


def adopt(connection: Connection, row: CursorRow) -> None:
    """Let the target, node and boot of `row` go on with its epoch: the node has moved, or restarted."""
    values = {name: getattr(row, name) for name in ("target", "node_id", "boot_id")}
    connection.execute(update(_cursors).where(_cursors.c.epoch == row.epoch).values(**values))


def finish(connection: Connection, epoch: str) -> None:
    """Mark an epoch as read to its end."""
    connection.execute(update(_cursors).where(_cursors.c.epoch == epoch).values(finished=True))


def stop(connection: Connection, epoch: str, reason: str) -> bool:
    """Stop reading an epoch until a person says otherwise; return whether that is news."""
    changed = connection.execute(
        update(_cursors).where(_cursors.c.epoch == epoch, _cursors.c.stopped.is_(None)).values(stopped=reason)
    )
    return changed.rowcount == 1


def resume(connection: Connection, epoch: str) -> bool:
    """Read a stopped epoch again; its chain is not checked over the place where it broke. Return whether it was."""
    changed = connection.execute(
        update(_cursors)
        .where(_cursors.c.epoch == epoch, _cursors.c.stopped.is_not(None))
        .values(stopped=None, digest=None)
    )
    return changed.rowcount == 1


def overlapping(connection: Connection, row: CursorRow, start_ns: int, end_ns: int) -> CursorRow | None:
    """Return an epoch of another journal of the same machine in the same boot, or of the node, within the span."""
    same_machine = and_(_cursors.c.machine_id == row.machine_id, _cursors.c.boot_id == row.boot_id)
    query = (
        select(*_COLUMNS)
        .where(
            or_(same_machine, _cursors.c.node_id == row.node_id),
            _cursors.c.journal != row.journal,
            _cursors.c.first_start_ns < end_ns,
            _cursors.c.newest_end_ns > start_ns,
        )
        .limit(1)
    )
    return _row(connection.execute(query).one_or_none())


def predecessor(connection: Connection, row: CursorRow) -> CursorRow | None:
    """Return the newest epoch of another journal of the same machine in the same boot, or of the node."""
    same_machine = and_(_cursors.c.machine_id == row.machine_id, _cursors.c.boot_id == row.boot_id)
    query = (
        select(*_COLUMNS)
        .where(or_(same_machine, _cursors.c.node_id == row.node_id), _cursors.c.journal != row.journal)
        .order_by(_cursors.c.newest_end_ns.desc())
        .limit(1)
    )
    return _row(connection.execute(query).one_or_none())


def digests(connection: Connection, epoch: str, seqs: Collection[int]) -> dict[int, str]:
    """Return digests of slots that are still held, booked or in quarantine is all one."""
    slots = schema.slots
    query = select(slots.c.seq, slots.c.digest).where(slots.c.epoch == epoch, slots.c.seq.in_(sorted(seqs)))
    return {row.seq: row.digest for row in connection.execute(query)}


def record_lost(
    connection: Connection, row: CursorRow, last_seq: int | None, until_ns: int | None, now_ns: int
) -> None:
    """Record that the slots after the cursor up to `last_seq` (None: of unknown number) will never come."""
    bulk.upsert(
        connection,
        schema.lost,
        ("epoch", "first_seq"),
        dict.fromkeys(("node_id", "last_seq", "start_ns", "end_ns", "recorded_ns"), bulk.Merge.NEW),
        [(row.epoch, row.seq + 1, row.node_id, last_seq, row.newest_end_ns, until_ns, now_ns)],
    )


def close_lost(connection: Connection, node_id: int, start_ns: int) -> None:
    """Let what was lost of a node, of unknown end, end where its account goes on."""
    lost = schema.lost.c
    connection.execute(
        update(schema.lost)
        .where(lost.node_id == node_id, lost.last_seq.is_(None), lost.end_ns.is_(None))
        .values(end_ns=start_ns)
    )


def count_stopped(connection: Connection) -> int:
    """Return how many journals are stopped."""
    query = select(func.count()).select_from(_cursors).where(_cursors.c.stopped.is_not(None))
    return int(connection.execute(query).scalar_one())
