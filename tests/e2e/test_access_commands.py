"""`kwhere server token`, `kwhere server audit`, `kwhere database export-user` and `erase-user`, on a real file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.account_site import Site, worked_case
from tests.databases import sqlite_engine
from tests.journals import HandJournal

from kwhere.cli.main import run_root

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    engine = sqlite_engine(tmp_path / "kwhere.db")
    Site(engine).take(worked_case(HandJournal()))
    engine.dispose()

    def command(*words: str) -> tuple[int, str, str]:
        code = run_root([*words, "--state", str(tmp_path)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


def test_a_tokens_life(run: Run) -> None:
    code, token, _ = run("server", "token", "create", "alice", "--role", "auditor", "--days", "1", "--note", "ci")
    listed = run("server", "token", "list")[1]
    as_json = json.loads(run("server", "token", "list", "--json")[1])["items"]
    revoked = run("server", "token", "revoke", token.strip())
    again = run("server", "token", "revoke", as_json[0]["id"])

    assert code == 0
    assert token.startswith("kwt_")
    assert [word in listed for word in ("alice", "auditor", "valid", "ci", as_json[0]["id"])] == [True] * 5
    assert token.strip() not in listed + json.dumps(as_json)
    assert (revoked[0], again[0]) == (0, 1)
    assert "revoked" in run("server", "token", "list")[1]


@pytest.mark.parametrize("owner", ["", "al ice", "1000", "alice\n"])
def test_an_owner_is_a_name(run: Run, owner: str) -> None:
    code, _, error = run("server", "token", "create", owner)

    assert code == 2
    assert error.startswith("kwhere: OWNER: the name ")


def test_an_option_of_the_server_is_none_of_its_tokens(run: Run) -> None:
    code, _, error = run("server", "--config.file", "x.yaml", "token", "list")

    assert code == 2
    assert "--config.file goes behind `token`" in error


def test_the_log_tells_what_was_done_at_the_command_line(run: Run) -> None:
    run("server", "token", "create", "alice")
    text = run("server", "audit", "--action", "create token")[1]
    items = json.loads(run("server", "audit", "--json", "-S", "now-1hour")[1])["items"]

    assert "create token" in text
    assert [item["action"] for item in items] == ["create token"]
    assert items[0]["actor"].endswith("at the command line")
    assert items[0]["detail"]["owner"] == "alice"
    assert json.loads(run("server", "audit", "--json", "-E", "now-1hour")[1])["items"] == []
    assert run("server", "audit", "-S", "today", "-E", "yesterday")[0] == 2


def test_a_person_is_handed_out_and_taken_out(run: Run) -> None:
    code, out, _ = run("database", "export-user", "c1", "alice")
    lines = [json.loads(line) for line in out.splitlines()]
    erased = run("database", "erase-user", "c1", "alice", "--yes")
    gone = run("database", "export-user", "c1", "alice")
    alias = erased[1].split(" is ")[1].split()[0]

    assert code == 0
    assert {"users", "units", "run_totals"} <= {line["table"] for line in lines}
    assert erased[0] == 0
    assert (gone[0], gone[1]) == (1, "")
    after = [json.loads(line) for line in run("database", "export-user", "c1", alias)[1].splitlines()]
    assert [line for line in after if line["table"] == "run_totals"] == [
        line for line in lines if line["table"] == "run_totals"
    ]


def test_a_name_is_not_erased_unasked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: "n")

    assert run("database", "erase-user", "c1", "alice")[0] != 0
    assert run("database", "export-user", "c1", "alice")[0] == 0
