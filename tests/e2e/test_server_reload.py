"""SIGHUP on a real server: a right configuration takes effect, a wrong one leaves the old one in force."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

RIGHT = 'server: {listen: "127.0.0.1:0"}\nsite: {zone: FR}\n'


class Server:
    """A running `kwhere server` with a configuration file."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "kwhere.yaml"
        self.file.write_text(RIGHT)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kwhere", "server", "--config.file", self.file, "--state", directory / "state"],
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("KWHERE_")},
        )

        self.deadline = threading.Timer(90, self.process.kill)  # a log line that never comes ends the wait
        self.deadline.start()

    def read_until(self, event: str) -> str:
        """Return the first line of the log that holds `event`."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if event in line:
                return line
        raise AssertionError(f"the server ended without {event!r}")

    def url(self) -> str:
        found = re.search(r"http://127[^\"]+", self.read_until("server answers"))
        assert found
        return found[0]

    def reload(self, text: str) -> None:
        self.file.write_text(text)
        self.process.send_signal(signal.SIGHUP)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path)
    yield started
    started.deadline.cancel()
    started.process.kill()
    started.process.communicate(timeout=10)


def is_well(url: str) -> bool:
    return httpx.get(f"{url}api/v1/health", timeout=20).status_code == 200


def test_a_wrong_one_stays_out_a_right_one_takes_effect_and_one_that_cannot_start_is_undone(server: Server) -> None:
    first = server.url()
    assert is_well(first)
    server.reload("site: {zoone: FR}\n")
    told = server.read_until("the old one stays in force")
    assert is_well(first)
    server.reload(RIGHT.replace("FR", "DE"))
    second = server.url()  # port 0: another one
    assert is_well(second)
    server.reload(RIGHT.replace("127.0.0.1:0", "0.0.0.0:0"))  # off loopback without a token
    undone = server.read_until("the old one comes back")
    assert is_well(server.url())
    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(20) in (0, -signal.SIGTERM)
    assert "site.zoone: unknown key (did you mean zone?)" in told
    assert "access.token_file" in undone
