"""`kwhere units`, `unit` and `nodes` against a real HTTP server that answers as the API does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kwhere.cli.main import run_root
from kwhere.cli.unit_table import name_beside
from kwhere.reports.usage_text import usage_lines

UNIT: dict[str, Any] = {
    "cluster": "local",
    "manager": "process",
    "unit": "root:stress-ng",
    "run": "root:stress-ng@1795975931",
    "name": "stress-ng",
    "user": "root",
    "project": None,
    "state": "running",
    "nodes": ["vm"],
    "submitted_at": None,
    "started_at": "2026-11-29T17:00:00Z",
    "ended_at": None,
    "allocation": {"cpus": None, "memory_bytes": None, "gpus": {}},
    "power_watts": 12.5,
    "cpu_seconds": {"user": 90.0, "system": 10.0},
    "cpu_efficiency_ratio": None,
    "memory_peak_bytes": 3 << 20,
    "gpu_busy_seconds": None,
    "energy_joules": {"cpu": {"dynamic": 7200.0, "idle": 0.0}, "total": 7200.0},
    "energy_joules_total": 7200.0,
    "emissions_grams": None,
    "emissions": [],
    "cost": None,
    "method": "modelled",
    "quality": ["gap"],
}

USAGE_ROW: dict[str, Any] = {
    "key": "alice",
    "cluster": "local",
    "kind": "unit",
    "units": 3,
    "energy_joules": {"cpu": {"dynamic": 5400.0, "idle": 0.0}, "total": 5400.0},
    "energy_joules_total": 5400.0,
    "cpu_seconds": 100.0,
    "cpu_allocated_seconds": None,
    "gpu_busy_seconds": None,
    "emissions_grams": None,
}
USAGE: dict[str, Any] = {
    "span": {"from": "2026-11-28T19:55:00Z", "to": "2026-11-29T20:00:00Z"},
    "items": [
        USAGE_ROW,
        {**USAGE_ROW, "key": None, "kind": "system", "units": 0, "energy_joules_total": 1800.0, "cpu_seconds": 7.0},
    ],
}

RECONCILIATION: dict[str, Any] = {
    "agreement": {"sentence": "psys is 72 % below BMC (redfish).", "disagrees": True, "causes": ["its unit"]},
    "meters": [
        {
            "source": "redfish",
            "domain": "platform",
            "power_watts": 228.0,
            "role": "speaks",
            "reference": None,
            "difference_ratio": None,
        },
        {
            "source": "psys",
            "domain": "platform",
            "power_watts": 63.0,
            "role": "compared",
            "reference": "redfish",
            "difference_ratio": -0.724,
        },
    ],
}


class Handler(BaseHTTPRequestHandler):
    """Two pages of units; one unit; one node; everything else is a problem."""

    def do_GET(self) -> None:
        """Answer as the API."""
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if self.headers["Authorization"] != "Bearer secret":
            self.answer(401, {"title": "Access token needed", "detail": "open the address that was printed"})
        elif url.path == "/api/v1/units" and query.get("user") == ["nobody"]:
            self.answer(200, {"items": [], "next": None})
        elif url.path == "/api/v1/units" and query.get("sort") == ["-power_watts"]:
            self.answer(200, {"items": [{**UNIT, "state": query["state"][0]}], "next": None})
        elif url.path == "/api/v1/units":
            second = "after" in query
            name = "root:b" if second else "root:stress-ng"
            self.answer(200, {"items": [{**UNIT, "unit": name}], "next": None if second else "cursor"})
        elif url.path == "/api/v1/units/local/process/root%3Astress-ng":
            self.answer(200, UNIT)
        elif url.path == "/api/v1/usage":
            self.answer(200, {**USAGE, "by": query["by"][0]})
        elif url.path == "/api/v1/nodes":
            node = {"cluster": "local", "node": "vm", "state": "up", "power_watts": 61.0, "completeness": 1.0}
            self.answer(200, {"items": [node], "next": None})
        elif url.path == "/api/v1/nodes/vm/reconciliation":
            self.answer(200, RECONCILIATION)
        else:
            self.answer(404, {"title": "Not found", "detail": f"{url.path}: not found"})

    def answer(self, status: int, body: object) -> None:
        """Send one JSON document."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Return the state directory of a server that runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (tmp_path / "url").write_text(f"http://127.0.0.1:{server.server_port}\n")
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)
    yield tmp_path
    server.shutdown()
    thread.join()
    server.server_close()


