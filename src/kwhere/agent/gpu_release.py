"""Gives GPU handles back on request, and takes them again: dividing or resetting a GPU fails while somebody holds it.

Two ways to ask: the local socket (`kwhere agent gpu release`), and a file that is there for as long as they shall be
released (`gpu.release_file`), which holds nothing, or labels of the Kubernetes node as NVIDIA's MIG manager sets them.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu import GpuSnapshot

LOOK_SECONDS = 1.0
MOST_BYTES = 1 << 20
_LABEL = re.compile(r"nvidia\.com/gpu\.deploy(?:\.[a-z0-9.-]+)?[\"']?[ \t]*[=:][ \t]*[\"']?([A-Za-z0-9._-]*)")
_PAUSED = "paused-for"
"""What the MIG manager and the driver manager set such a label to while they work: `paused-for-mig-change`."""

log = structlog.get_logger(__name__)


class Releasable(Protocol):
    """GPUs of one vendor whose handles can be given back."""

    def release(self, timeout_seconds: float = 10.0) -> bool:
        """Give every handle back. Return whether none is held any more."""
        ...

    def acquire(self) -> None:
        """Take handles again."""
        ...

    def snapshot(self) -> GpuSnapshot:
        """Return all GPUs as they stand."""
        ...


@dataclass(frozen=True, slots=True)
class ReleaseState:
    """Whether handles are given back, since when and for how long yet. Seconds are None where that is not so."""

    released: bool
    by: str = ""
    """`command` or `file`."""
    seconds: float | None = None
    left_seconds: float | None = None
    """Until they are taken again by themselves."""
    uid: int | None = None
    """Of who gave the command."""


class GpuRelease:
    """One for all vendors; any thread. `start` begins to look at the file and the clock."""

    def __init__(
        self,
        gpus: Sequence[Releasable],
        *,
        file: Path | None,
        most_seconds: float,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`most_seconds`: after so long handles are taken again, whoever asked."""
        self._gpus = tuple(gpus)
        self._file = file
        self._most_seconds = most_seconds
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self._by = ""
        self._uid: int | None = None
        self._since_ns = 0
        self._file_asks = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def gpus(self) -> Sequence[Releasable]:
        """Return the GPUs of each vendor."""
        return self._gpus

    def start(self) -> None:
        """Begin to look."""
        if self._gpus:
            self._thread = threading.Thread(target=self._run, name="gpu release", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Look no more; handles stay as they are."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(LOOK_SECONDS)

    def release(self, by: str = "command", uid: int | None = None) -> bool:
        """Give every handle back. Return whether none is held any more; it may take some seconds."""
        with self._lock:
            self._uid = self._uid if self._by else uid
            self._by, self._since_ns = self._by or by, self._monotonic_ns()
            done = [gpus.release() for gpus in self._gpus]
        log.info("GPU handles given back", by=by, uid=uid, all=all(done))
        return all(done)

    def acquire(self, why: str = "command") -> None:
        """Take handles again."""
        with self._lock:
            was_released, self._by = bool(self._by), ""
            for gpus in self._gpus:
                gpus.acquire()
        if was_released:
            log.info("GPU handles are taken again", why=why)

    def state(self) -> ReleaseState:
        """Return how it stands."""
        if not self._by:
            return ReleaseState(False)
        seconds = (self._monotonic_ns() - self._since_ns) / NANOSECONDS_PER_SECOND
        return ReleaseState(True, self._by, seconds, max(0.0, self._most_seconds - seconds), self._uid)

    def look(self) -> None:
        """Follow the file and the clock: one look."""
        asks = self._file is not None and asks_release(self._file)
        if asks and not self._file_asks and not self._by:
            self.release("file")
        elif self._file_asks and not asks and self._by == "file":
            self.acquire("file")
        elif self._by and self.state().left_seconds == 0:
            self.acquire("gpu.release_seconds are over")
        self._file_asks = asks

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()


def asks_release(file: Path) -> bool:
    """Return whether a file asks for handles: it is there, and is empty or names a label that is paused."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    return names_a_pause(text)


def names_a_pause(text: str) -> bool:
    """Return whether labels say that GPU clients are to stand back; nothing at all says so too.

    A line per label (`nvidia.com/gpu.deploy.dcgm=paused-for-mig-change`), with commas between, or JSON. `false` is no
    pause: a site sets that for good where it wants no dcgm-exporter.
    """
    return not text.strip() or any(value.startswith(_PAUSED) for value in _LABEL.findall(text))
