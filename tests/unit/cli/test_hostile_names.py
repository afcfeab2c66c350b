"""Names that would drive the terminal of whoever reads them, in every command and style: case_users_40."""

import csv
import io
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command_api import CommandApi
from tests.unit.cli.job_units import JOB, PLAIN, waiting

from kwhere.cli.main import run_root

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\n\u202egnp\u2066\x7f\0\ttab"
"""Clears the screen, names the window, reddens in C1, goes back, turns the direction, deletes."""


def hostile(value: Any) -> Any:
    """Return a document whose texts that people make are all hostile; keys, times and known words stay."""
    if isinstance(value, Mapping):
        return {key: EVIL if key in PEOPLES and isinstance(each, str) else hostile(each) for key, each in value.items()}
    return [hostile(each) for each in value] if isinstance(value, list) else value


PEOPLES = frozenset(
    {
        *("cluster", "name", "user", "project", "group", "queue", "state", "reason", "node", "profile", "model"),
        *("text", "action", "source", "kube_pod", "kube_namespace", "job", "key", "error", "description"),
    }
)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandApi]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    time.tzset()
    with CommandApi(tmp_path) as found:
        unit = hostile({**JOB, "labels": {}})
        found.lists("/units", unit, {**hostile(PLAIN), "nodes": [EVIL]})
        found.lists("/queue", hostile(waiting("7")))
        found.lists("/managers", {"manager": EVIL, "cluster": EVIL, "error": EVIL, "good_until": None})
        found.tells(f"/units/{JOB['cluster']}/{JOB['manager']}/{JOB['unit']}", unit)
        usage = {"key": EVIL, "cluster": EVIL, "kind": "user", "units": 1, "energy_joules_total": 5.0}
        usage |= {"cpu_seconds": 1.0, "emissions_grams": None, "cpu_allocated_seconds": None, "gpu_busy_seconds": None}
        span = {"from": "2026-11-29T00:00:00Z", "to": "2026-11-30T00:00:00Z"}
        found.tells("/usage", {"by": "user", "items": [usage], "span": span})
        yield found
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs a command, in a terminal or into a pipe, and returns exit code, stdout and stderr."""

    def run(*arguments: str, is_terminal: bool = True) -> tuple[int, str, str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
        code = run_root([*arguments, "--state-dir", str(tmp_path)])
        return code, *capsys.readouterr()

    return run


COMMANDS = (
    *(("units", *style) for style in ((), ("--json",), ("--csv",), ("--yaml",), ("-P",), ("-o", "id,name,nodes,user"))),
    *(("units", "-s", "pending", *style) for style in (("-o", "id,name,reason"), ("--json",), ("-P", "-o", "name"))),
    *(("units", "-s", "failed", "-u", EVIL), ("units", "-q", "nothing")),
    *(("unit", f"{JOB['cluster']}/{JOB['manager']}/{JOB['unit']}", *style) for style in ((), ("--json",), ("--csv",))),
    *(("report", *style) for style in ((), ("--json",), ("--csv",), ("-P",))),
    ("unit", EVIL),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: "_".join(words)[:40].encode("ascii", "replace"))
def test_no_name_drives_a_terminal(api: CommandApi, run: Any, arguments: tuple[str, ...]) -> None:
    _, out, err = run(*arguments)

    assert out + err
    assert {sign for sign in out + err if not sign.isprintable()} <= {"\n", "\t"}


@pytest.mark.parametrize("path", ["/units", "/usage"])
def test_no_error_of_a_server_drives_a_terminal(api: CommandApi, run: Any, path: str) -> None:
    api.refuses(path, 422, EVIL)

    code, out, err = run("units" if path == "/units" else "report")

    assert (code, out) == (2, "")
    assert "[2J" in err
    assert {sign for sign in err if not sign.isprintable()} <= {"\n", "\t"}


def test_a_program_reads_names_as_they_are(api: CommandApi, run: Any) -> None:
    documents = (
        json.loads(run("units", "--json", is_terminal=False)[1])["items"],
        yaml.safe_load(run("units", "--yaml", is_terminal=False)[1])["items"],
        list(csv.DictReader(io.StringIO(run("units", "--csv", is_terminal=False)[1], newline=""))),
        list(csv.DictReader(io.StringIO(run("units", "-P", is_terminal=False)[1], newline=""), delimiter="|")),
    )

    assert [[item["name"] for item in items] for items in documents] == [[EVIL, EVIL]] * 4


@pytest.mark.parametrize("name", ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1"])
def test_no_name_is_a_formula_in_csv(api: CommandApi, run: Any, name: str) -> None:
    api.lists("/units", {**PLAIN, "name": name})

    rows = csv.DictReader(io.StringIO(run("units", "--csv", is_terminal=False)[1], newline=""))
    columns = csv.DictReader(io.StringIO(run("units", "-P", is_terminal=False)[1], newline=""), delimiter="|")

    assert [row["name"] for row in rows] == [f"'{name}"]
    assert [row["name"] for row in columns] == [name]
