"""The three ways by which a feed reaches a guest: a file on a share, HTTP, vsock. Each may block."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kwhere.core.errors import SourceError, Unavailable
from kwhere.meters.guest_entry import MAX_BYTES, PATH
from kwhere.transport.settings import HttpClientSettings

VSOCK_SECONDS = 5.0
_REASONS = {errno.ENOENT: "absent", errno.ENOTDIR: "absent", errno.EACCES: "permission", errno.EPERM: "permission"}


class FeedWay(Protocol):
    """One way to the feed."""

    place: str

    def fetch(self) -> bytes:
        """Return the feed as it stands. Raises Unavailable, SourceError."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class FileWay:
    """A file that the host replaces; the share may hang."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path

    def fetch(self) -> bytes:
        """Return the file. Raises Unavailable: absent, permission, unreadable."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, "unreadable")
            raise Unavailable(reason, f"{self.place}: {error.strerror or error}") from error

    def close(self) -> None:
        """Hold nothing."""


class HttpWay:
    """The host's listener for guests; the token says which guest asks."""

    def __init__(self, url: str, settings: HttpClientSettings) -> None:
        # the HTTP client costs memory that an agent without this way does without
        from kwhere.transport.http import HttpClient

        self.place = url
        self._client = HttpClient(url, settings)

    def fetch(self) -> bytes:
        """Return the answer. Raises Unavailable: refused, timeout, permission, absent (no such guest now)."""
        answer = self._client.get(PATH)
        if answer.status == 200:
            return answer.body
        if answer.status in (401, 403):
            raise Unavailable("permission", f"{self.place}: this guest's token is not known there ({answer.status})")
        if answer.status == 404:
            raise Unavailable("absent", f"{self.place}: the host knows no running guest of this token")
        raise SourceError(f"{self.place}: expected status 200, found {answer.status}")

    def close(self) -> None:
        """Close connections."""
        self._client.close()


class VsockWay:
    """A vsock to the host, which knows by the CID who asks (vsock(7))."""

    def __init__(self, port: int, connect: Callable[[int, float], socket.socket] | None = None) -> None:
        self.place = f"vsock:2:{port}"
        self._port = port
        self._connect = connect or _connected

    def fetch(self) -> bytes:
        """Return what the host says until it hangs up. Raises Unavailable: refused, timeout, absent."""
        try:
            with self._connect(self._port, VSOCK_SECONDS) as connection:
                return _read_all(connection)
        except TimeoutError as error:
            raise Unavailable("timeout", f"{self.place}: no answer within {VSOCK_SECONDS:g} s") from error
        except OSError as error:
            reason = "refused" if error.errno in (errno.ECONNREFUSED, errno.ECONNRESET) else "absent"
            raise Unavailable(reason, f"{self.place}: {error.strerror or error}") from error

    def close(self) -> None:
        """Hold nothing."""


def _connected(port: int, timeout_seconds: float) -> socket.socket:
    """Return a connection to the host. Raises OSError."""
    connection = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect((socket.VMADDR_CID_HOST, port))
    except BaseException:
        connection.close()
        raise
    return connection


def _read_all(connection: socket.socket) -> bytes:
    connection.settimeout(VSOCK_SECONDS)
    pieces: list[bytes] = []
    size = 0
    while size <= MAX_BYTES and (piece := connection.recv(MAX_BYTES)):
        pieces.append(piece)
        size += len(piece)
    data = b"".join(pieces)
    if not data:
        raise Unavailable("absent", "vsock: the host knows no running guest of this CID")
    return data
