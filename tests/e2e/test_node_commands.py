"""`kwhere nodes retire` and `resume`, on a real file."""

from pathlib import Path

import pytest
from sqlalchemy import select
from tests.account_site import Site, worked_case
from tests.journals import HandJournal

from kwhere.cli.main import run_root
from kwhere.database import schema
from kwhere.database.cursors import find_epoch, stop
from kwhere.database.engine import open_engine, writing
from kwhere.database.maintenance import upgrade
from kwhere.database.settings import DatabaseSettings


def test_a_node_is_retired_and_a_stopped_journal_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = open_engine(DatabaseSettings(url=f"sqlite:///{tmp_path / 'kwhere.db'}"))
    upgrade(engine)
    journal = worked_case(HandJournal(node="n1"))
    Site(engine).take(journal)
    with writing(engine).begin() as connection:
        assert stop(connection, journal.epochs[0], "it went back")
    where = ["--state", str(tmp_path)]

    codes = [
        run_root(["nodes", "resume", "c1", "n1", *where]),
        run_root(["nodes", "resume", "c1", "n1", *where]),
        run_root(["nodes", "retire", "c1", "n1", *where]),
        run_root(["nodes", "retire", "c1", "n9", *where]),
    ]
    said = capsys.readouterr()

    assert codes == [0, 1, 0, 1]
    assert "c1/n1: 1 stopped journals are taken in again" in said.out
    assert "node n9 of cluster c1: there is none" in said.err
    with engine.connect() as connection:
        row = find_epoch(connection, journal.epochs[0])
        assert row is not None
        assert row.stopped is None
        assert connection.execute(select(schema.nodes.c.retired_ns)).scalar_one() is not None
        actions = connection.execute(select(schema.audit.c.action, schema.audit.c.subject)).all()
    assert [tuple(action) for action in actions] == [("resume journal", "c1/n1"), ("retire node", "c1/n1")]
    engine.dispose()
