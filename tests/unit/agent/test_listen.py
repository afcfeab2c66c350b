import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.agent.listen import (
    address_of,
    close_sockets,
    is_local,
    is_loopback,
    open_sockets,
    split_address,
    systemd_sockets,
)
from kwhere.core.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:9810", ("127.0.0.1", 9810)),
        ("localhost:0", ("localhost", 0)),
        (":9810", ("", 9810)),
        ("[::1]:9810", ("::1", 9810)),
        ("[::]:65535", ("::", 65535)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
    ],
)
def test_address_is_split(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize(
    "address",
    ["", "9810", "host", "host:", "host:x", "host:-1", "host:65536", "::1:9810", "[::1]", "[::1:9810", "host:\u0663"],
)  # fmt: skip
def test_what_is_no_address_is_refused_by_the_key(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^web\.listen_addresses: expected"):
        split_address(address)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused(address: str) -> None:
    try:
        host, port = split_address(address)
    except ConfigError:
        return

    assert 0 <= port <= 65535
    assert "[" not in host


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_is_known(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_unix_path_is_opened_for_owner_and_group_and_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sockets = open_sockets([f"unix:{path}"])

    assert path.stat().st_mode & 0o777 == 0o660
    assert is_local(sockets[0])
    assert address_of(sockets[0]) == f"unix:{path}"

    close_sockets(sockets)
    assert not path.exists()


def test_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()

    live = open_sockets([f"unix:{path}"])
    with pytest.raises(ConfigError, match="taken by another process"):
        open_sockets([f"unix:{path}"])

    close_sockets(live)


def test_file_in_place_of_a_socket_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")

    with pytest.raises(ConfigError, match="no socket is there"):
        open_sockets([f"unix:{path}"])

    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("address", "reason"),
    [("192.0.2.1:0", "no such address"), ("no-such-host.invalid:0", "web.listen_addresses: no-such-host"),
     ("unix:/no/such/dir/s", "No such file")],
)  # fmt: skip
def test_address_that_cannot_be_opened_says_why(address: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_sockets([address])


def test_localhost_is_opened() -> None:
    sockets = open_sockets(["localhost:0"])

    assert all(is_local(opened) for opened in sockets)
    close_sockets(sockets)


def test_no_address_is_an_error() -> None:
    with pytest.raises(ConfigError, match="expected an address, found none"):
        open_sockets([])


@pytest.mark.parametrize(
    "environ", [{}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_PID": str(os.getpid())}]
)
def test_sockets_that_systemd_did_not_hand_over_are_missed(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="expected sockets from systemd"):
        systemd_sockets(environ)


HANDED = """
import os, sys
from kwhere.agent.listen import address_of, systemd_sockets
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = "1"
for handed in systemd_sockets(os.environ):
    print(address_of(handed), os.get_inheritable(handed.fileno()))
"""


def test_sockets_from_systemd_are_taken() -> None:
    [listening] = open_sockets(["127.0.0.1:0"])
    descriptor = listening.fileno()

    done = subprocess.run(
        [sys.executable, "-c", HANDED, str(descriptor)],
        pass_fds=(descriptor,),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [address_of(listening), "False"]
    listening.close()


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":0"])
def test_small_answers_are_sent_at_once(address: str) -> None:
    async def accepted_without_delay() -> int:
        (listening,) = open_sockets([address])
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted = writer.get_extra_info("socket")
            seen.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection("127.0.0.1", listening.getsockname()[1])
            found = await seen
            writer.close()
            await writer.wait_closed()
        return found

    assert asyncio.run(accepted_without_delay()) == 1