def test_units_fit_80_columns(state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert run_root(["units", "--state-dir", str(state)]) == 0

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[:3] for line in lines[1:]] == [
        ["process", "root:stress-ng", "root"],
        ["process", "root:b", "root"],
    ]
    assert "12.5" in lines[1]
    assert "2.00" in lines[1]
    assert "estimated" in err


def test_units_as_json_and_csv(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root(["units", "--state-dir", str(state), "--json"])
    document = json.loads(capsys.readouterr().out)
    run_root(["units", "--state-dir", str(state), "--csv", "--limit", "1"])
    lines = capsys.readouterr().out.splitlines()

    assert document["items"][0] == UNIT
    assert lines[0].startswith("cluster,manager,unit,run,")
    assert lines[1].startswith("local,process,root:stress-ng,root:stress-ng@1795975931,stress-ng,root,,running,")
    assert len(lines) == 2


def test_an_empty_list_says_so_on_stderr(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["units", "--state-dir", str(state), "-u", "nobody"]) == 0

    assert capsys.readouterr() == ("", "no units match; a new one shows after its first slot\n")


@pytest.mark.parametrize("ident", ["root:stress-ng", "process/root:stress-ng", "local/process/root:stress-ng"])
def test_a_unit_reads_like_a_job_report(state: Path, capsys: pytest.CaptureFixture[str], ident: str) -> None:
    assert run_root(["unit", ident, "--state-dir", str(state)]) == 0

    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "Energy: 2.00 Wh, method modelled" in out
    assert "CO2e: – (no zone set)" in out
    assert "gap: part of the time was not measured" in out


def test_a_unit_that_is_not_there_is_exit_code_1(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["unit", "slurm/7", "--state-dir", str(state), "-M", "x"]) == 1
    assert run_root(["unit", "nowhere", "--state-dir", str(state)]) == 1

    assert "not found" in capsys.readouterr().err


def test_nodes(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "list", "--state-dir", str(state)]) == 0

    assert capsys.readouterr().out.splitlines()[1].split() == ["local", "vm", "up", "61.0", "100.0", "%", "–"]


def test_nodes_alone_lists_those_of_the_environments_server(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWHERE_STATE", str(state))

    assert run_root(["nodes"]) == 0
    assert "local" in capsys.readouterr().out


def test_the_meters_of_a_node(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "meters", "vm", "--state-dir", str(state)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "psys is 72 % below BMC (redfish)."
    assert lines[3].split() == ["redfish", "platform", "228", "speaks"]
    assert lines[4].split() == ["psys", "platform", "63.0", "72", "%", "below", "redfish"]
    assert lines[-1] == "It may be: its unit."


def test_the_meters_of_a_node_as_json(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "meters", "vm", "--json", "--state-dir", str(state)]) == 1

    assert json.loads(capsys.readouterr().out)["agreement"]["disagrees"] is True


def test_the_meters_of_no_node(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "meters", "nowhere", "--state-dir", str(state)]) == 1

    assert "not found" in capsys.readouterr().err


def test_a_wrong_token_is_not_permitted(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (state / "token").write_text("wrong")

    assert run_root(["units", "--state-dir", str(state)]) == 1
    assert "not permitted: it does not know the token that was sent" in capsys.readouterr().err


def test_no_server_says_how_to_start_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:9")

    assert run_root(["units", "--state-dir", str(tmp_path)]) == 1
    assert "start it with `kwhere up`" in capsys.readouterr().err


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"hushhush\n", 0o644, "others may read this token (mode 0644)"),
        (b"hushhush" * 1000, 0o600, "expected at most 4096 bytes"),
        (b"\n", 0o600, "expected an access token, found nothing"),
        (b"hush hush", 0o600, "found blanks or other signs"),
        (b"hush\xffhush", 0o600, "found blanks or other signs"),
    ],
)
def test_a_token_file_is_checked_named_or_not(
    state: Path, content: bytes, mode: int, words: str, is_named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "token").write_bytes(content)
    (state / "token").chmod(mode)
    named = ["--token-file", str(state / "token")] if is_named else []

    assert run_root(["units", "--state-dir", str(state), *named]) == 1

    told = capsys.readouterr().err
    assert f"{state / 'token'}: " in told
    assert words in told
    assert "hush" not in told


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["units", "--token-file", str(tmp_path / "none")]) == 1
    assert "none: this token cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unit", "name", "shown"),
    [
        ("root:stress-ng", "stress-ng", ""),
        ("4242", "cfd", "cfd"),
        ("4242", None, ""),
        ("postgresql.service", "postgresql.service", ""),
    ],
)
def test_a_name_stands_beside_an_id_that_does_not_say_it(unit: str, name: str | None, shown: str) -> None:
    assert name_beside({"unit": unit, "name": name}) == shown


