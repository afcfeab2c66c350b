"""Child processes: an argument list, a deadline, bounded output, never a shell."""

import contextlib
import os
import selectors
import signal
import subprocess  # noqa: TID251 - this is the door
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kwhere.core.errors import Unavailable
from kwhere.transport.answers import AnswerTooLongError

_PIPE_BYTES = 65536
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "TZ")


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended; a non-zero `exit_code` is the caller's to judge (negative: a signal)."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    elapsed_seconds: float
    timed_out: bool = False
    """It was killed at the deadline; the outputs are what it had written by then."""


def run_command(
    argv: Sequence[str],
    *,
    timeout_seconds: float,
    max_output_bytes: int = 16 * 1024 * 1024,
    input_bytes: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    monotonic_ns: Callable[[], int] = time.monotonic_ns,
) -> Finished:
    """Return what `argv` wrote and how it ended.

    The child gets a small environment in the C locale, plus `environment`. At the deadline, or past the limit of
    output, it and its children are killed. Raises Unavailable (absent, permission) and AnswerTooLongError.
    """
    began_ns = monotonic_ns()
    deadline_ns = began_ns + int(timeout_seconds * 1e9)
    child = _start(argv, environment, directory)
    try:
        stdout, stderr = _Exchange(child, argv[0], max_output_bytes, input_bytes).run(deadline_ns, monotonic_ns)
        is_late = not _has_ended(child, (deadline_ns - monotonic_ns()) / 1e9)
    finally:
        _end(child)
    elapsed_seconds = (monotonic_ns() - began_ns) / 1e9
    return Finished(tuple(argv), child.returncode, stdout, stderr, elapsed_seconds, is_late)


def _has_ended(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Return whether the child ends in time: one that closed its outputs may still hang."""
    try:
        child.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return False
    return True


def _start(
    argv: Sequence[str], environment: Mapping[str, str] | None, directory: Path | None
) -> "subprocess.Popen[bytes]":
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        return subprocess.Popen(  # noqa: S603 - an argument list, no shell
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**kept, "LC_ALL": "C.UTF-8", **(environment or {})},
            cwd=directory,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Unavailable("absent", f"{argv[0]}: {error.strerror}") from error
    except PermissionError as error:
        raise Unavailable("permission", f"{argv[0]}: {error.strerror}") from error
    except OSError as error:
        raise Unavailable("unsupported", f"{argv[0]}: {error.strerror}") from error


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Kill the child's whole session and give back its pipes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class _Exchange:
    """Feeds and drains a child's pipes until both outputs end, or its time."""

    def __init__(self, child: "subprocess.Popen[bytes]", name: str, max_bytes: int, input_bytes: bytes) -> None:
        self._name = name
        self._left = max_bytes
        self._input = memoryview(input_bytes)
        self._selector = selectors.DefaultSelector()
        self._outputs: dict[int, list[bytes]] = {}
        for pipe in (child.stdout, child.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._outputs[pipe.fileno()] = []
            self._selector.register(pipe, selectors.EVENT_READ)
        assert child.stdin is not None
        self._stdin = child.stdin
        os.set_blocking(child.stdin.fileno(), False)
        self._selector.register(child.stdin, selectors.EVENT_WRITE)
        self._open = len(self._outputs)

    def run(self, deadline_ns: int, monotonic_ns: Callable[[], int]) -> tuple[bytes, bytes]:
        """Return both outputs, as far as they were written by the deadline. Raises AnswerTooLongError."""
        with self._selector:
            while self._open:
                left_ns = deadline_ns - monotonic_ns()
                if left_ns <= 0:
                    break
                for key, _ in self._selector.select(left_ns / 1e9):
                    if key.fileobj is self._stdin:
                        self._feed()
                    else:
                        self._drain(key.fd, key.fileobj)  # type: ignore[arg-type]
        stdout, stderr = (b"".join(parts) for parts in self._outputs.values())
        return stdout, stderr

    def _feed(self) -> None:
        try:
            self._input = self._input[os.write(self._stdin.fileno(), self._input[:_PIPE_BYTES]) :]
        except BrokenPipeError:
            self._input = memoryview(b"")
        if not self._input:
            self._selector.unregister(self._stdin)
            self._stdin.close()

    def _drain(self, descriptor: int, pipe: IO[bytes]) -> None:
        part = os.read(descriptor, _PIPE_BYTES)
        if not part:
            self._selector.unregister(pipe)
            self._open -= 1
            return
        self._left -= len(part)
        if self._left < 0:
            raise AnswerTooLongError(f"{self._name}: wrote more than it may")
        self._outputs[descriptor].append(part)
