"""Load of our own making: one child process per CPU, pinned, busy for a given share of each tenth of a second.

Each child hears its level through a pipe and ends when the pipe does, so none outlives us, however we end.
"""

import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

PERIOD_NS = 100_000_000
_ROUNDS = 2000
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LoadGenerator:
    """Children that burn CPU time on command. `start` before any thread; `stop` leaves none behind."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = tuple(cpus)
        self._pipes: list[int] = []
        self.pids: list[int] = []

    def start(self) -> None:
        """Fork one idle child per CPU."""
        for cpu in self._cpus:
            reader, writer = os.pipe()
            # Ctrl-C within a fork would be raised in one of Python's own hooks, which pass over it.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            pid = os.fork()
            if pid == 0:
                _become_burner(cpu, reader, [*self._pipes, writer])
            os.close(reader)
            self._pipes.append(writer)
            self.pids.append(pid)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def set_level(self, percent: int) -> None:
        """Keep every CPU busy for `percent` of the time from now on."""
        for pipe in self._pipes:
            os.write(pipe, bytes([percent]))

    def stop(self) -> None:
        """End every child and wait for it."""
        for pipe in self._pipes:
            with suppress(OSError):
                os.close(pipe)
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pipes.clear()
        self.pids.clear()


def _become_burner(cpu: int, reader: int, writers: Sequence[int]) -> NoReturn:
    """Burn as told until the pipe ends; `writers` are the ends that belong to the parent."""
    try:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        for writer in writers:
            os.close(writer)
        with suppress(OSError):  # a CPU that a cpuset keeps from us: the kernel chooses another one
            os.sched_setaffinity(0, {cpu})
        _burn(reader)
    finally:
        os._exit(0)


def _burn(reader: int) -> None:
    percent = 0
    while True:
        begin_ns = time.monotonic_ns()
        busy_until_ns = begin_ns + PERIOD_NS * percent // 100
        number = 1
        while time.monotonic_ns() < busy_until_ns:
            for _ in range(_ROUNDS):
                number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        left_ns = max(0, begin_ns + PERIOD_NS - time.monotonic_ns())
        wait_seconds = None if percent == 0 else left_ns / 1e9
        if select.select([reader], [], [], wait_seconds)[0]:
            told = os.read(reader, 4096)
            if not told:
                return
            percent = min(100, told[-1])
