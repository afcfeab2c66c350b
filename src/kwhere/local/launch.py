"""Start one command, stay its parent until the end, and know what it and all its descendants used.

The command runs in the foreground of the caller's terminal, as if it had been started by the shell. Orphans of it
become our children (PR_SET_CHILD_SUBREAPER, prctl(2)), so their CPU time is not lost to init.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from kwhere.core.quantities import NANOSECONDS_PER_SECOND

PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND = 127
NOT_EXECUTABLE = 126
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


@dataclass(frozen=True, slots=True)
class Reaped:
    """CPU time of all descendants that ended and were waited for, and the largest resident set of one of them."""

    user_ns: int
    system_ns: int
    largest_rss_bytes: int
    read_blocks: int
    written_blocks: int


class Launch:
    """One started command. `start` forks, `wait` returns its exit code."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self.pid = 0
        self.has_begun = True
        """Known after `wait`: False where there is no such command, or it may not be executed."""
        self._failure, self._telling = os.pipe()  # closed by exec: what is read tells that there was none

    def start(self, prepare: Callable[[], None]) -> None:
        """Fork; the child calls `prepare` and becomes the command. To be called before any thread is started."""
        become_subreaper()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(prepare)
        os.close(self._telling)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the command itself
        for number in FORWARDED:
            signal.signal(number, self._forward)

    def wait(self) -> int:
        """Return the command's exit code, 128 + signal where a signal ended it; reaps every orphan on the way."""
        while True:
            pid, status = os.wait()
            if pid == self.pid:
                reap_ended()
                self.has_begun = not os.read(self._failure, 1)
                os.close(self._failure)
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _become(self, prepare: Callable[[], None]) -> NoReturn:
        code = NOT_EXECUTABLE
        try:
            prepare()
            os.execvp(self._command[0], self._command)  # noqa: S606 - what `run` is for
        except FileNotFoundError:
            code = NOT_FOUND
            _complain(f"{self._command[0]}: command not found")
        except OSError as error:
            _complain(f"{self._command[0]}: {error.strerror}")
        finally:
            os.write(self._telling, b"x")
            os._exit(code)


def become_subreaper() -> None:
    """Make orphaned descendants our children; without effect where the kernel refuses."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_ended() -> None:
    """Wait for every child that has ended, without blocking."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def reaped() -> Reaped:
    """Return what our waited-for descendants used, as the kernel has it (getrusage(2), RUSAGE_CHILDREN)."""
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Reaped(
        user_ns=round(use.ru_utime * NANOSECONDS_PER_SECOND),
        system_ns=round(use.ru_stime * NANOSECONDS_PER_SECOND),
        largest_rss_bytes=use.ru_maxrss * 1024,
        read_blocks=use.ru_inblock,
        written_blocks=use.ru_oublock,
    )


def _complain(text: str) -> None:
    os.write(2, f"kwhere: {text}\n".encode(errors="surrogateescape"))
