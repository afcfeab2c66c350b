"""The agent's side of a vendor's library: a child process that is asked, watched, ended and started again."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from threading import Condition, Event, Lock, Thread

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu import GpuDevice, GpuSnapshot, Vendor
from kwhere.devices.gpu_activity import NothingOutside, OutsideSource
from kwhere.devices.gpu_board import UNKNOWN, GpuBoard
from kwhere.devices.gpu_fields import RateGroup
from kwhere.devices.gpu_library import DeviceReport, EventsWatched, Message, Opened, XidEvent
from kwhere.devices.gpu_messages import read_message
from kwhere.devices.gpu_settings import GpuSettings
from kwhere.devices.xid import XidLine
from kwhere.transport.child_process import ChildProcess

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 300.0
REVIVE_SECONDS = 300.0
"""A device that stays lost or hung is tried again with a fresh child after this long."""
_ASLEEP_SECONDS = 5.0
_GATHER_SECONDS = 0.02
"""Answers are let come together: to be woken for each costs more than to read it."""


@dataclass(frozen=True, slots=True)
class PastXid:
    """An XID that the kernel's log holds."""

    line: XidLine
    time_ns: int
    """CLOCK_MONOTONIC."""
    utc_ns: int


class GpuWatch:
    """All GPUs of one vendor. `snapshot` never waits; a thread asks the child once per interval.

    The child is started when the thread is, or at the first `poll`; never while `may_open` gives a reason against it.
    """

    def __init__(
        self,
        vendor: Vendor,
        argv: Sequence[str],
        settings: GpuSettings,
        *,
        may_open: Callable[[], str] = lambda: "",
        known: Iterable[GpuDevice] = (),
        clock_ns: Callable[[], int] = time.monotonic_ns,
        outside: OutsideSource | None = None,
        past_xids: Callable[[], Iterable[PastXid]] = tuple,
        source: str = "nvml",
    ) -> None:
        """`argv` starts the child; `may_open` gives one word why the GPUs may not be touched now, else nothing.

        `outside` tells activity that the library does not, and ends with the watch; `past_xids` reads the kernel's
        log, for the time in which no event was told.
        """
        self.vendor = vendor
        self.source = source
        self._argv = tuple(argv)
        self._settings = settings
        self._may_open = may_open
        self._clock_ns = clock_ns
        self.outside: OutsideSource = outside or NothingOutside()
        self._past_xids = past_xids
        self._told_ns = 0
        """Monotonic time up to which every XID was counted."""
        self._tells_events: bool | None = None
        """None: the child has not said it yet."""
        self._board = GpuBoard(vendor, known)
        self._lock = Lock()
        self._snapshot: GpuSnapshot | None = None
        self._stop = Event()
        self._wake = Condition()
        self._released = False
        self._idle = True
        """Whether no handle is held."""
        self._thread: Thread | None = None
        self._session: _Session | None = None

    @property
    def interval_seconds(self) -> float:
        """Return how often the GPUs are read."""
        return self._settings.interval_seconds

    def forbid(self, reason: str) -> None:
        """Never open the library, for a reason of one word. Before `start` and `poll`."""
        self._may_open = lambda: reason

    def start(self) -> None:
        """Begin to ask, on a thread of its own. Repeated calls do nothing."""
        if self._thread is None and not self._stop.is_set():
            self._thread = Thread(target=self._run, name=f"gpu-{self.vendor}", daemon=True)
            self._thread.start()

    def snapshot(self) -> GpuSnapshot:
        """Return everything as it stands; any thread, never waits for a GPU."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = self._board.snapshot()
            return self._snapshot

    def poll(self, timeout_seconds: float = 30.0, groups: Collection[RateGroup] = tuple(RateGroup)) -> GpuSnapshot:
        """Ask everything once and return it: for `--once`, `doctor` and tests, where no thread was started."""
        assert self._thread is None, "the watch's own thread asks"
        reason = "released" if self._released else self._may_open()
        if reason:
            self._fail(reason, "")
            return self.snapshot()
        try:
            if self._session is None:
                self._session = _Session(self._argv, self._settings, self._take, self._clock_ns)
                self._session.open()
            self._session.ask(groups, timeout_seconds)
            self._mark_hung(self._session)
            self._look_outside()
        except (Unavailable, SourceError) as error:
            self._fail(_reason_of(error), str(error))
            self._end_session()
        return self.snapshot()

    def release(self, timeout_seconds: float = 10.0) -> bool:
        """Give every handle back, so that the driver can divide or reset GPUs. Return whether none is held any more."""
        with self._wake:
            self._released = True
            self._wake.notify_all()
        if self._thread is None:
            self._end_session()
            self._fail("released", "")
            return True
        with self._wake:
            return self._wake.wait_for(lambda: self._idle, timeout_seconds)

    def acquire(self) -> None:
        """Take handles again after `release`."""
        self._released = False
        with self._wake:
            self._wake.notify_all()

    def close(self) -> None:
        """End thread and child."""
        self._stop.set()
        self.outside.close()
        with self._wake:
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(5.0)
        else:
            self._end_session()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            reason = self._may_open()
            with self._wake:  # as one with `release`, so that it never says that nothing is held just before this
                reason = "released" if self._released else reason
                self._idle = bool(reason)
            if reason:
                self._fail(reason, "")
                self._rest(_ASLEEP_SECONDS)
                continue
            began_ns = self._clock_ns()
            self._serve()
            self._end_session()
            with self._wake:
                self._idle = True
                self._wake.notify_all()
            lasted_seconds = (self._clock_ns() - began_ns) / NANOSECONDS_PER_SECOND
            failures = 0 if lasted_seconds > MAX_BACKOFF_SECONDS else failures + 1
            if not self._released:
                self._rest(min(FIRST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10), MAX_BACKOFF_SECONDS))

    def _serve(self) -> None:
        """Ask until something ends it; why it ended is in the snapshot."""
        try:
            session = self._session = _Session(self._argv, self._settings, self._take, self._clock_ns)
            session.open()
            while not self._stop.is_set() and not self._released:
                began_ns = self._clock_ns()
                groups = session.due()
                session.ask(groups, self._settings.interval_seconds)
                self._mark_hung(session)
                self._look_outside()
                if RateGroup.SLOW in groups and self._tells_events is False:
                    self._look_back()
                if session.is_tired():
                    return
                left = self._settings.interval_seconds - (self._clock_ns() - began_ns) / NANOSECONDS_PER_SECOND
                session.listen(max(0.0, left))
        except (Unavailable, SourceError) as error:
            self._fail(_reason_of(error), str(error))

    def _take(self, message: Message) -> None:
        self._take_in(message)
        if isinstance(message, Opened):
            self._look_back()

    def _take_in(self, message: Message) -> None:
        with self._lock:
            self._snapshot = None
            if isinstance(message, Opened):
                self._board.opened(message)
            elif isinstance(message, DeviceReport):
                self._board.report(message)
            elif isinstance(message, XidEvent):
                self._board.event(message)
            elif isinstance(message, EventsWatched):
                self._tells_events = message.up
                self._board.events(message)
            else:
                raise Unavailable(message.reason, message.message)

    def _look_back(self) -> None:
        """Count XIDs of the time in which no event was told."""
        now_ns = self._clock_ns()
        missed = [past for past in self._past_xids() if self._told_ns < past.time_ns <= now_ns]
        self._told_ns = now_ns
        with self._lock:
            for past in missed:
                self._snapshot = None
                self._board.past_event(past.line, past.utc_ns)

    def _look_outside(self) -> None:
        found = self.outside.latest()
        with self._lock:
            if self._board.outside(found):
                self._snapshot = None

    def _mark_hung(self, session: "_Session") -> None:
        with self._lock:
            for uuid in session.hung():
                self._board.hangs(uuid)
                self._snapshot = None

    def _fail(self, reason: str, message: str) -> None:
        with self._lock:
            self._board.failed(reason, message)
            self._snapshot = None

    def _rest(self, seconds: float) -> None:
        with self._wake:
            if not self._stop.is_set():
                self._wake.wait(seconds)

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
        if self._tells_events:
            self._told_ns = self._clock_ns()
        self._tells_events = None


class _Session:
    """One child's life: its questions that are still open, and when which group is due."""

    def __init__(
        self,
        argv: Sequence[str],
        settings: GpuSettings,
        take: Callable[[Message], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._take = take
        self._clock_ns = clock_ns
        self._child = ChildProcess(argv)
        self._uuids: tuple[str, ...] = ()
        self._open: dict[str, int] = {}
        """When the question that each device still owes an answer to was asked."""
        self._owed: dict[str, int] = {}
        """Reports that a device still owes."""
        self._down: set[str] = set()
        self._due_ns: dict[RateGroup, int] = {}
        self._revive_ns: int | None = None

    def open(self) -> None:
        """Wait until the library is open. Raises Unavailable, SourceError."""
        deadline_ns = self._clock_ns() + int(self._settings.open_seconds * NANOSECONDS_PER_SECOND)
        while not self._uuids:
            left = (deadline_ns - self._clock_ns()) / NANOSECONDS_PER_SECOND
            line = self._child.receive(max(0.0, left))
            if line is None:
                raise Unavailable("timeout", f"the library did not open within {self._settings.open_seconds:g} s")
            message = read_message(line)
            self._take(message)
            if isinstance(message, Opened):
                self._uuids = tuple(device.uuid for device in message.devices)
                self._down = {f"{UNKNOWN}-{index}" for index in message.unreadable}
                if not self._uuids:
                    return

    def due(self) -> Collection[RateGroup]:
        """Return the groups to ask for now."""
        now_ns = self._clock_ns()
        periods = {
            RateGroup.FAST: 0.0,
            RateGroup.MEDIUM: self._settings.medium_seconds,
            RateGroup.SLOW: self._settings.slow_seconds,
        }
        found = [group for group in periods if now_ns >= self._due_ns.get(group, 0)]
        for group in found:
            self._due_ns[group] = now_ns + int(periods[group] * NANOSECONDS_PER_SECOND)
        return found

    def ask(self, groups: Collection[RateGroup], timeout_seconds: float) -> None:
        """Ask every device that owes no answer, and take in answers until all are there or the time is over."""
        now_ns = self._clock_ns()
        free = [uuid for uuid in self._uuids if uuid not in self._open]
        self._child.send(f"poll {' '.join(groups)}".encode())
        for uuid in free:
            self._open[uuid], self._owed[uuid] = now_ns, len(groups)
        deadline_ns = now_ns + int(timeout_seconds * NANOSECONDS_PER_SECOND)
        time.sleep(min(_GATHER_SECONDS, timeout_seconds))
        while any(uuid in self._open for uuid in free):
            left = (deadline_ns - self._clock_ns()) / NANOSECONDS_PER_SECOND
            if left <= 0 or not self._receive(left):
                return

    def listen(self, seconds: float) -> None:
        """Take in late answers and events for a while."""
        deadline_ns = self._clock_ns() + int(seconds * NANOSECONDS_PER_SECOND)
        while (left := (deadline_ns - self._clock_ns()) / NANOSECONDS_PER_SECOND) > 0:
            self._receive(left)

    def hung(self) -> list[str]:
        """Return devices that have owed an answer for too long. Raises Unavailable where that is all of them."""
        limit_ns = self._clock_ns() - int(self._settings.answer_seconds * NANOSECONDS_PER_SECOND)
        found = [uuid for uuid, asked_ns in self._open.items() if asked_ns <= limit_ns]
        if found and len(found) == len(self._uuids) > 1:
            raise Unavailable("timeout", "no GPU answers")
        return found

    def is_tired(self) -> bool:
        """Return whether a device was lost or hung for so long that a fresh child is worth a try."""
        now_ns = self._clock_ns()
        if not self._down and not self.hung():
            self._revive_ns = None
            return False
        if self._revive_ns is None:
            self._revive_ns = now_ns + int(REVIVE_SECONDS * NANOSECONDS_PER_SECOND)
        return now_ns >= self._revive_ns

    def close(self) -> None:
        """End the child."""
        self._child.end()

    def _receive(self, seconds: float) -> bool:
        line = self._child.receive(seconds)
        if line is None:
            return False
        message = read_message(line)
        if isinstance(message, DeviceReport):
            self._answered(message)
        self._take(message)
        return True

    def _answered(self, report: DeviceReport) -> None:
        self._owed[report.uuid] = self._owed.get(report.uuid, 0) - 1
        if self._owed[report.uuid] <= 0:
            self._open.pop(report.uuid, None)
        if report.down:
            self._down.add(report.uuid)
        else:
            self._down.discard(report.uuid)


def _reason_of(error: Unavailable | SourceError) -> str:
    return error.reason if isinstance(error, Unavailable) else "error"
