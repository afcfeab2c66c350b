"""Backup and restore: the drill, between both databases, and files that must not be restored."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests import postgresql
from tests.account_site import Site, all_rows, worked_case
from tests.databases import BOTH
from tests.journals import SECOND_NS, T0_NS, HandJournal

from kwhere.core.errors import ConfigError, SourceError
from kwhere.database import schema
from kwhere.database.backup import backup, restore, verify
from kwhere.database.engine import open_engine
from kwhere.database.maintenance import check, head_revision
from kwhere.database.settings import DatabaseSettings

DAY_NS = 86_400 * SECOND_NS


@pytest.fixture(params=BOTH)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database without a single table: what a restore goes into."""
    url = f"sqlite:///{tmp_path / 'new.sqlite'}"
    if request.param == "postgresql":
        url = postgresql.new_database(upgraded=False)
    opened = open_engine(DatabaseSettings(url=url))
    yield opened
    opened.dispose()
    if request.param == "postgresql":
        postgresql.drop_database(url)


def test_a_backup_restores_every_row(engine: Engine, empty: Engine, tmp_path: Path) -> None:
    site = Site(engine)
    site.take(worked_case(HandJournal(), slots=9))
    site.roll()
    path = tmp_path / "account.backup"

    written = backup(engine, path, T0_NS)
    read = restore(empty, path)

    assert written == read
    assert check(empty).is_current
    assert path.stat().st_mode & 0o777 == 0o600
    for table in schema.metadata.sorted_tables:
        assert all_rows(Site(empty), table) == all_rows(site, table)


def test_the_drill_a_backup_of_three_days_ago_is_refilled(engine: Engine, empty: Engine, tmp_path: Path) -> None:
    """The agent still holds three days; after the restore every total is what it would have been."""
    site, journal = Site(engine), HandJournal(slot_seconds=600)
    site.take(worked_case(journal, slots=144))
    backup(engine, tmp_path / "old.backup", journal.end_ns)
    worked_case(journal, slots=100)
    journal.new_epoch()
    worked_case(journal, slots=332)
    site.take(journal)
    site.roll()

    restore(empty, tmp_path / "old.backup")
    refilled = Site(empty)
    refilled.go_on(journal, site.clock.now_ns)
    refilled.roll()

    assert refilled.reader.unit("c1", "slurm", "a") == site.reader.unit("c1", "slurm", "a")
    for table in (schema.run_totals, schema.usage_5m, schema.usage_hour, schema.usage_day, schema.node_day):
        assert all_rows(refilled, table) == all_rows(site, table)
    assert all_rows(refilled, schema.lost) == []
    energy = schema.node_day.c.cpu_units_dynamic_uj + schema.node_day.c.cpu_units_idle_uj
    with empty.connect() as connection:
        assert sum(connection.execute(select(energy)).scalars()) == journal.control_uj


def test_after_a_restore_new_rows_have_new_ids(engine: Engine, empty: Engine, tmp_path: Path) -> None:
    Site(engine).take(worked_case(HandJournal()))
    backup(engine, tmp_path / "b", T0_NS)
    restore(empty, tmp_path / "b")

    Site(empty).take(worked_case(HandJournal(node="n2", machine_id="m2")))

    assert {node.node for node in Site(empty).reader.nodes().items} == {"n1", "n2"}


def test_a_database_that_is_not_empty_is_not_overwritten(engine: Engine, tmp_path: Path) -> None:
    Site(engine).take(worked_case(HandJournal()))
    backup(engine, tmp_path / "b", T0_NS)

    with pytest.raises(ConfigError, match="is not empty"):
        restore(engine, tmp_path / "b")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _without_end(data: bytes) -> bytes:
    return gzip.compress(b"".join(gzip.decompress(data).splitlines(keepends=True)[:-1]))


def _changed(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data).replace(b'"alice"', b'"mallo"'))


def _other_format(data: bytes) -> bytes:
    header, *lines = gzip.decompress(data).splitlines(keepends=True)
    return gzip.compress(b"".join([json.dumps({**json.loads(header), "format": 9}).encode() + b"\n", *lines]))


@pytest.mark.parametrize(
    "harm", [_cut, _without_end, _changed, _other_format, lambda data: b"", lambda data: b"text\n"]
)
def test_a_damaged_file_is_refused_whole(engine: Engine, tmp_path: Path, harm: Callable[[bytes], bytes]) -> None:
    Site(engine).take(worked_case(HandJournal()))
    path = tmp_path / "b"
    backup(engine, path, T0_NS)
    path.write_bytes(harm(path.read_bytes()))
    target = open_engine(DatabaseSettings(url=f"sqlite:///{tmp_path / 'target.sqlite'}"))

    with pytest.raises(SourceError, match="backup file"):
        restore(target, path)

    assert check(target).current is None
    target.dispose()


def test_a_newer_versions_backup_is_refused(engine: Engine, tmp_path: Path) -> None:
    backup(engine, tmp_path / "b", T0_NS)
    ours = f'"revision":"{head_revision()}"'.encode()
    text = gzip.decompress((tmp_path / "b").read_bytes()).replace(ours, b'"revision":"9999"')
    lines = text.splitlines(keepends=True)
    digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    end = json.dumps({**json.loads(lines[-1]), "sha256": digest}).encode() + b"\n"
    (tmp_path / "b").write_bytes(gzip.compress(b"".join([*lines[:-1], end])))

    assert verify(tmp_path / "b").revision == "9999"
    with pytest.raises(ConfigError, match="newer than this version"):
        restore(engine, tmp_path / "b")


def test_a_backup_that_cannot_be_written_says_so(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="backup file"):
        backup(engine, tmp_path / "none" / "b", T0_NS)
    shutil.rmtree(tmp_path, ignore_errors=True)
