"""What the server does beside taking in: passes over the account, by one of the servers of a database at a time."""

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.metrics import Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import leases

LEASE = "passes"
LEASE_SECONDS = 15.0
REST_RATIO = 4
"""A pass rests for so many times as long as it took: all of them use at most a fifth of one CPU."""
MOST_REST_SECONDS = 30.0
STOP_SECONDS = 2.0

log = structlog.get_logger(__name__)


class Turn(Protocol):
    """A pass's leave to go on."""

    def goes_on(self) -> bool:
        """Return whether to do the next piece: nobody stopped us and the lease is still ours."""
        ...


class ServerPass(Protocol):
    """One kind of work, idempotent: it may be cut off anywhere and done again, even by two servers at once."""

    name: str

    def is_due(self) -> bool:
        """Return whether there is work; asked often, so cheap."""
        ...

    def run(self, turn: Turn) -> None:
        """Do it, in pieces; before each piece `turn` is asked."""
        ...


@runtime_checkable
class ObservingPass(ServerPass, Protocol):
    """A pass that finds what is worth a metric."""

    def samples(self) -> Iterable[Sample]:
        """Return what it found last. Any thread."""
        ...


@dataclass(frozen=True, slots=True)
class PassCounts:
    """What a pass did since the start."""

    runs: int = 0
    errors: int = 0
    seconds: float = 0.0
    """How long its newest run took."""
    succeeded_ns: int | None = None
    """When its newest run that went well ended, UTC ns."""


class PassRunner:
    """Runs passes in a thread of its own, whenever they are due, as long as this server holds the lease."""

    def __init__(self, engine: Engine, clock: Clock, passes: Sequence[ServerPass], poll_seconds: float = 1.0) -> None:
        self._engine = engine
        self._clock = clock
        self._passes = tuple(passes)
        self._poll_seconds = poll_seconds
        self._holder = f"{socket.gethostname()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._until_ns = 0
        self._rest_until_ns: dict[str, int] = {}
        self._failures = FailureMemory()
        self._faults: dict[str, str] = {}
        self._counts = {each.name: PassCounts() for each in passes}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def leads(self) -> bool:
        """Return whether this server does the passes now."""
        return self._until_ns > self._clock.utc_ns()

    @property
    def faults(self) -> Mapping[str, str]:
        """Return, by name of the pass, why its last run failed; {} when all went well."""
        return dict(self._faults)

    @property
    def counts(self) -> Mapping[str, PassCounts]:
        """Return, by name of the pass, what it did since the start."""
        return dict(self._counts)

    def samples(self) -> Iterator[Sample]:
        """Yield what passes found worth a metric; nothing where another server does them. Any thread."""
        for each in self._passes if self.leads else ():
            if isinstance(each, ObservingPass):
                yield from each.samples()

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread = threading.Thread(target=self._run_on, name="passes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End within two seconds and give the lease back; a piece of work that takes longer is rolled back."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        if self._thread is None or not self._thread.is_alive():
            self._attempt("lease", self._give_back)

    def run_once(self) -> None:
        """Run every pass that is due, if this server leads. Never raises for a pass or the database."""
        for each in self._passes:
            self._attempt("lease", self._renew)
            if self._over.is_set():
                return
            if not self.leads:
                self._forget()
                return
            self._attempt(each.name, partial(self._run, each))

    def goes_on(self) -> bool:
        """Return whether a pass may do its next piece; renews the lease when half of it is over."""
        if self._over.is_set():
            return False
        self._renew()
        return self.leads

    def _run_on(self) -> None:
        while not self._over.wait(self._poll_seconds):
            self.run_once()

    def _run(self, each: ServerPass) -> bool:
        """Return whether it ran: one that rests, or is not due, has not mended what failed."""
        start_ns = self._clock.monotonic_ns()
        if start_ns < self._rest_until_ns.get(each.name, 0) or not each.is_due():
            return False
        try:
            each.run(self)
        finally:
            end_ns = self._clock.monotonic_ns()
            rest_ns = min(REST_RATIO * (end_ns - start_ns), int(MOST_REST_SECONDS * NANOSECONDS_PER_SECOND))
            self._rest_until_ns[each.name] = end_ns + rest_ns
            self._count(each.name, runs=1, seconds=(end_ns - start_ns) / NANOSECONDS_PER_SECOND)
        self._count(each.name, succeeded_ns=self._clock.utc_ns())
        return True

    def _count(
        self,
        name: str,
        *,
        runs: int = 0,
        errors: int = 0,
        seconds: float | None = None,
        succeeded_ns: int | None = None,
    ) -> None:
        held = self._counts.get(name, PassCounts())
        self._counts[name] = PassCounts(
            held.runs + runs,
            held.errors + errors,
            held.seconds if seconds is None else seconds,
            succeeded_ns or held.succeeded_ns,
        )

    def _forget(self) -> None:
        """Forget what failed here: the passes are another server's now."""
        for each in self._passes:
            self._faults.pop(each.name, None)
            self._failures.recovered(each.name)

    def _renew(self) -> bool:
        now_ns = self._clock.utc_ns()
        if self._until_ns - now_ns > LEASE_SECONDS / 2 * NANOSECONDS_PER_SECOND:
            return True
        led = self._until_ns > 0
        until_ns = now_ns + int(LEASE_SECONDS * NANOSECONDS_PER_SECOND)
        self._until_ns = until_ns if leases.hold(self._engine, LEASE, self._holder, now_ns, LEASE_SECONDS) else 0
        if led != (self._until_ns > 0):
            log.info("passes are ours" if not led else "passes are another server's", holder=self._holder)
        return True

    def _give_back(self) -> bool:
        self._until_ns = 0
        leases.release(self._engine, LEASE, self._holder)
        return True

    def _attempt(self, name: str, work: Callable[[], bool]) -> None:
        """Do `work`, which says whether it did any; what it raises is told on change, then hourly."""
        try:
            worked = work()
        except Exception as error:  # noqa: BLE001 - the one runner of passes
            self._count(name, errors=1)
            self._tell(name, f"{type(error).__name__}: {error}")
        else:
            if worked:
                self._faults.pop(name, None)
            if worked and self._failures.recovered(name):
                log.info("pass works again", server_pass=name)

    def _tell(self, name: str, fault: str) -> None:
        self._faults[name] = fault
        times = self._failures.failed(name, fault, self._clock.monotonic_ns())
        if times is not None:
            log.error("pass failed", server_pass=name, fault=fault, times=times)
