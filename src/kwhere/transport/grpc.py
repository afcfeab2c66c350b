"""One gRPC question to a service on this machine, over its unix socket (gRPC over HTTP/2, protocol description)."""

import os
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwhere.core.errors import SourceError, Unavailable

if TYPE_CHECKING:
    from h2.connection import H2Connection

LIMIT_BYTES = 64 << 20
_READ_BYTES = 65536
_PREFIX_BYTES = 5
_OK = "0"
_REASONS = {"4": "timeout", "7": "permission", "8": "busy", "12": "unsupported", "14": "absent", "16": "permission"}
"""gRPC status codes (google.rpc.Code) that say that the service cannot be used, not that it answers nonsense."""
_UNSAFE = re.compile(r"[^ -~]+")


@dataclass(slots=True)
class _Answer:
    """What has come back so far."""

    place: str
    limit_bytes: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def add(self, headers: Iterable[tuple[Any, Any]]) -> None:
        for name, value in headers:
            self.headers[_text(name).lower()] = _text(value)

    def message(self) -> bytes:
        """Return the one message. Raises Unavailable or SourceError for anything but a good answer."""
        status = self.headers.get("grpc-status")
        if status is None:
            found = self.headers.get(":status", "no status")
            raise SourceError(f"{self.place}: expected a gRPC answer, found HTTP status {found}")
        if status != _OK:
            told = f"{self.place}: gRPC status {status}: {self.headers.get('grpc-message', '')[:200]}"
            reason = _REASONS.get(status)
            raise Unavailable(reason, told) if reason else SourceError(told)
        if len(self.body) < _PREFIX_BYTES or self.body[0] != 0:
            raise SourceError(
                f"{self.place}: expected one message that is not compressed, found {len(self.body)} bytes"
            )
        if int.from_bytes(self.body[1:_PREFIX_BYTES], "big") != len(self.body) - _PREFIX_BYTES:
            raise SourceError(f"{self.place}: expected one whole message, found {len(self.body)} bytes")
        return bytes(self.body[_PREFIX_BYTES:])


def ask(
    path: Path, method: str, request: bytes = b"", *, timeout_seconds: float = 5.0, limit_bytes: int = LIMIT_BYTES
) -> bytes:
    """Return the answer to one request, e.g. of method `/v1.PodResourcesLister/List`.

    Raises Unavailable (absent, permission, timeout, unsupported, busy) or SourceError. Takes `timeout_seconds` at most.
    """
    deadline = time.monotonic() + timeout_seconds
    answer = _Answer(f"{path} {method}", limit_bytes)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(os.fspath(path))
            _converse(connection, method, request, answer, deadline)
        except TimeoutError as error:
            raise Unavailable("timeout", f"{answer.place}: no answer within {timeout_seconds:g} s") from error
        except OSError as error:
            raise Unavailable(_reason(error), f"{answer.place}: {error.strerror or error}") from error
    return answer.message()


def _converse(connection: socket.socket, method: str, request: bytes, answer: _Answer, deadline: float) -> None:
    from h2.config import H2Configuration  # here: an agent without a kubelet never needs it
    from h2.connection import H2Connection
    from h2.exceptions import H2Error

    speaker = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    try:
        speaker.initiate_connection()
        stream = speaker.get_next_available_stream_id()
        speaker.send_headers(stream, _headers(method, deadline))
        speaker.send_data(stream, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)
        while not answer.ended:
            connection.sendall(speaker.data_to_send())
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            connection.settimeout(remaining)
            data = connection.recv(_READ_BYTES)
            if not data:
                raise SourceError(f"{answer.place}: expected an answer, found the connection closed")
            _take(speaker, data, answer)
    except (H2Error, UnicodeDecodeError) as error:
        raise SourceError(f"{answer.place}: expected HTTP/2, found {type(error).__name__}") from error


def _headers(method: str, deadline: float) -> list[tuple[str, str]]:
    milliseconds = max(1, int((deadline - time.monotonic()) * 1000))
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "kwhere"),
        ("grpc-timeout", f"{milliseconds}m"),
    ]


def _take(speaker: "H2Connection", data: bytes, answer: _Answer) -> None:
    from h2 import events

    for event in speaker.receive_data(data):
        if isinstance(event, events.ResponseReceived | events.TrailersReceived):
            answer.add(event.headers or ())
        elif isinstance(event, events.DataReceived):
            answer.body += event.data or b""
            if len(answer.body) > answer.limit_bytes:
                raise SourceError(f"{answer.place}: expected at most {answer.limit_bytes} bytes, found more")
            if event.flow_controlled_length:
                speaker.acknowledge_received_data(event.flow_controlled_length, event.stream_id or 1)
        elif isinstance(event, events.StreamEnded):
            answer.ended = True
        elif isinstance(event, events.StreamReset | events.ConnectionTerminated):
            raise SourceError(f"{answer.place}: expected an answer, found error {event.error_code} of HTTP/2")


def _text(value: str | bytes) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return _UNSAFE.sub("\ufffd", text)


def _reason(error: OSError) -> str:
    return "permission" if isinstance(error, PermissionError) else "absent"
