"""Questions to the agent of this machine through its local socket: one JSON object per line each way."""

import errno
import json
import os
import socket
from pathlib import Path
from typing import Any, Self

from kwhere.core.errors import NotPermitted, SourceError, Unavailable

SOCKET_NAME = "agent.sock"
LONGEST_ANSWER_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 16
_REASONS = {
    errno.ENOENT: "absent",
    errno.ENOTDIR: "absent",
    errno.ECONNREFUSED: "refused",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
}


def ask_agent(path: Path, question: dict[str, Any], timeout_seconds: float = 5.0) -> dict[str, Any]:
    """Return the agent's answer.

    Raises Unavailable (absent: no agent ever ran; refused: none runs now; permission; timeout; closed), NotPermitted
    (the agent says no, and why) and SourceError.
    """
    with AgentConnection(path, timeout_seconds) as connection:
        return connection.ask(question)


def tell_agent(path: Path, question: dict[str, Any], timeout_seconds: float = 1.0) -> None:
    """Ask the agent for something and leave before it answers. Raises Unavailable."""
    with AgentConnection(path, timeout_seconds) as connection:
        connection.tell(question)


class AgentConnection:
    """A connection kept open over several questions."""

    def __init__(self, path: Path, timeout_seconds: float = 5.0) -> None:
        """Connect. Raises Unavailable."""
        self._path = path
        self._pending = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_seconds)
        try:
            self._connect(path)
        except OSError as error:
            self._socket.close()
            raise self._failure(error) from error

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one question. Raises Unavailable, NotPermitted, SourceError."""
        self.tell(question)
        try:
            line = self._line()
        except OSError as error:
            raise self._failure(error) from error
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise SourceError(f"{self._path}: expected JSON, found {line[:60]!r}") from error
        if not isinstance(answer, dict):
            raise SourceError(f"{self._path}: expected an object, found {line[:60]!r}")
        if answer.get("ok") is not True:
            raise NotPermitted(f"agent: {answer.get('error', 'refused without a reason')}")
        return answer

    def tell(self, question: dict[str, Any]) -> None:
        """Send a question and do not wait. Raises Unavailable."""
        try:
            self._socket.sendall(json.dumps(question).encode() + b"\n")
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, path: Path) -> None:
        # by the directory's descriptor: a socket's path holds 107 bytes, a state directory's may be longer
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._socket.connect(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)

    def _line(self) -> bytes:
        pieces = [self._pending]
        size = len(self._pending)
        while b"\n" not in pieces[-1]:
            piece = self._socket.recv(_CHUNK_BYTES)
            if not piece:
                raise Unavailable("closed", f"{self._path}: the agent hung up")
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST_ANSWER_BYTES:
                raise SourceError(f"{self._path}: expected at most {LONGEST_ANSWER_BYTES} bytes, found more")
        line, _, self._pending = b"".join(pieces).partition(b"\n")
        return line

    def _failure(self, error: OSError) -> Unavailable:
        reason = "timeout" if isinstance(error, TimeoutError) else _REASONS.get(error.errno or 0, "closed")
        return Unavailable(reason, f"{self._path}: {error.strerror or error}")
