"""Keeping the schema in order: check, upgrade."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from kwhere.core.errors import ConfigError
from kwhere.database.engine import POSTGRESQL, SQLITE, writing
from kwhere.database.schema import metadata

_MIGRATIONS = Path(__file__).parent / "migrations"
_UPGRADE_LOCK = 0x6B776865
"""Two servers that start at once: PostgreSQL lets one of them upgrade."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Which revision a database has, and which this version needs."""

    current: str | None
    """None: an empty database."""
    needed: str
    problems: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        """Return whether the server can start on it."""
        return self.current == self.needed and not self.problems


def check(engine: Engine) -> SchemaState:
    """Return the state of a database; finds a newer schema, missing tables and a damaged SQLite file."""
    with engine.connect() as connection:
        current = current_revision(connection)
        problems = [*_newer(current), *_missing(connection, current), *_damage(connection)]
    return SchemaState(current, _head(), tuple(problems))


def upgrade(engine: Engine) -> SchemaState:
    """Bring the schema to this version's. Raises ConfigError where a newer version has been at it."""
    with writing(engine).begin() as connection:
        if connection.dialect.name == POSTGRESQL:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
        newer = _newer(current_revision(connection))
        if newer:
            raise ConfigError(f"database.url: {newer[0]}")
        upgrade_to(connection, "head")
    return check(engine)


def upgrade_to(connection: Connection, revision: str) -> None:
    """Bring the schema to `revision`, in the transaction of `connection`."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def require_current(engine: Engine) -> None:
    """Raise ConfigError, which says what to do, unless the schema is this version's."""
    state = check(engine)
    if not state.is_current:
        found = "; ".join(state.problems) or f"revision {state.current}, expected {state.needed}"
        raise ConfigError(f"database.url: {found}; run `kwhere database upgrade`")


def head_revision() -> str:
    """Return the revision this version needs."""
    return _head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _head() -> str:
    head = _script().get_current_head()
    if head is None:
        raise ConfigError("database: this installation has no revisions")
    return head


def current_revision(connection: Connection) -> str | None:
    """Return the revision that a database has; None where it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def is_newer(revision: str | None) -> bool:
    """Return whether a revision is unknown to this version, and so of a newer one."""
    return revision is not None and revision not in {script.revision for script in _script().walk_revisions()}


def _newer(current: str | None) -> list[str]:
    if not is_newer(current):
        return []
    return [f"schema revision {current} is newer than this version's {_head()}: install the newer kwhere"]


def _missing(connection: Connection, current: str | None) -> list[str]:
    if current != _head():
        return []
    missing = sorted(set(metadata.tables) - set(inspect(connection).get_table_names()))
    return [f"tables are missing: {', '.join(missing)}"] if missing else []


def _damage(connection: Connection) -> list[str]:
    if connection.dialect.name != SQLITE:
        return []
    found = connection.execute(text("PRAGMA quick_check(3)")).scalars().all()
    return [] if found == ["ok"] else [f"the file is damaged: {'; '.join(map(str, found))}"]
