"""Docker's and Podman's own answer to what a container is called, where their files are closed to us.

Asked beside the steps, in a thread that ends with its work: a daemon may be slow.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.discovery.facts import is_there

_QUIET_NS = 60_000_000_000
"""A socket that failed is left alone for so long."""
_MOST_KEPT = 4096
_SECONDS = 5.0
_LARGEST_ANSWER = 4 << 20

Ask = Callable[[Path, str], str | None]
"""Socket and container → what `GET /containers/ID/json` says; None: it has none of it. Raises Unavailable."""


class ContainerEngines:
    """Answers of the engines, by container. Any thread."""

    def __init__(self, ask: "Ask | None" = None, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._ask = ask or ask_engine
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self._said: dict[str, str | None] = {}
        self._wanted: deque[tuple[str, tuple[Path, ...]]] = deque()
        self._quiet_until_ns: dict[Path, int] = {}
        self._thread: threading.Thread | None = None

    def find(self, container: str, sockets: Sequence[Path]) -> str | None:
        """Return what an engine said, at once; a container not asked for yet is, and may be known the next time."""
        with self._lock:
            if container in self._said:
                return self._said[container]
            here = tuple(path for path in sockets if self._is_open(path))
            if here and all(container != wanted for wanted, _ in self._wanted):
                self._wanted.append((container, here))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="container names", daemon=True)
                    self._thread.start()
        return None

    def wait(self, seconds: float) -> None:
        """Wait until nothing more is asked for."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _is_open(self, path: Path) -> bool:
        return self._quiet_until_ns.get(path, 0) <= self._monotonic_ns() and is_there(path.parent) and path.exists()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                container, sockets = self._wanted[0]
            said, is_settled = self._ask_each(container, sockets)
            with self._lock:
                self._wanted.popleft()
                if is_settled:
                    self._said[container] = said
                while len(self._said) > _MOST_KEPT:
                    self._said.pop(next(iter(self._said)))

    def _ask_each(self, container: str, sockets: Sequence[Path]) -> tuple[str | None, bool]:
        """Return what the first engine that has it says, and whether every one of them answered."""
        is_settled = True
        for path in sockets:
            try:
                said = self._ask(path, container)
            except (Unavailable, SourceError, ConfigError):
                self._quiet_until_ns[path] = self._monotonic_ns() + _QUIET_NS
                is_settled = False
                continue
            if said is not None:
                return said, True
        return None, is_settled


def ask_engine(path: Path, container: str) -> str | None:
    """Return an engine's answer by its socket. Raises Unavailable and SourceError."""
    from kwhere.transport.http import HttpClient
    from kwhere.transport.settings import HttpClientSettings

    settings = HttpClientSettings(
        connect_timeout_seconds=1.0,
        read_timeout_seconds=_SECONDS,
        total_timeout_seconds=_SECONDS,
        max_answer_bytes=_LARGEST_ANSWER,
    )
    with HttpClient("http://localhost", settings, unix_socket=str(path)) as client:
        answer = client.get(f"/containers/{container}/json")
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise Unavailable("remote", f"{path}: HTTP status {answer.status}")
    return answer.text
