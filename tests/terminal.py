"""A program in a pseudo-terminal: what it writes, keys for it, and how it leaves the terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE_SECONDS = 60.0
# The terminal becomes the program's own, so that Ctrl-C and Ctrl-Z reach it; then the program takes our place.
_BECOME = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.executable, [sys.executable, '-m', 'kwhere', *sys.argv[1:]])"
)


class Terminal:
    """Runs `kwhere` with arguments in a terminal of some size. Waits end with an AssertionError, never silently."""

    def __init__(
        self, arguments: Sequence[str], rows: int = 24, columns: int = 80, environment: Mapping[str, str] | None = None
    ) -> None:
        self.output = ""
        self.keyboard, terminal = pty.openpty()
        self.resize(rows, columns)
        self.before = self.modes()
        settings = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
        self._program = subprocess.Popen(
            [sys.executable, "-c", _BECOME, *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=settings,
            start_new_session=True,
        )
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
        self._program.send_signal(number)

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
        stat = Path(f"/proc/{self._program.pid}/stat")
        until = time.monotonic() + PATIENCE_SECONDS
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until, "the program did not stop"
            self._read(0.05)
        while self._read(0.0):  # what it wrote on its way may still lie in the terminal
            pass

    def wait(self) -> int:
        """Return the exit code, negative for a signal."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self._program.poll() is None:
            assert time.monotonic() < until, f"still running: {self.output[-2000:]!r}"
            self._read(0.05)
        while self._read(0.0):
            pass
        return self._program.returncode

    def close(self) -> None:
        """End the program if it still runs."""
        self._program.kill()
        self._program.wait()
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
    """Return our environment with state and settings below `directory`, and without what changes how things look."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {**kept, "XDG_STATE_HOME": str(directory / "state"), "XDG_CONFIG_HOME": str(directory / "config")}
