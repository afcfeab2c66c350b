"""The journal's SQLite file: its schema, what is written in one transaction, what is read."""

import errno
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kwhere.core.errors import JournalError
from kwhere.ledger.wire import digest

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE binding (id INTEGER PRIMARY KEY CHECK (id = 1), machine_id TEXT NOT NULL, product_uuid TEXT,
                      node TEXT NOT NULL);
CREATE TABLE epochs (number INTEGER PRIMARY KEY, epoch TEXT NOT NULL UNIQUE, facts TEXT NOT NULL);
CREATE TABLE slots (id INTEGER PRIMARY KEY, epoch_number INTEGER NOT NULL, seq INTEGER NOT NULL,
                    end_ns INTEGER NOT NULL, digest TEXT NOT NULL, line BLOB NOT NULL, UNIQUE (epoch_number, seq));
CREATE TABLE saved_state (id INTEGER PRIMARY KEY CHECK (id = 1), state TEXT NOT NULL);
CREATE TABLE pulled (id INTEGER PRIMARY KEY CHECK (id = 1), epoch_number INTEGER NOT NULL, seq INTEGER NOT NULL);
"""
_BUSY_SECONDS = 1.0
_CAUSES = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
    sqlite3.SQLITE_IOERR: "io",
    sqlite3.SQLITE_CANTOPEN: "path",
    sqlite3.SQLITE_PERM: "path",
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
}


@dataclass(frozen=True, slots=True)
class JournalIdentity:
    """The machine that a journal belongs to; `product_uuid` is None where it may not be read."""

    machine_id: str
    product_uuid: str | None
    node: str


@dataclass(frozen=True, slots=True)
class HeldEpoch:
    """An epoch of which slots are held; `facts` is the JSON that was stored with it."""

    number: int
    epoch: str
    facts: str
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Place of a slot in the whole journal."""

    epoch_number: int
    seq: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest slot: the one that the next will name as its predecessor."""

    position: Position
    digest: str


@contextmanager
def journal_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the file system raise into JournalError with its cause."""
    try:
        yield
    except OSError as error:
        cause = {errno.EROFS: "read_only", errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EIO: "io"}
        raise JournalError(cause.get(error.errno or 0, "path"), f"{path}: {error.strerror}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise JournalError(_CAUSES.get(code, "sqlite"), f"{path}: {error}") from error


class JournalStore:
    """One open connection to a journal file. Not thread-safe; the raised sqlite3 errors are its user's to turn."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        if writable:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        uri = f"{path.absolute().as_uri()}?mode=rw"
        self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS)
        try:
            self._prepare(path, writable)
        except BaseException:
            self._db.close()
            raise
        self.inode = os.stat(path).st_ino

    def _prepare(self, path: Path, writable: bool) -> None:
        if not writable:
            self._db.execute("PRAGMA query_only = ON")
            return
        if self._db.execute("PRAGMA page_count").fetchone()[0] == 0:
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        if self._db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise JournalError("unsupported", f"{path}: its file system does not carry a write-ahead log")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA journal_size_limit = 4194304")
        self._check(path)

    def _check(self, path: Path) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        tables = self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if version == 0 and tables == 0:
            with self.transaction():
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif version != SCHEMA_VERSION:
            raise JournalError("foreign", f"{path}: expected schema {SCHEMA_VERSION}, found {version}")

    def check_whole(self, path: Path) -> None:
        """Read the whole file. Raises JournalError where it is damaged."""
        found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise JournalError("corrupt", f"{path}: {found}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end, roll back on any error."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one state of the file throughout."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def binding(self) -> JournalIdentity | None:
        """Return the machine the file is bound to; None in a new one."""
        row = self._db.execute("SELECT machine_id, product_uuid, node FROM binding").fetchone()
        return JournalIdentity(*row) if row else None

    def bind(self, identity: JournalIdentity) -> None:
        """Bind the file to a machine."""
        self._db.execute(
            "INSERT OR REPLACE INTO binding VALUES (1, ?, ?, ?)",
            (identity.machine_id, identity.product_uuid, identity.node),
        )

    def next_epoch_number(self) -> int:
        """Return the number of an epoch to come; numbers are never used twice."""
        held = self._db.execute("SELECT max(number) FROM epochs").fetchone()[0] or 0
        pulled = self._db.execute("SELECT max(epoch_number) FROM pulled").fetchone()[0] or 0
        return max(int(held), int(pulled)) + 1

    def epochs(self) -> list[HeldEpoch]:
        """Return the epochs that have slots, in order."""
        rows = self._db.execute(
            "SELECT number, epoch, facts, (SELECT min(seq) FROM slots WHERE epoch_number = number),"
            " (SELECT max(seq) FROM slots WHERE epoch_number = number) FROM epochs ORDER BY number"
        )
        return [HeldEpoch(*row) for row in rows if row[3] is not None]

    def digest_at(self, position: Position) -> str | None:
        """Return the digest of one slot; None where it is not held."""
        row = self._db.execute(
            "SELECT digest FROM slots WHERE epoch_number = ? AND seq = ?", (position.epoch_number, position.seq)
        ).fetchone()
        return None if row is None else str(row[0])

    def tail(self) -> Tail | None:
        """Return the newest slot's place and digest."""
        row = self._db.execute(
            "SELECT epoch_number, seq, digest FROM slots ORDER BY epoch_number DESC, seq DESC LIMIT 1"
        ).fetchone()
        return None if row is None else Tail(Position(row[0], row[1]), row[2])

    def state(self) -> str | None:
        """Return what was saved with the newest slot."""
        row = self._db.execute("SELECT state FROM saved_state").fetchone()
        return None if row is None else str(row[0])

    def pulled(self) -> Position:
        """Return how far readers have come."""
        row = self._db.execute("SELECT epoch_number, seq FROM pulled").fetchone()
        return Position(*row) if row else Position(0, 0)

    def write_epoch(self, number: int, epoch: str, facts: str) -> None:
        """Write an epoch, or newer facts of it."""
        self._db.execute(
            "INSERT INTO epochs VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET facts = excluded.facts",
            (number, epoch, facts),
        )

    def write_slot(self, position: Position, end_ns: int, line: bytes, state: str) -> None:
        """Write a slot and the state that belongs to it. One of the same position was never acknowledged: replaced."""
        self._db.execute(
            "INSERT OR REPLACE INTO slots (epoch_number, seq, end_ns, digest, line) VALUES (?, ?, ?, ?, ?)",
            (position.epoch_number, position.seq, end_ns, digest(line), zlib.compress(line, 6)),
        )
        self._db.execute("INSERT OR REPLACE INTO saved_state VALUES (1, ?)", (state,))

    def write_pulled(self, position: Position) -> None:
        """Write how far readers have come."""
        self._db.execute("INSERT OR REPLACE INTO pulled VALUES (1, ?, ?)", (position.epoch_number, position.seq))

    def lines(self, epoch_number: int, after_seq: int, last_seq: int) -> Iterator[bytes]:
        """Yield the lines of an epoch's slots in order. Raises JournalError where one is not what was written."""
        rows = self._db.execute(
            "SELECT seq, digest, line FROM slots WHERE epoch_number = ? AND seq > ? AND seq <= ? ORDER BY seq",
            (epoch_number, after_seq, last_seq),
        )
        for seq, expected, packed in rows:
            try:
                line = zlib.decompress(packed)
            except (zlib.error, TypeError) as error:
                raise JournalError("corrupt", f"slot {seq} of epoch {epoch_number}: {error}") from error
            if digest(line) != expected:
                raise JournalError("corrupt", f"slot {seq} of epoch {epoch_number}: is not what was written")
            yield line

    def count(self) -> int:
        """Return the number of slots held."""
        return int(self._db.execute("SELECT count(*) FROM slots").fetchone()[0])

    def used_bytes(self) -> int:
        """Return the size of the file's pages that hold something, in bytes."""
        pages, free, size = (
            int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def remove_ended_before(self, end_ns: int, count: int, keep: Position) -> list[Position]:
        """Remove up to `count` oldest slots that ended before `end_ns`, except `keep`; return their places."""
        rows = self._db.execute(
            "DELETE FROM slots WHERE id IN (SELECT id FROM slots WHERE (epoch_number, seq) < (?, ?)"
            " ORDER BY epoch_number, seq LIMIT ?) AND end_ns < ? RETURNING epoch_number, seq",
            (keep.epoch_number, keep.seq, count, end_ns),
        ).fetchall()
        return [Position(*row) for row in rows]

    def remove_oldest(self, count: int, keep: Position) -> list[Position]:
        """Remove up to `count` oldest slots, except `keep`; return their places."""
        rows = self._db.execute(
            "DELETE FROM slots WHERE id IN (SELECT id FROM slots WHERE (epoch_number, seq) < (?, ?)"
            " ORDER BY epoch_number, seq LIMIT ?) RETURNING epoch_number, seq",
            (keep.epoch_number, keep.seq, count),
        ).fetchall()
        return [Position(*row) for row in rows]

    def remove_empty_epochs(self) -> None:
        """Forget epochs without slots."""
        self._db.execute("DELETE FROM epochs WHERE number NOT IN (SELECT epoch_number FROM slots)")

    def give_back_pages(self) -> None:
        """Return free pages to the file system."""
        self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def close(self) -> None:
        """Close the connection; the last one folds the write-ahead log into the file."""
        self._db.close()
