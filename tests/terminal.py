"""A program in a pseudo-terminal: what it writes, keys for it, and how it leaves the terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE_SECONDS = 60.0


class Terminal:
    """Runs `kwhere` with arguments in a terminal of some size. Waits end with an AssertionError, never silently."""

    def __init__(
        self, arguments: Sequence[str], rows: int = 24, columns: int = 80, environment: Mapping[str, str] | None = None
    ) -> None:
        self.output = ""
        self._exit: int | None = None
        self.keyboard, terminal = pty.openpty()
        self.resize(rows, columns)
        self.before = self.modes()
        settings = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})}
        command = [sys.executable, "-m", "kwhere", *arguments]
        # login_tty(3) by hand, so that signals of the terminal reach the program
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            for descriptor in (0, 1, 2):
                os.dup2(terminal, descriptor)
            os.closerange(3, 256)
            os.execve(command[0], command, settings)
        self._terminal = terminal  # kept open: the modes can be read after the program has ended

    def wait_for(self, text: str, since: int = 0) -> int:
        """Wait until `text` was written after position `since`; return the position behind it."""
        until = time.monotonic() + PATIENCE_SECONDS
        while text not in self.output[since:]:
            assert time.monotonic() < until, f"no {text!r} in {self.output[since:][-2000:]!r}"
            self._read(0.1)
        return self.output.index(text, since) + len(text)

    def type(self, keys: str) -> int:
        """Type keys; return the position of what will be written from here on."""
        position = len(self.output)
        os.write(self.keyboard, keys.encode())
        return position

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        os.kill(self.pid, number)

    def resize(self, rows: int, columns: int) -> int:
        """Change the size; return the position of what will be written from here on."""
        position = len(self.output)
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        return position

    def modes(self) -> list[Any]:
        """Return the terminal's modes."""
        return termios.tcgetattr(self.keyboard)

    def wait_until_stopped(self) -> None:
        """Wait until the program stands still (Ctrl-Z)."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return
            assert time.monotonic() < until, "the program did not stop"
            self._read(0.05)

    def wait(self) -> int:
        """Return the exit code, negative for a signal."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self._exit is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exit = os.waitstatus_to_exitcode(status)
                break
            assert time.monotonic() < until, f"still running: {self.output[-2000:]!r}"
            self._read(0.05)
        while self._read(0.0):
            pass
        return self._exit

    def close(self) -> None:
        """End the program if it still runs."""
        if self._exit is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.keyboard)
        os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, patience_seconds: float) -> bool:
        ready, _, _ = select.select([self.keyboard], [], [], patience_seconds)
        if ready:
            self.output += os.read(self.keyboard, 65536).decode(errors="replace")
        return bool(ready)


def state_of(directory: Path) -> dict[str, str]:
    """Return an environment in which state and settings lie below `directory`."""
    return {"XDG_STATE_HOME": str(directory / "state"), "XDG_CONFIG_HOME": str(directory / "config")}
