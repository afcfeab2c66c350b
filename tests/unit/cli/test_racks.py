"""`kwhere nodes racks`, and where nodes stand, against a real HTTP server that answers as the API does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kwhere.cli.main import run_root

FULL = {
    "cluster": "c1",
    "rack": "R1",
    "nodes": 4,
    "nodes_up": 3,
    "power_watts": 11_000.0,
    "power_limit_watts": 10_000.0,
    "limit_is_summed": False,
}
SILENT = {**FULL, "rack": "R2", "nodes_up": 0, "power_watts": None, "power_limit_watts": None}
NODE = {"cluster": "c1", "node": "n1", "state": "up", "power_watts": 61.0, "completeness": 1.0}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "/api/v1/racks": [FULL, SILENT],
    "/api/v1/nodes": [{**NODE, "inventory": {"rack": "R1"}}, {**NODE, "node": "n2", "inventory": {"rack": None}}],
}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"items": ANSWERS[self.path.partition("?")[0]], "next": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def state(tmp_path: Path) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "url").write_text(f"http://127.0.0.1:{server.server_port}")
    (tmp_path / "token").write_text("t" * 16)
    (tmp_path / "token").chmod(0o600)
    yield str(tmp_path)
    server.shutdown()
    thread.join()
    server.server_close()


def test_racks_are_listed_with_their_limits(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "racks", "--state-dir", state]) == 0

    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["CLUSTER", "RACK", "NODES", "UP", "kW", "LIMIT", "kW", "USED"]
    assert first.split() == ["c1", "R1", "3/4", "11.0", "10.0", "110.0", "%", "▇" * 20]
    assert second.split() == ["c1", "R2", "0/4", "–", "–", "–"]


def test_racks_as_json(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "racks", "--json", "--state-dir", state]) == 0

    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "items": [FULL, SILENT]}


def test_nodes_show_their_rack_where_one_is_known(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "list", "--state-dir", state]) == 0

    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["CLUSTER", "NODE", "RACK", "STATE"]
    assert first.split()[:4] == ["c1", "n1", "R1", "up"]
    assert second.split()[:4] == ["c1", "n2", "–", "up"]


def test_nodes_without_a_command_are_listed_with_the_lists_options(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_root(["nodes", "--json", "--state-dir", state]) == 0

    assert [item["node"] for item in json.loads(capsys.readouterr().out)["items"]] == ["n1", "n2"]


def test_nodes_says_what_its_commands_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_root(["nodes", "--help"]) == 0

    assert "Without a command it is `list`" in capsys.readouterr().out
