"""A child process that lives on: lines to it, lines from it, and its end, whatever it does."""

import contextlib
import os
import selectors
import signal
import subprocess  # noqa: TID251 - this is the door
import time
from collections.abc import Mapping, Sequence

from kwhere.core.errors import SourceError, Unavailable

_PIPE_BYTES = 65536
_LAST_WORDS = 2000
LONGEST_LINE = 4 * 1024 * 1024


class ChildProcess:
    """One running child. Used by one thread, `end` by any. It sees the end of its standard input when we are gone.

    The child is trusted code of our own: it gets the whole environment.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start it. Raises Unavailable (absent, permission, unsupported)."""
        self.name = argv[0]
        try:
            self._child = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise Unavailable("absent", f"{argv[0]}: {error.strerror}") from error
        except OSError as error:
            raise Unavailable("unsupported", f"{argv[0]}: {error.strerror}") from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._input, self._output, self._errors = self._child.stdin, self._child.stdout, self._child.stderr
        for pipe in (self._input, self._output, self._errors):
            os.set_blocking(pipe.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        self._selector.register(self._errors, selectors.EVENT_READ)
        self._buffer = bytearray()
        self._lines: list[bytes] = []
        self._said = b""

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._child.pid

    def send(self, line: bytes) -> None:
        """Write one line, without waiting. Raises Unavailable where the child is gone or does not read."""
        try:
            written = os.write(self._input.fileno(), line + b"\n")
        except BlockingIOError as error:
            raise Unavailable("timeout", f"{self.name}: does not read its orders") from error
        except (BrokenPipeError, ValueError) as error:
            raise self._gone() from error
        if written <= len(line):
            raise Unavailable("timeout", f"{self.name}: does not read its orders")

    def receive(self, timeout_seconds: float) -> bytes | None:
        """Return the next line, None when none came in time. Raises Unavailable (it ended), SourceError (too long)."""
        deadline = time.monotonic() + timeout_seconds
        while not self._lines:
            left = deadline - time.monotonic()
            ready = self._selector.select(max(0.0, left))
            if not ready and left <= 0:
                return None
            for key, _ in ready:
                if key.fileobj is self._errors:
                    self._hear()
                elif not self._drain():
                    raise self._gone()
        return self._lines.pop(0)

    def end(self, grace_seconds: float = 2.0) -> None:
        """End it: its input is closed, then it is killed. One that hangs in the kernel is left behind."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        if not self._wait(grace_seconds):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._wait(1.0)
        self._selector.close()
        for pipe in (self._output, self._errors):
            pipe.close()

    def _wait(self, seconds: float) -> bool:
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _drain(self) -> bool:
        """Take in what the child wrote; False when it closed its output."""
        part = os.read(self._output.fileno(), _PIPE_BYTES)
        if not part:
            return False
        self._buffer += part
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._lines += lines
        self._buffer = bytearray(rest)
        if len(self._buffer) > LONGEST_LINE:
            raise SourceError(f"{self.name}: a line is longer than {LONGEST_LINE} bytes")
        return True

    def _hear(self) -> None:
        part = os.read(self._errors.fileno(), _PIPE_BYTES)
        if not part:
            self._selector.unregister(self._errors)
        self._said = (self._said + part)[-_LAST_WORDS:]

    def _gone(self) -> Unavailable:
        code = self._child.poll()
        words = self._said.decode("utf-8", "replace").strip().splitlines()
        last = f": {words[-1]}" if words else ""
        return Unavailable("ended", f"{self.name}: ended{'' if code is None else f' with code {code}'}{last}")
