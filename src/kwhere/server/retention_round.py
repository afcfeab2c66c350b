"""A slow round over all clusters: how far back each one's series go. Kept in memory, for charts and health."""

import threading
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.exc import SQLAlchemyError

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.reports.figures import utc_of
from kwhere.series.retention import Kept
from kwhere.series.store import SeriesStore

REST_SECONDS = 600.0
"""Between two questions of one cluster."""
WAIT_SECONDS = 15.0
"""Where a store did not answer, or nothing is known yet, until it is asked again."""
STOP_SECONDS = 2.0

log = structlog.get_logger(__name__)


class RetentionRound:
    """Asks the store of each cluster, again and again, in a thread of its own; every server does its own.

    What was found stands while a store does not answer; a failure is never taken for an answer.
    """

    def __init__(self, clusters: Callable[[], Sequence[str]], store: SeriesStore, clock: Clock) -> None:
        self._clusters = clusters
        self._store = store
        self._clock = clock
        self._found: dict[str, Kept] = {}
        self._told_ns: dict[str, int] = {}
        self._failures = FailureMemory()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, cluster: str) -> Kept | None:
        """Return what the last round found; None for a cluster of which its store has nothing, or never told."""
        return self._found.get(cluster)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread = threading.Thread(target=self._run_on, name="retention", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; a question under way is not waited for longer than two seconds."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def run_once(self) -> bool:
        """Ask of each cluster whose answer is old, or that has none; return whether all was told.

        So a store that does not answer, or has nothing of its cluster, does not have the others asked every time.
        Never raises for the stores or the database.
        """
        try:
            clusters = self._clusters()
        except (KwhereError, SQLAlchemyError) as error:
            self._tell("clusters", error)
            return False
        for gone in [cluster for cluster in self._found if cluster not in clusters]:
            self._forget(gone)
        told = [self._is_told(cluster) or self._ask(cluster) for cluster in clusters]
        return bool(told) and all(told)

    def _run_on(self) -> None:
        while not self._over.is_set():
            self._over.wait(REST_SECONDS if self.run_once() else WAIT_SECONDS)

    def _is_told(self, cluster: str) -> bool:
        told_ns = self._told_ns.get(cluster)
        return told_ns is not None and self._clock.monotonic_ns() - told_ns < REST_SECONDS * NANOSECONDS_PER_SECOND

    def _forget(self, cluster: str) -> None:
        self._found.pop(cluster, None)
        self._told_ns.pop(cluster, None)

    def _ask(self, cluster: str) -> bool:
        if self._over.is_set():
            return False
        try:
            kept = self._store.kept(cluster, utc_of(self._clock.utc_ns()))
        except KwhereError as error:
            self._tell(cluster, error)
            return False
        self._failures.recovered(cluster)
        if kept is None:
            self._forget(cluster)
            return False
        self._found[cluster], self._told_ns[cluster] = kept, self._clock.monotonic_ns()
        return True

    def _tell(self, subject: str, error: Exception) -> None:
        times = self._failures.failed(subject, str(error), self._clock.monotonic_ns())
        if times is not None:
            log.warning("store of series does not tell how far back it goes", subject=subject, error=str(error))
