"""Answers that are read line by line as they come."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kwhere.core.errors import SourceError, Unavailable
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """Yield the address of a server that says `answer` to one question and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def read(answer: bytes, max_bytes: int = 1000) -> list[bytes]:
    settings = HttpClientSettings(max_answer_bytes=max_bytes)
    with saying(answer) as url, HttpClient(url, settings) as client, client.stream("/w", timeout_seconds=5) as said:
        return list(said.lines())


def test_lines_are_whole_wherever_the_answer_was_split() -> None:
    assert read(HEAD + chunks(b"on", b"e\ntwo\n\nth", b"ree\n") + END) == [b"one", b"two", b"three"]


def test_a_line_without_its_end_is_none() -> None:
    assert read(HEAD + chunks(b"one\ntw") + END) == [b"one"]


def test_what_came_before_the_connection_broke_was_said() -> None:
    heard: list[bytes] = []

    def hear() -> None:
        with client.stream("/w", timeout_seconds=5) as said:
            heard.extend(said.lines())

    with saying(HEAD + chunks(b"one\ntw")) as url, HttpClient(url) as client, pytest.raises(Unavailable) as caught:
        hear()

    assert caught.value.reason == "closed"
    assert heard == [b"one"]


def test_a_line_that_never_ends_is_an_error() -> None:
    with pytest.raises(SourceError, match="lines of at most 10 bytes"):
        read(HEAD + chunks(b"0123456789a") + END, max_bytes=10)


def test_the_beginning_of_a_refusal() -> None:
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
    with saying(answer) as url, HttpClient(url) as client, client.stream("/w", timeout_seconds=5) as said:
        assert (said.status, said.beginning()) == (403, b"no")
