"""The schema: made, checked, upgraded, and refused where a newer version has been at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, text

from kwhere.core.errors import ConfigError, Unavailable
from kwhere.database.engine import open_engine, writing
from kwhere.database.maintenance import check, head_revision, require_current, upgrade, upgrade_to
from kwhere.database.schema import metadata
from kwhere.database.settings import DatabaseSettings, SiteSettings


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(DatabaseSettings(url=f"sqlite:///{tmp_path / 'fresh.sqlite'}"))
    yield opened
    opened.dispose()


def test_an_upgraded_database_has_the_schema_of_the_code(engine: Engine) -> None:
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)

    assert differences == []
    assert check(engine).is_current


def test_an_empty_database_is_told_what_to_do(fresh: Engine) -> None:
    assert (check(fresh).current, check(fresh).is_current) == (None, False)
    with pytest.raises(ConfigError, match="kwhere database upgrade"):
        require_current(fresh)


def test_upgrading_twice_changes_nothing(fresh: Engine) -> None:
    first = upgrade(fresh)

    assert upgrade(fresh) == first
    require_current(fresh)


def test_a_newer_schema_is_refused(engine: Engine) -> None:
    with writing(engine).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    try:
        with pytest.raises(ConfigError, match="newer than this version"):
            upgrade(engine)
        with pytest.raises(ConfigError, match="newer than this version"):
            require_current(engine)
    finally:
        with writing(engine).begin() as connection:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{head_revision()}'"))


def test_a_database_of_the_first_revision_keeps_its_rows(fresh: Engine) -> None:
    with writing(fresh).begin() as connection:
        upgrade_to(connection, "0001")
        connection.execute(text("INSERT INTO clusters (id, name) VALUES (1, 'c')"))
        connection.execute(text("INSERT INTO nodes (id, cluster_id, name) VALUES (1, 1, 'n')"))
        connection.execute(
            text(
                "INSERT INTO cursors (epoch, node_id, journal, seq, finished, target, machine_id, boot_id, opened_ns)"
                " VALUES ('e', 1, 'e', 7, false, 't', 'm', 'b', 1)"
            )
        )
        connection.execute(text("INSERT INTO touched VALUES ('hour', 1, 0, 3, 'factor')"))
        connection.execute(text("INSERT INTO unit_runs (id, node_id, kind, started_ns) VALUES (1, 1, 'unit', 0)"))
        connection.execute(
            text("INSERT INTO run_totals (unit_run_id, newest_end_ns, flags, gpu_busy_ns) VALUES (1, 9, 0, 5)")
        )

    upgrade(fresh)

    with fresh.connect() as connection:
        assert connection.execute(text("SELECT seq, facts FROM cursors")).one() == (7, None)
        # what waits is summed up anew: an older version may have hidden that its slots changed
        assert connection.execute(text("SELECT version, cause FROM touched")).one() == (3, "slots")
        seen = connection.execute(text("SELECT gpu_busy_ns, gpu_held_idle_ns, gpu_memory_peak_bytes FROM run_totals"))
        assert seen.one() == (5, None, None)
        assert connection.execute(text("SELECT count(*) FROM run_gpus")).scalar_one() == 0
    require_current(fresh)


def test_owners_of_what_has_ended_are_filled_in(fresh: Engine) -> None:
    with writing(fresh).begin() as connection:
        upgrade_to(connection, "0010")
        for statement in (
            "INSERT INTO clusters (id, name) VALUES (1, 'c1')",
            "INSERT INTO users (id, cluster_id, name, last_seen_ns) VALUES (7, 1, 'alice', 1)",
            "INSERT INTO projects (id, cluster_id, name, last_seen_ns) VALUES (8, 1, 'p1', 1)",
            "INSERT INTO units (id, cluster_id, manager, unit, run, user_id, project_id, search, state, started_ns,"
            " ended_ns) VALUES (1, 1, 'slurm', 'a', 'a', 7, 8, 'a', 'ended', 1, 2),"
            " (2, 1, 'slurm', 'b', 'b', 7, 8, 'b', 'running', 1, NULL),"
            " (3, 1, 'slurm', 'c', 'c', 7, NULL, 'c', 'ended', 1, 2)",
            "INSERT INTO unit_totals (unit_id, newest_end_ns, energy_uj, cpu_ns)"
            " VALUES (1, 2, 5, 5), (2, 2, 5, 5), (3, 2, 5, 5)",
        ):
            connection.execute(text(statement))

    upgrade(fresh)

    with fresh.connect() as connection:
        rows = connection.execute(
            text("SELECT ended_user_id, ended_project_id FROM unit_totals ORDER BY unit_id")
        ).all()
    assert [tuple(row) for row in rows] == [(7, 8), (None, None), (7, None)]


def test_a_missing_table_is_found(fresh: Engine) -> None:
    upgrade(fresh)
    with writing(fresh).begin() as connection:
        connection.execute(text("DROP TABLE audit"))

    assert check(fresh).problems == ("tables are missing: audit",)


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    engine = open_engine(DatabaseSettings(url=f"sqlite:///{path}"))
    upgrade(engine)
    engine.dispose()
    data = bytearray(path.read_bytes())
    data[8192 : 8192 + 4096] = b"\xff" * 4096
    path.write_bytes(data)

    state = check(open_engine(DatabaseSettings(url=f"sqlite:///{path}")))

    assert any("damaged" in problem for problem in state.problems)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "expected a SQLAlchemy URL"),
        ("mysql://localhost/x", "expected sqlite or postgresql, found mysql"),
        ("sqlite://", "in-memory"),
        ("sqlite:///:memory:", "in-memory"),
    ],
)
def test_a_url_that_cannot_serve_names_its_key(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"database\.url: .*{message}"):
        open_engine(DatabaseSettings(url=url))


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")

    engine = open_engine(
        DatabaseSettings(url="postgresql://kwhere@localhost/kwhere", password_file=str(tmp_path / "password"))
    )

    assert engine.url.password == "s3cret"
    assert "s3cret" not in repr(engine)
    with pytest.raises(ConfigError, match=r"database\.password_file"):
        open_engine(DatabaseSettings(url="postgresql://h/d", password_file=str(tmp_path / "none")))


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown time zone"):
        SiteSettings(time_zone="Mars/Olympus")


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/none", "sqlite:////nonexistent/folder/x.sqlite", "sqlite:///{garbage}"]
)
def test_a_database_that_cannot_be_opened_says_so(tmp_path: Path, url: str) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"this is no database, it is a text of some length " * 40)
    engine = open_engine(DatabaseSettings(url=url.format(garbage=garbage)))

    with pytest.raises(Unavailable, match=r"^database\.url: the \w+ database cannot be opened: .+"):
        check(engine)
    with pytest.raises(Unavailable, match=r"database\.url"):
        upgrade(engine)
    engine.dispose()


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    engine = open_engine(DatabaseSettings(url=f"sqlite:///{path}"))

    upgrade(engine)

    assert [found.stat().st_mode & 0o777 for found in tmp_path.iterdir()] == [0o600] * len(list(tmp_path.iterdir()))
    engine.dispose()
