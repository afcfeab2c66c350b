"""A whole account in one file, the same from either database: gzip over lines of JSON.

Line 1 is a header with the schema's revision; then per table a line that names its columns, followed by its rows; at
the end a line with the number of rows and the digest of all before, so that a file cut short is never restored.
"""

import base64
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, Integer, LargeBinary, MetaData, Table, func, inspect, select, text

from kwhere.core.errors import ConfigError, SourceError
from kwhere.database import bulk
from kwhere.database.engine import POSTGRESQL, writing
from kwhere.database.maintenance import current_revision, head_revision, is_newer, upgrade_to
from kwhere.database.schema import metadata

FORMAT = 1
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """What a backup file says of itself."""

    revision: str
    created_ns: int
    rows: int


def backup(engine: Engine, path: Path, now_ns: int) -> BackupFacts:
    """Write the account as it is at this moment to `path` (0600), while the server goes on. Raises ConfigError."""
    part = path.with_name(path.name + ".part")
    options: dict[str, Any] = {}
    if engine.dialect.name == POSTGRESQL:
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        revision = current_revision(connection)
        if revision != head_revision():
            raise ConfigError(f"database.url: revision {revision}, expected {head_revision()}; run the upgrade first")
        try:
            with _open(part) as file:
                facts = _write(connection, file, revision, now_ns)
        except OSError as error:
            raise ConfigError(f"backup file {path}: {error}") from error
    os.replace(part, path)
    return facts


def _open(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _write(connection: Connection, file: IO[bytes], revision: str, now_ns: int) -> BackupFacts:
    digest, rows = hashlib.sha256(), 0
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=3, mtime=0) as packed:

        def write(record: object) -> None:
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
            digest.update(line)
            packed.write(line)

        write({"format": FORMAT, "revision": revision, "created_ns": now_ns})
        for table in metadata.sorted_tables:
            write({"table": table.name, "columns": [column.name for column in table.columns]})
            for row in _rows(connection, table):
                write(row)
                rows += 1
        packed.write(json.dumps({"rows": rows, "sha256": digest.hexdigest()}).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
    return BackupFacts(revision, now_ns, rows)


def _rows(connection: Connection, table: Table) -> Iterator[list[object]]:
    blobs = [isinstance(column.type, LargeBinary) for column in table.columns]
    streamed = connection.execution_options(stream_results=True, yield_per=_BATCH)
    for row in streamed.execute(select(table)):
        values = zip(row, blobs, strict=True)
        yield [base64.b64encode(value).decode() if blob and value else value for value, blob in values]


def restore(engine: Engine, path: Path) -> BackupFacts:
    """Fill an empty database from a file and bring it to this version's schema, all or nothing.

    Raises ConfigError where the database is not empty or the file is of a newer version, SourceError where the file is
    damaged.
    """
    facts = verify(path)
    if is_newer(facts.revision):
        known = head_revision()
        raise ConfigError(f"backup file {path}: revision {facts.revision} is newer than this version's {known}")
    with writing(engine).begin() as connection:
        _require_empty(connection)
        upgrade_to(connection, facts.revision)
        for batch in _batches(connection, path):
            bulk.insert(connection, batch.table, batch.columns, batch.rows)
        if connection.dialect.name == POSTGRESQL:
            _set_sequences(connection)
        upgrade_to(connection, "head")
    return facts


def verify(path: Path) -> BackupFacts:
    """Return what a file says of itself, once it has been read to its end. Raises SourceError."""
    digest, rows, lines = hashlib.sha256(), 0, _lines(path)
    header = next(lines, b"")
    digest.update(header)
    facts = _record(header, path)
    if facts.get("format") != FORMAT:
        raise SourceError(f"backup file {path}: expected format {FORMAT}, found {facts.get('format')!r}")
    last = b""
    for line in lines:
        if last:
            digest.update(last)
            rows += last.startswith(b"[")
        last = line
    end = _record(last, path)
    if end != {"rows": rows, "sha256": digest.hexdigest()}:
        raise SourceError(f"backup file {path}: damaged or cut short; nothing was restored")
    return BackupFacts(str(facts["revision"]), int(facts["created_ns"]), rows)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as file:
            yield from file
    except (OSError, EOFError) as error:
        raise SourceError(f"backup file {path}: {error}") from error


def _record(line: bytes, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise SourceError(f"backup file {path}: expected a line of JSON; damaged or cut short") from error
    if not isinstance(record, dict):
        raise SourceError(f"backup file {path}: expected an object, found {type(record).__name__}")
    return record


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of one table, which is as this database has it: maybe an older revision's."""

    table: Table
    columns: list[str]
    rows: list[bulk.Row]

    def add(self, values: list[Any]) -> None:
        kinds = [self.table.c[name].type for name in self.columns]
        row = tuple(
            base64.b64decode(value) if value and isinstance(kind, LargeBinary) else value
            for value, kind in zip(values, kinds, strict=True)
        )
        self.rows.append(row)


def _batches(connection: Connection, path: Path) -> Iterator[_Batch]:
    held = MetaData()
    batch: _Batch | None = None
    for line in _lines(path):
        record = json.loads(line)
        if isinstance(record, list):
            assert batch is not None
            batch.add(record)
            if len(batch.rows) < _BATCH:
                continue
        if batch is not None and batch.rows:
            yield batch
            batch = _Batch(batch.table, batch.columns, [])
        if isinstance(record, dict) and "table" in record:
            batch = _Batch(Table(record["table"], held, autoload_with=connection), record["columns"], [])


def _require_empty(connection: Connection) -> None:
    names = set(inspect(connection).get_table_names())
    for table in metadata.sorted_tables:
        if table.name in names and connection.execute(select(func.count()).select_from(table)).scalar_one():
            raise ConfigError(f"database.url: is not empty (table {table.name}): a backup goes into an empty one")


def _set_sequences(connection: Connection) -> None:
    for table in metadata.sorted_tables:
        if "id" in table.columns and isinstance(table.c.id.type, Integer):
            largest = f"(SELECT coalesce(max(id), 0) + 1 FROM {table.name})"  # noqa: S608 - a name of the schema
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {largest}, false)"))
