"""The terminal while `kwhere top` runs: keys come one by one, a screen of its own, and all as before at the end."""

import os
import select
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from kwhere.local.top_choice import Choice, press, split_keys

SECOND_LOOK_SECONDS = 1.1
_KEY_BYTES = 1024
_WAKING = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGTERM, signal.SIGHUP)

Render = Callable[[Choice, int, int], Sequence[Text]]
"""Lines for a choice, a width and a height in columns and rows."""


@dataclass(slots=True)
class _Signals:
    """What arrived since it was last looked at."""

    stop: bool = False
    over: bool = False


class TopScreen:
    """Shows what `render` returns until the viewer quits. `look` is called before each showing."""

    def __init__(self, render: Render, look: Callable[[], object], interval_seconds: float) -> None:
        self._render = render
        self._look = look
        self._interval_seconds = interval_seconds
        self._console = Console(highlight=False)
        self._choice = Choice()
        self._looks = 0

    def show(self, keyboard: int, times: int | None = None) -> None:
        """Run until q, Ctrl-C, a signal or `times` showings; the terminal is then as it was before."""
        with _wakeups() as (wakeup, signals):
            left = times
            while not (self._choice.over or signals.over or left == 0):
                left = self._stay(keyboard, wakeup, signals, left)
                if signals.stop:
                    signals.stop = False
                    os.kill(os.getpid(), signal.SIGSTOP)

    def _stay(self, keyboard: int, wakeup: int, signals: _Signals, left: int | None) -> int | None:
        """Hold the screen until the end or Ctrl-Z; return how many showings are left."""
        with (
            _keys_one_by_one(keyboard),
            Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False) as live,
        ):
            while not (self._choice.over or signals.over or signals.stop or left == 0):
                self._look()
                left = None if left is None else left - 1
                self._wait(live, keyboard, wakeup, signals, until=time.monotonic() + self._pause_seconds())
        return left

    def _pause_seconds(self) -> float:
        """Return the time to the next look; the second one, which brings the first watts, comes sooner."""
        self._looks += 1
        return min(self._interval_seconds, SECOND_LOOK_SECONDS) if self._looks == 1 else self._interval_seconds

    def _wait(self, live: Live, keyboard: int, wakeup: int, signals: _Signals, until: float) -> None:
        """Answer keys and changes of size until the next look is due."""
        while True:
            self._draw(live)
            if self._choice.over or signals.over or signals.stop:
                return
            patience = until - time.monotonic()
            if patience <= 0:
                return
            ready = dict(self._poll(keyboard, wakeup).poll(patience * 1000))
            if wakeup in ready:
                os.read(wakeup, _KEY_BYTES)
            if keyboard in ready:
                self._take_keys(os.read(keyboard, _KEY_BYTES))

    def _poll(self, *descriptors: int) -> select.poll:
        poll = select.poll()  # select(2) takes no descriptor beyond 1023, and every unit keeps some open
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        return poll

    def _take_keys(self, data: bytes) -> None:
        if not data:  # the terminal is gone
            self._choice = press(self._choice, "\x04")
        for key in split_keys(data.decode(errors="ignore")):
            self._choice = press(self._choice, key)

    def _draw(self, live: Live) -> None:
        width, height = self._console.size
        live.update(Group(*self._render(self._choice, width, height)), refresh=True)


@contextmanager
def _keys_one_by_one(keyboard: int) -> Iterator[None]:
    """Deliver keys without Enter and echo; Ctrl-C and Ctrl-Z stay signals."""
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _wakeups() -> Iterator[tuple[int, _Signals]]:
    """Give a descriptor that becomes readable with each signal, and what the signals asked for."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signals = _Signals()

    def note(number: int, _frame: FrameType | None) -> None:
        signals.stop = signals.stop or number == signal.SIGTSTP
        signals.over = signals.over or number in (signal.SIGTERM, signal.SIGHUP)

    before = {number: signal.signal(number, note) for number in _WAKING}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader, signals
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
