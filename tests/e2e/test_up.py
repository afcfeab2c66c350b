"""`kwhere up` as a newcomer starts it: one command, one address, a balanced account, a clean end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

KWHERE = [sys.executable, "-m", "kwhere"]
START_SECONDS = 60


class Up:
    """A running `kwhere up`."""

    def __init__(self, state: Path, *flags: str) -> None:
        self.state = state
        with (state.parent / f"{state.name}.log").open("w") as log:
            self.process = subprocess.Popen(
                [*KWHERE, "up", "--no-open", "--state", str(state), *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "KWHERE_CONFIG_FILE": os.devnull},
            )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        match = re.search(r"(http://\S+)/\?token=(\S+)", first)
        assert match, f"no address in {first!r}"
        self.url, self.token = match[1], match[2]

    def get(self, path: str, **more: Any) -> httpx.Response:
        """GET with the token."""
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {self.token}"}, timeout=30, **more)

    def wait_until(self, path: str, holds: Any) -> Any:
        """Return the JSON of `path` once `holds(json)`."""
        deadline = time.monotonic() + START_SECONDS
        found = None
        while time.monotonic() < deadline:
            try:
                answer = self.get(path)
                found = answer.json() if answer.status_code == 200 else answer.text
                if answer.status_code == 200 and holds(found):
                    return found
            except httpx.TransportError as error:
                found = error
            select_pause()
        log = (self.state.parent / f"{self.state.name}.log").read_text()
        raise AssertionError(f"{path}: never held; last {str(found)[:500]}\n{log[-2000:]}")

    def roles(self) -> list[int]:
        """Return the pids of agent and server."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send Ctrl-C and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def select_pause() -> None:
    """Give the other process the time of a poll."""
    time.sleep(0.1)


@contextmanager
def running(state: Path, *flags: str) -> Iterator[Up]:
    """Run `kwhere up` for the block."""
    up = Up(state, *flags)
    try:
        yield up
    finally:
        if up.process.poll() is None:
            up.end(signal.SIGTERM)


@pytest.mark.slow
def test_first_watts_balance_and_a_clean_end(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--listen", "127.0.0.1:0") as up:
        units = up.wait_until("/api/v1/units", lambda d: any(u["power_watts"] for u in d["items"]))
        balance = up.wait_until("/api/v1/nodes", lambda d: d["items"] and d["items"][0]["state"] == "up")
        node = balance["items"][0]["node"]
        slots = up.get(f"/api/v1/nodes/{node}/balance").json()["slots"]
        page = up.get("/")
        mode = (up.state / "token").stat().st_mode & 0o777
        roles = up.roles()
        code = up.end()

    assert {u["cluster"] for u in units["items"]} == {"local"}
    assert slots
    assert {slot["residual_microjoules"] for slot in slots} == {0}
    assert all(
        slot["node_microjoules"]
        == slot["units_microjoules"] + slot["system_microjoules"] + slot["unallocated_microjoules"]
        for slot in slots
    )
    assert "<title>Overview" in page.text
    assert mode == 0o600
    assert code == 0
    assert len(roles) == 2
    assert not [pid for pid in roles if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
def test_strangers_are_refused(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--listen", "127.0.0.1:0") as up:
        up.wait_until("/api/v1/health", lambda d: True)

        nobody = httpx.get(up.url + "/api/v1/units")
        rebound = up_get_with_host(up, "evil.example")
        wrong = httpx.get(up.url + "/api/v1/units", headers={"Authorization": "Bearer no"})

    assert nobody.status_code == 401
    assert wrong.status_code == 401
    assert rebound.status_code in (400, 403, 421)
    assert nobody.headers["content-type"] == "application/problem+json"


def up_get_with_host(up: Up, host: str) -> httpx.Response:
    """GET with a foreign Host header."""
    return httpx.get(up.url + "/api/v1/units", headers={"Authorization": f"Bearer {up.token}", "Host": host})


@pytest.mark.slow
def test_a_second_one_on_the_same_state_or_port_is_exit_code_2(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--listen", "127.0.0.1:0") as up:
        port = up.url.rpartition(":")[2]
        same_state = subprocess.run(
            [*KWHERE, "up", "--no-open", "--state", str(up.state)], capture_output=True, text=True, check=False
        )
        same_port = subprocess.run(
            [*KWHERE, "up", "--no-open", "--state", str(tmp_path / "other"), "--listen", f"127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            check=False,
        )

    assert same_state.returncode == 2
    assert f"another `kwhere up` runs at {up.url}" in same_state.stderr
    assert same_port.returncode == 2
    assert port in same_port.stderr


@pytest.mark.slow
def test_the_next_free_port_is_taken_if_the_default_is_not_free(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 9811))
            taken.listen()
        except OSError:
            pass  # somebody else has it: all the better
        with running(tmp_path / "state") as up:
            port = int(up.url.rpartition(":")[2])

    assert 9811 < port <= 9831


@pytest.mark.slow
def test_killed_roles_come_back_and_nothing_is_lost(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--listen", "127.0.0.1:0") as up:
        node = up.wait_until("/api/v1/nodes", lambda d: d["items"] and d["items"][0]["state"] == "up")["items"][0]
        path = f"/api/v1/nodes/{node['node']}/balance"
        for _ in range(3):
            count = len(up.get(path).json()["slots"])
            for pid in up.roles():
                os.kill(pid, signal.SIGKILL)
            up.wait_until(path, lambda d, count=count: len(d["slots"]) > count + 1)
        slots = up.get(path).json()["slots"]
        health = up.get("/api/v1/health").json()

    assert {slot["residual_microjoules"] for slot in slots} == {0}
    assert len({slot["start"] for slot in slots}) == len(slots)
    ends = [slot["end"] for slot in slots]
    assert [slot["start"] for slot in slots][1:] == ends[:-1], "a hole or an overlap between slots"
    assert health["lost_records"] == 0
    assert health["quarantined_slots"] == 0


@pytest.mark.slow
def test_a_run_shows_up_as_a_unit(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs the service root: make test-services")
    burn = "import time\nend = time.process_time() + 3\nwhile time.process_time() < end: pass"
    with running(tmp_path / "state", "--listen", "127.0.0.1:0") as up:
        up.wait_until("/api/v1/units", lambda d: d["items"])
        done = subprocess.run(
            [*KWHERE, "run", "--json", "--", sys.executable, "-c", burn], capture_output=True, text=True, check=True
        )
        report = json.loads(done.stdout.splitlines()[-1])
        listed = up.wait_until(
            f"/api/v1/units?manager=run&q={report['unit']}", lambda d: any(u["cpu_seconds"]["user"] for u in d["items"])
        )

    (unit,) = listed["items"]  # other runs of this machine are none of ours
    accounted = unit["cpu_seconds"]["user"] + unit["cpu_seconds"]["system"]
    assert unit["manager"] == "run"
    assert accounted <= report["cpu_seconds"]["user"] + report["cpu_seconds"]["system"] + 0.05
    assert accounted >= 1.0
