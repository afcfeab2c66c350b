"""Engines: SQLite tuned for one writer and many readers, PostgreSQL as it comes."""

from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from kwhere.core.errors import ConfigError, Unavailable
from kwhere.database.settings import DatabaseSettings

SQLITE = "sqlite"
POSTGRESQL = "postgresql"


def open_engine(settings: DatabaseSettings) -> Engine:
    """Return an engine for `settings.url`; raises ConfigError for a URL it cannot serve.

    It connects on first use; where that fails, that use raises Unavailable. A new SQLite file is its owner's alone.
    """
    try:
        url = make_url(settings.url)
    except ArgumentError as error:
        raise ConfigError("database.url: expected a SQLAlchemy URL such as sqlite:////path/to/file.db") from error
    if url.get_backend_name() == SQLITE:
        engine = _open_sqlite(url, settings)
    elif url.get_backend_name() == POSTGRESQL:
        engine = _open_postgresql(url, settings)
    else:
        raise ConfigError(f"database.url: expected sqlite or postgresql, found {url.get_backend_name()}")
    event.listen(engine, "handle_error", _cannot_connect, retval=True)
    return engine


def _cannot_connect(context: ExceptionContext) -> Unavailable | None:
    """Return what a person can act on; what fails on an open connection is told as it is."""
    if context.connection is not None:
        return None
    first = str(context.original_exception).splitlines()[0]
    return Unavailable("database", f"database.url: the {context.dialect.name} database cannot be opened: {first}")


def _open_sqlite(url: URL, settings: DatabaseSettings) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise ConfigError("database.url: an in-memory SQLite would lose the account; name a file")
    engine = create_engine(url, connect_args={"timeout": settings.busy_seconds})

    @event.listens_for(engine, "do_connect")
    def _make(*_: object) -> None:
        with suppress(OSError):  # SQLite says it better
            Path(url.database or "").touch(0o600)

    # The driver's own transactions begin too late (after the first read): we say BEGIN ourselves.
    @event.listens_for(engine, "connect")
    def _prepare(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",  # WAL: a crash of the machine costs the last commits, which agents serve again
            "foreign_keys=ON",
            "temp_store=MEMORY",
            "cache_size=-65536",
            "mmap_size=268435456",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")

    return engine


def _open_postgresql(url: URL, settings: DatabaseSettings) -> Engine:
    if url.drivername == POSTGRESQL:
        url = url.set(drivername="postgresql+psycopg")
    if settings.password_file is not None:
        try:
            url = url.set(password=Path(settings.password_file).read_text(encoding="utf-8").strip())
        except OSError as error:
            raise ConfigError(f"database.password_file: cannot be read: {error}") from error
    return create_engine(url, pool_size=settings.pool_size, max_overflow=settings.pool_size, pool_pre_ping=True)


def writing(engine: Engine) -> Engine:
    """Return the engine for transactions that write: on SQLite they take the write lock at once."""
    return engine.execution_options(writes=True)