@pytest.mark.parametrize(("flags", "asked"), [((), "running"), (("-s", "ended"), "ended")])
def test_sorted_by_power_are_those_that_draw_some(
    state: Path, flags: tuple[str, ...], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_root(["units", "--sort", "power_watts", "--csv", "--state-dir", str(state), *flags]) == 0

    assert f",{asked}," in capsys.readouterr().out


def test_a_unit_as_json_and_csv(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root(["unit", "local/process/root:stress-ng", "--state-dir", str(state), "--json"])
    document = json.loads(capsys.readouterr().out)
    run_root(["unit", "local/process/root:stress-ng", "--state-dir", str(state), "--csv"])
    lines = capsys.readouterr().out.splitlines()

    assert document == UNIT
    assert [line.split(",")[:3] for line in lines] == [
        ["cluster", "manager", "unit"],
        ["local", "process", "root:stress-ng"],
    ]


def test_a_report_sums_up_with_shares(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert run_root(["report", "--state-dir", str(state)]) == 0

    span, header, *lines = capsys.readouterr().out.splitlines()
    assert span == "2026-11-28T19:55:00Z to 2026-11-29T20:00:00Z"
    assert header.split()[:4] == ["USER", "CLUSTER", "KIND", "UNITS"]
    assert [line.split() for line in lines] == [
        ["alice", "local", "unit", "3", "1.50", "75.0", "%", "–", "100"],
        ["–", "local", "system", "0", "0.500", "25.0", "%", "–", "7.00"],
    ]


def test_a_report_with_gpus_and_money_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    more = {"gpu_allocated_seconds": 36_000.0, "gpu_held_idle_seconds": 9000.0, "cost": 12.5, "cost_currency": "EUR"}
    rows = [
        {**USAGE_ROW, "key": "a-user-with-a-long-name", "emissions_grams": 1234.0, **more},
        {**USAGE_ROW, "key": None, "cluster": "a-long-cluster", "kind": "unallocated", **more},
    ]

    lines = usage_lines("user", rows, 80)
    of_one = usage_lines("user", [{**row, "cluster": "local"} for row in rows], 80)

    assert max(map(len, (*lines, *of_one))) <= 80
    beside = [word for word in lines[0].split() if word not in ("UNITS", "CPU-s")]
    assert beside == ["USER", "CLUSTER", "KIND", "Wh", "kg", "CO2e", "GPU-h", "idle", "GPU-h", "EUR"]
    assert of_one[0].split()[:2] == ["USER", "KIND"]


def test_a_report_as_json_and_csv(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root(["report", "--by", "node", "--state-dir", str(state), "--json"])
    document = json.loads(capsys.readouterr().out)
    run_root(["report", "--by", "day", "--state-dir", str(state), "--csv"])
    lines = capsys.readouterr().out.splitlines()

    assert (document["by"], document["items"]) == ("node", USAGE["items"])
    assert lines[0].startswith("key,cluster,kind,units,energy_joules_total,")
    assert lines[2] == ",local,system,0,1800.0,7.0,,,"


def test_a_report_for_cut_and_awk(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_root(["report", "-P", "-n", "--state-dir", str(state)])
    assert capsys.readouterr().out.splitlines()[0] == "alice|local|unit|3|5400.0|100.0|||"

    run_root(["report", "-n", "--state-dir", str(state)])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["alice", "–"]


def test_a_report_of_what_nothing_is_summed_by_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["report", "--by", "colour"]) == 2
    assert "'colour' is not one of" in capsys.readouterr().err
