"""The child process that holds a vendor's library: `python -m kwhere.devices.gpu_child VENDOR [LIBRARY]`.

Orders come on standard input, one a line: `poll GROUP…` and `quit`; reports leave on standard output as lines of JSON.
Each device is read by a thread of its own, so that one that hangs delays no other. Imports nothing heavy.
"""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from threading import Condition, Lock, Thread
from typing import IO

from kwhere.devices.gpu_fields import RateGroup
from kwhere.devices.gpu_library import (
    DeviceDown,
    DeviceReport,
    EventsWatched,
    Failed,
    Library,
    LibraryError,
    Message,
    Reopen,
)
from kwhere.devices.gpu_told import Told

EVENT_WAIT_SECONDS = 1.0
PATIENCE_SECONDS = 0.05
_KIND = "kind"
"""Names the record that a line holds."""


def open_nvml(path: str) -> Library:
    """Return NVIDIA's library; the vendor's package is imported here and nowhere else."""
    try:
        from kwhere.devices.nvml import NvmlLibrary
    except ImportError as error:
        raise LibraryError("absent", f"the Python package nvidia-ml-py: {error}") from error
    return NvmlLibrary(path)


LIBRARIES: Mapping[str, Callable[[str], Library]] = {"nvidia": open_nvml}


class Writer:
    """Standard output as lines, whole ones, from any thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = Lock()

    def write(self, message: Message) -> None:
        """Write one message; a parent that is gone ends the process."""
        line = _ENCODER.encode(message).encode() + b"\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                os._exit(0)


def _plain(value: object) -> object:
    """Return a record as json can write it, without what is as it would be if nothing were said."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value)}: expected a record")
    return {
        name: said
        for name, default in _defaults(type(value))
        if (said := getattr(value, name)) is not default and said != default
    }


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"), allow_nan=False, check_circular=False)


@cache
def _defaults(record: type) -> Sequence[tuple[str, object]]:
    """Return each field of a record with its default; MISSING, which nothing is, where it is said in any case."""
    return [
        (
            item.name,
            dataclasses.MISSING
            if item.name == _KIND
            else item.default
            if item.default_factory is dataclasses.MISSING
            else item.default_factory(),
        )
        for item in dataclasses.fields(record)
    ]


class Turns:
    """Devices are read one after another: threads that wait for the interpreter cost more than they read.

    One that takes long is not waited for. Whoever waited takes the turn over, once; from then on it is in nobody's way.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience_seconds = patience_seconds
        self._turn = Lock()
        self._guard = Lock()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for one's turn, and pass it on at the end."""
        turn = self._turn
        while not turn.acquire(timeout=self._patience_seconds):
            with self._guard:
                if self._turn is turn:
                    self._turn = Lock()
                turn = self._turn
        try:
            yield
        finally:
            turn.release()


class DeviceWorker:
    """Reads one device on a thread of its own. Asked while it still reads, it forgets the question."""

    def __init__(self, uuid: str, library: Library, writer: Writer, reopen: Callable[[], None], turns: Turns) -> None:
        self.uuid = uuid
        self._told = Told()
        self._turns = turns
        self._library = library
        self._writer = writer
        self._reopen = reopen
        self._wanted: Collection[RateGroup] = ()
        self._changed = Condition()
        self.busy = False
        Thread(target=self._run, name=f"gpu-{uuid}", daemon=True).start()

    def ask(self, groups: Collection[RateGroup]) -> None:
        """Have these groups read, unless the last question is still open."""
        with self._changed:
            if not self.busy:
                self.busy = True
                self._wanted = groups
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._wanted:
                    self._changed.wait()
                groups, self._wanted = self._wanted, ()
            with self._turns.taken():
                reports = [self._told.news(report) for report in self._read(groups)]
            with self._changed:
                self.busy = False  # before the parent sees the reports: it may ask again at once
            for report in reports:
                self._writer.write(report)

    def _read(self, groups: Collection[RateGroup]) -> Sequence[DeviceReport]:
        try:
            return self._library.read(self.uuid, groups)
        except DeviceDown as error:
            return [DeviceReport(self.uuid, group, 0, down=error.reason) for group in groups]
        except Reopen as error:
            self._writer.write(Failed("reopen", str(error)))
            self._reopen()
            return []


def watch_events(library: Library, writer: Writer) -> None:
    """Say whether there are events to wait for, and pass them on for as long as there are."""
    wait_seconds = 0.0
    with contextlib.suppress(Reopen):  # a driver that went away is told by the workers
        try:
            while True:
                events = library.events(wait_seconds)
                if not wait_seconds:
                    writer.write(EventsWatched(True))
                    wait_seconds = EVENT_WAIT_SECONDS
                for event in events:
                    writer.write(event)
        except LibraryError as error:
            writer.write(EventsWatched(False, str(error)))


def serve(make: Callable[[], Library], orders: IO[bytes], writer: Writer) -> int:
    """Open the library and follow orders until they end. Return the exit code."""
    try:
        library = make()
        opened = library.open()
    except LibraryError as error:
        writer.write(Failed(error.reason, str(error)))
        return 3
    writer.write(opened)
    turns = Turns()
    workers = [DeviceWorker(device.uuid, library, writer, lambda: os._exit(4), turns) for device in opened.devices]
    Thread(target=watch_events, args=(library, writer), name="gpu-events", daemon=True).start()
    for line in orders:
        order, *words = line.decode("ascii", "replace").split() or [""]
        if order == "quit":
            break
        if order == "poll":
            for worker in workers:
                worker.ask(tuple(RateGroup(word) for word in words))
    if not any(worker.busy for worker in workers):  # else the library's own lock may be taken for good
        library.close()
    return 0


def main(argv: list[str]) -> None:
    """Serve one vendor's library: its name, and its file where it is not where the linker finds it."""
    vendor, path = argv[0], argv[1] if len(argv) > 1 else ""
    run(lambda: LIBRARIES[vendor](path))


def run(make: Callable[[], Library]) -> None:
    """Serve a library over standard input and output until orders end; what it prints goes to standard error."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    code = serve(make, sys.stdin.buffer, Writer(output))
    os._exit(code)  # a thread may hang in the library: no thread is waited for


if __name__ == "__main__":
    main(sys.argv[1:])
