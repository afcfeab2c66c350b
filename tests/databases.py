"""Engines on fresh databases: the same test over SQLite and a real PostgreSQL."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, or_, select, text
from tests import postgresql

from kwhere.database import schema
from kwhere.database.ended_owners import HELD
from kwhere.database.engine import open_engine
from kwhere.database.maintenance import upgrade
from kwhere.database.schema import metadata
from kwhere.database.settings import DatabaseSettings

BOTH = ("sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql")))


@functools.cache
def _sqlite_template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kwhere-sqlite-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "template.sqlite"
    engine = open_engine(DatabaseSettings(url=f"sqlite:///{path}"))
    upgrade(engine)
    engine.dispose()
    return path


def sqlite_engine(path: Path) -> Engine:
    """Return an engine on a fresh database at `path`."""
    shutil.copyfile(_sqlite_template(), path)
    return open_engine(DatabaseSettings(url=f"sqlite:///{path}"))


@pytest.fixture(params=BOTH)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An upgraded, empty database: once on SQLite, once on PostgreSQL."""
    if request.param == "sqlite":
        opened = sqlite_engine(tmp_path / "account.sqlite")
        yield opened
        _check_owners(opened)
        opened.dispose()
        return
    opened = open_engine(DatabaseSettings(url=_shared_postgresql()))
    with opened.begin() as connection:
        names = ", ".join(sorted(metadata.tables))
        connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
    yield opened
    _check_owners(opened)
    opened.dispose()


def _check_owners(engine: Engine) -> None:
    """Whatever a test did: the owners beside totals are those of the units, of all that ended and of no other."""
    units, totals = schema.units, schema.unit_totals.c
    differs = or_(*(totals[held].is_distinct_from(owner) for held, owner in HELD.items()))
    query = select(units.c.unit).join(schema.unit_totals, totals.unit_id == units.c.id).where(differs)
    with engine.connect() as connection:
        assert connection.execute(query).scalars().all() == []


@functools.cache
def _shared_postgresql() -> str:
    """One database for all tests of this process: emptying it is quicker than making one."""
    return postgresql.new_database()
