"""One process tree: each role a forked child of a light parent, started again when it dies, ended with it.

The parent stays single-threaded and imports no role's code, so a fork is always safe and a killed role comes back.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

import structlog

from kwhere.core.errors import ConfigError, KwhereError

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 5.0
BACK_OFF_SECONDS = (0.0, 0.2, 1.0, 5.0, 15.0)
STEADY_SECONDS = 60.0
"""A role that lived this long is given its first, immediate restart again."""
QUIET_SECONDS = 3600.0
"""A role that fails again and again says so at first, then this seldom."""
EXIT_FAILED, EXIT_SETTINGS = 1, 2

Role = Callable[[], int]
log = structlog.get_logger()


@dataclass(slots=True)
class _Child:
    name: str
    role: Role
    pid: int = 0
    started_s: float = 0.0
    failures: int = 0
    due_s: float = field(default=0.0)
    told_s: float = field(default=0.0)

    def is_quiet(self, now_s: float) -> bool:
        """Return whether its next failure is no news."""
        return self.failures >= len(BACK_OFF_SECONDS) and now_s - self.told_s < QUIET_SECONDS


class Supervisor:
    """Keeps roles running until a signal or until one ends on purpose (exit code 0 or 2)."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self._children = [_Child(name, role) for name, role in roles.items()]
        self._stopping = False
        self._result = 0

    def run(self) -> int:
        """Start every role, wait; return 0 after a signal, else the exit code of the role that ended for good."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        while not self._stopping:
            self._start_due()
            self._reap_one()
        self._end_all()
        return self._result

    def pids(self) -> dict[str, int]:
        """Return the live roles' process ids."""
        return {child.name: child.pid for child in self._children if child.pid}

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.pid == 0 and now >= child.due_s:
                child.pid, child.started_s = fork_role(child.role, is_quiet=child.is_quiet(now)), now

    def _reap_one(self) -> None:
        """Wait at most 0.2 s for a child to end, then see to it."""
        deadline = time.monotonic() + 0.2
        while not self._stopping and time.monotonic() < deadline:
            pid, status = os.waitpid(-1, os.WNOHANG) if self.pids() else (0, 0)
            if pid:
                self._ended(pid, os.waitstatus_to_exitcode(status))
                return
            time.sleep(0.05)

    def _ended(self, pid: int, code: int) -> None:
        child = next((each for each in self._children if each.pid == pid), None)
        if child is None:
            return
        child.pid = 0
        if code in (0, 2):
            self._stopping, self._result = True, code
            return
        if time.monotonic() - child.started_s > STEADY_SECONDS:
            child.failures = 0
        wait_s = BACK_OFF_SECONDS[min(child.failures, len(BACK_OFF_SECONDS) - 1)]
        now_s = time.monotonic()
        is_quiet = child.is_quiet(child.started_s)
        child.failures += 1
        child.due_s = now_s + wait_s
        if not is_quiet:
            child.told_s = now_s
            log.warning(
                "role ended, starting it again",
                role=child.name,
                exit_code=code,
                after_seconds=wait_s,
                failures=child.failures,
            )

    def _end_all(self) -> None:
        for pid in self.pids().values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self.pids() and time.monotonic() < deadline:
            self._forget_ended()
            time.sleep(0.01)
        for child in self._children:
            if child.pid:
                log.warning("role did not end in time, killed", role=child.name, grace_seconds=GRACE_SECONDS)
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)

    def _forget_ended(self) -> None:
        for child in self._children:
            if child.pid and os.waitpid(child.pid, os.WNOHANG)[0]:
                child.pid = 0


def fork_role(role: Role, *, is_quiet: bool = False) -> int:
    """Return the pid of a child that runs `role` and exits with its code; it gets SIGTERM when its parent dies.

    Wrong settings end it with 2 and one sentence, any other failure with 1; a quiet one says nothing of that.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = EXIT_FAILED
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C reaches us through the parent
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == parent:
            code = role()
    except SystemExit as request:
        code = request.code if isinstance(request.code, int) else EXIT_FAILED
    except ConfigError as error:
        code = EXIT_SETTINGS
        sys.stderr.write(f"kwhere: {error}\n")
    except KwhereError as error:
        if not is_quiet:
            log.error("role failed", error=str(error))
    except Exception:
        if not is_quiet:
            log.exception("role failed")
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
