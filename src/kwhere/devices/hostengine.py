"""A running nv-hostengine as a source of activity, and the choice between it and a dcgm-exporter."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Lock, Thread

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.dcgm_exporter import AUTO, HOLD_SECONDS, PERIOD_SECONDS, RETRY_SECONDS, knock
from kwhere.devices.gpu_activity import OutsideActivity, OutsideSource, OutsideState
from kwhere.devices.gpu_fields import GpuField
from kwhere.transport.child_process import ChildProcess

SOURCE = "hostengine"
AUTO_ADDRESS = "127.0.0.1:5555"
_ANSWER_SECONDS = 20.0
_CLOSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ToldPlace:
    """What the child tells of one GPU or instance."""

    uuid: str
    gpu_instance: int | None
    values: dict[GpuField, int | FiniteFloat]


@dataclass(frozen=True, slots=True)
class Told:
    """One line of the child: places, or why there are none."""

    places: list[ToldPlace] = field(default_factory=list)
    reason: str = ""
    message: str = ""


@cache
def _adapter() -> TypeAdapter[Told]:
    return TypeAdapter(Told)


def read_told(line: bytes) -> Told:
    """Return one line of the child. Raises SourceError."""
    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        raise SourceError(f"nv-hostengine's process: {error.errors(include_url=False)[0]['msg']}") from error


class HostEngineSource:
    """Asks on a thread of its own through a child process, while somebody wants to know; `latest` never waits."""

    def __init__(
        self,
        address: str,
        library: str = "",
        is_wanted: Callable[[], bool] = lambda: True,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`address` may be `auto`: the one on this machine's port 5555. `library`: libdcgm's file."""
        self._address = AUTO_ADDRESS if address == AUTO else address
        self._library = library
        self._is_wanted = is_wanted
        self._monotonic_ns = monotonic_ns
        self._lock = Lock()
        self._child: ChildProcess | None = None
        self._latest: OutsideActivity | None = None
        self._answered_ns = 0
        self._state = OutsideState(SOURCE, self._address, False, "unasked")
        self._over = Event()
        self._thread: Thread | None = None

    def latest(self) -> OutsideActivity | None:
        """Return the newest activity; None where none is known, or it is too old."""
        if self._thread is None and not self._over.is_set():
            self._thread = Thread(target=self._run, name="nv-hostengine", daemon=True)
            self._thread.start()
        age_ns = self._monotonic_ns() - self._answered_ns
        return self._latest if age_ns <= HOLD_SECONDS * NANOSECONDS_PER_SECOND else None

    def states(self) -> tuple[OutsideState, ...]:
        """Return how it does."""
        return (self._state,)

    def ask(self) -> None:
        """Ask once; it takes 20 s at most."""
        with self._lock:
            try:
                told = self._asked()
            except (Unavailable, SourceError) as error:
                reason = error.reason if isinstance(error, Unavailable) else "error"
                self._state = OutsideState(SOURCE, self._address, False, reason, str(error))
                self._end()
                return
            found = {(place.uuid, place.gpu_instance): place.values for place in told.places}
            if found:
                self._latest, self._answered_ns = OutsideActivity(SOURCE, found), self._monotonic_ns()
            self._state = OutsideState(SOURCE, self._address, True, "" if found else "no_data")

    def close(self) -> None:
        """Ask no more, and end the child, at once or when the question that is open has its answer."""
        self._over.set()
        if self._lock.acquire(timeout=_CLOSE_SECONDS):
            try:
                self._end()
            finally:
                self._lock.release()

    def _asked(self) -> Told:
        if self._child is None:
            knock(f"tcp://{self._address}")
            argv = (sys.executable, "-m", "kwhere.devices.hostengine_child", self._library, self._address)
            self._child = ChildProcess(argv)
        self._child.send(b"ask")
        line = self._child.receive(_ANSWER_SECONDS)
        if line is None:
            raise Unavailable("timeout", f"nv-hostengine at {self._address}: no answer within {_ANSWER_SECONDS:g} s")
        told = read_told(line)
        if told.reason:
            raise Unavailable(told.reason, told.message)
        return told

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _run(self) -> None:
        while not self._over.is_set():
            if self._is_wanted():
                self.ask()
            self._over.wait(PERIOD_SECONDS if self._state.up or self._state.reason == "unasked" else RETRY_SECONDS)
        with self._lock:
            self._end()


class FirstOf:
    """Several services: the first that knows speaks, for all GPUs."""

    def __init__(self, sources: Sequence[OutsideSource]) -> None:
        self._sources = tuple(sources)

    def latest(self) -> OutsideActivity | None:
        """Return the newest activity of the first that has any."""
        return next((found for source in self._sources if (found := source.latest()) is not None), None)

    def states(self) -> tuple[OutsideState, ...]:
        """Return how each does."""
        return tuple(state for source in self._sources for state in source.states())

    def ask(self) -> None:
        """Ask in turn, until one knows."""
        for source in self._sources:
            source.ask()
            if source.latest() is not None:
                return

    def close(self) -> None:
        """Ask no more."""
        for source in self._sources:
            source.close()
