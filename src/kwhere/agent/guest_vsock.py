"""vsock for guests: the kernel says by its CID which guest asks, and it is told its own entry (vsock(7))."""

import socket
import threading
from collections.abc import Callable

import structlog

from kwhere.agent.guest_choice import named_units
from kwhere.agent.guest_cids import find_cids
from kwhere.agent.guest_feeds import Told
from kwhere.agent.guest_settings import GuestSettings
from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.discovery.libvirt import MANAGER
from kwhere.kernel.hostfs import HostFS

SEND_SECONDS = 2.0
_BACKLOG = 64
_STOP_SECONDS = 1.0

log = structlog.get_logger(__name__)


class GuestCids:
    """Which entry a CID is told. Not thread-safe."""

    def __init__(self, settings: GuestSettings, told: Callable[[], Told], fs: HostFS) -> None:
        self._settings = settings
        self._told = told
        self._fs = fs
        self._asked_for: frozenset[tuple[str, str]] = frozenset()
        self._found: dict[str, int] = {}

    def entry_of(self, cid: int) -> bytes | None:
        """Return the entry of the guest with that CID; None for a stranger, and for a CID that two guests claim."""
        told = self._told()
        by_unit = self._cids(told)
        units = [unit for unit, own in by_unit.items() if own == cid]
        return told.entries.get(units[0]) if len(units) == 1 else None

    def _cids(self, told: Told) -> dict[str, int]:
        named = named_units(self._settings, told.units.values())
        fixed = {unit.key.unit: cid for key, unit in named.items() if (cid := self._settings.vms[key].cid) is not None}
        machines = [unit for unit in told.units.values() if unit.key.manager == MANAGER and unit.key.unit not in fixed]
        runs = frozenset((unit.key.unit, unit.key.run) for unit in machines)
        if runs != self._asked_for:
            try:
                self._found = find_cids(self._fs, machines)
            except Unavailable:
                self._found = {}
            self._asked_for = runs
        return {**self._found, **fixed}


class GuestVsock:
    """Serves from `start` to `stop`, in a thread of its own, one guest after another."""

    def __init__(
        self,
        port: int,
        cids: GuestCids,
        clock: Clock,
        listening: Callable[[int], socket.socket] | None = None,
    ) -> None:
        self._port = port
        self._cids = cids
        self._clock = clock
        self._listening = listening or listen
        self._failures = FailureMemory()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def start(self) -> None:
        """Listen and serve. A host without vsock is told in the log; the other ways go on."""
        try:
            self._socket = self._listening(self._port)
        except OSError as error:
            log.error("vsock cannot be listened at, guests with a CID are not told", port=self._port, error=str(error))
            return
        self._socket.settimeout(0.5)
        self._thread = threading.Thread(target=self._run, name="guest vsock", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        if self._socket is not None:
            self._socket.close()

    def converse(self, connection: socket.socket, peer: object) -> None:
        """Tell the other end its own entry and hang up; a stranger hears nothing."""
        cid = peer[0] if isinstance(peer, tuple) and peer and isinstance(peer[0], int) else None
        with connection:
            entry = self._cids.entry_of(cid) if cid is not None else None
            if entry is not None:
                connection.settimeout(SEND_SECONDS)
                connection.sendall(entry)

    def _run(self) -> None:
        assert self._socket is not None
        while not self._over.is_set():
            try:
                connection, peer = self._socket.accept()
                self.converse(connection, peer)
            except TimeoutError:
                continue
            except (OSError, KwhereError) as error:
                if self._failures.failed("vsock", str(error), self._clock.monotonic_ns()) is not None:
                    log.warning("guest was not told by vsock", error=str(error))
                self._over.wait(0.1)


def listen(port: int) -> socket.socket:
    """Return a vsock that every guest of this host can reach. Raises OSError."""
    listening = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    try:
        listening.bind((socket.VMADDR_CID_ANY, port))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
