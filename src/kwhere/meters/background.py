"""Sources that may block, e.g. a BMC: asked by a thread of their own, read by the step from memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, Method
from kwhere.meters.failures import as_unavailable
from kwhere.meters.meter import Domain, Reading

MAX_BACKOFF_SECONDS = 300.0


class BlockingSource(ABC):
    """What a background meter asks: a source whose answer may take seconds. Subclasses are built without asking."""

    @abstractmethod
    def ask(self) -> Sequence[Reading]:
        """Return readings; a `time_ns` of 0 means "when the answer came". Raises Unavailable, SourceError, NoData.

        Runs on the meter's own thread, one call at a time; must end within the meter's `give_up_seconds`.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what is held. Called once, after the last `ask` or during it: that one then fails."""


@dataclass(frozen=True, slots=True)
class SlowFacts:
    """What a background meter says of itself; see `Meter`."""

    source: str
    domains: tuple[Domain, ...]
    covers: frozenset[Component]
    refresh_seconds: float
    """Seconds from the start of one question to the next; power is held for three of these."""
    give_up_seconds: float
    """A question that takes longer counts as failed, reason `timeout`, until it comes back."""
    p_max_uw: int
    method: Method = Method.INTEGRATED
    needs_proof: bool = False


class BackgroundMeter:
    """A `Meter` over a source that may block. Its thread starts at the first `read` and ends with `close`.

    `read` never waits: it gives the last answer, whose time is the answer's, so that an old one is not fresh. Before
    the first answer it raises NoData. After a failure it raises that until the source answers again; the thread asks
    ever more seldom, at most every five minutes, or when the source said that it wants to be asked.
    """

    def __init__(self, facts: SlowFacts, blocking: BlockingSource, clock_ns: Callable[[], int]) -> None:
        """`clock_ns` is the monotonic clock of the steps."""
        self.source = facts.source
        self.method = facts.method
        self.domains = facts.domains
        self.covers = facts.covers
        self.refresh_seconds = facts.refresh_seconds
        self.needs_proof = facts.needs_proof
        self._facts = facts
        self._blocking = blocking
        self._clock_ns = clock_ns
        self._lock = Lock()
        self._stop = Event()
        self._thread: Thread | None = None
        self._answer: Sequence[Reading] | Unavailable | None = None
        self._asked_ns: int | None = None
        """When the question under way began; None between questions."""

    def read(self, now_ns: int) -> Sequence[Reading]:
        """Return the last answer. Raises NoData before the first, Unavailable after a failure."""
        if self._thread is None and not self._stop.is_set():
            self._thread = Thread(target=self._run, name=f"meter-{self.source}", daemon=True)
            self._thread.start()
        with self._lock:
            answer, asked_ns = self._answer, self._asked_ns
        limit_ns = int(self._facts.give_up_seconds * NANOSECONDS_PER_SECOND)
        if asked_ns is not None and now_ns - asked_ns > limit_ns:
            raise Unavailable("timeout", f"{self.source}: no answer within {self._facts.give_up_seconds:g} s")
        if answer is None:
            raise NoData(f"{self.source}: not answered yet")
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    def p_max_uw(self, domain: Domain) -> int:
        """Return the largest plausible power of a domain; for `platform` what may lie beside the components."""
        return self._facts.p_max_uw

    def close(self) -> None:
        """End the thread; one that hangs in the source is left to it."""
        self._stop.set()
        self._blocking.close()

    def ask_once(self) -> float:
        """Ask once, keep what came, and return how many seconds to leave the source alone."""
        began_ns = self._clock_ns()
        with self._lock:
            self._asked_ns = began_ns
        answer = self._ask()
        with self._lock:
            self._asked_ns = None
            self._answer = answer if answer is not None else self._answer
        took_seconds = (self._clock_ns() - began_ns) / NANOSECONDS_PER_SECOND
        wanted = answer.retry_after_seconds if isinstance(answer, Unavailable) else None
        return max(0.0, self.refresh_seconds - took_seconds) if wanted is None else wanted

    def _ask(self) -> Sequence[Reading] | Unavailable | None:
        try:
            readings = self._blocking.ask()
        except NoData:
            return None
        except (Unavailable, SourceError) as error:
            return as_unavailable(error)
        now_ns = self._clock_ns()
        return [replace(reading, time_ns=reading.time_ns or now_ns, device_time=True) for reading in readings]

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            wait_seconds = self.ask_once()
            answer = self._answer
            failures = failures + 1 if isinstance(answer, Unavailable) else 0
            told = isinstance(answer, Unavailable) and answer.retry_after_seconds is not None
            backoff_seconds = self.refresh_seconds * 2 ** min(failures, 10) if failures > 1 and not told else 0.0
            self._stop.wait(max(wait_seconds, min(backoff_seconds, MAX_BACKOFF_SECONDS)))
