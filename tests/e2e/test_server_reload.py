"""SIGHUP on a real server: a right configuration takes effect, a wrong one leaves the old one in force."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.role_process import RoleProcess

RIGHT = 'server: {listen: "127.0.0.1:0"}\nsite: {zone: FR}\n'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RoleProcess]:
    started = RoleProcess("server", tmp_path, RIGHT)
    yield started
    started.end()


def is_well(url: str) -> bool:
    return httpx.get(f"{url}api/v1/health", timeout=20).status_code == 200


def test_a_wrong_one_stays_out_a_right_one_takes_effect_and_one_that_cannot_start_is_undone(
    server: RoleProcess,
) -> None:
    first = server.url()
    assert is_well(first)
    server.file.write_text("site: {zoone: FR}\n")
    server.reload()
    told = server.read_until("the old one stays in force")
    assert is_well(first)
    server.file.write_text(RIGHT.replace("FR", "DE"))
    server.reload()
    second = server.url()  # port 0: another one
    assert is_well(second)
    server.file.write_text(RIGHT.replace("127.0.0.1:0", "0.0.0.0:0"))
    server.reload()  # off loopback without a token
    undone = server.read_until("the old one comes back")
    assert is_well(server.url())
    server.process.send_signal(signal.SIGTERM)

    assert server.process.wait(20) in (0, -signal.SIGTERM)
    assert "site.zoone: unknown key (did you mean zone?)" in told
    assert "access.token_file" in undone
