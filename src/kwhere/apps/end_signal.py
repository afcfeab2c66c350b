"""The signals that end a long-running role."""

import signal
import threading
from types import FrameType

import structlog

log = structlog.get_logger(__name__)


class EndSignal:
    """SIGTERM or SIGINT, from now on; built in the main thread, before anything that takes time to start."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._over = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def wait(self) -> None:
        """Return when one has come."""
        self._over.wait()

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        log.info(f"{self._role} ends", signal=signal.Signals(number).name)
        self._over.set()
