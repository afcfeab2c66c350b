"""A slow round over all nodes: whether each one's meters agree. Kept in memory, for lists and the first page."""

import threading
from collections.abc import Iterator
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.database.records import NodeRecord, NodeState
from kwhere.reports.account import Account
from kwhere.reports.agreement import Agreement, agreement_of
from kwhere.reports.figures import utc_of
from kwhere.reports.reconciliation import reconcile_node
from kwhere.series.charts import NodeRef
from kwhere.series.store import SeriesStore

LOOK_BACK = timedelta(minutes=30)
"""Of each node: windows of two minutes."""
REST_SECONDS = 60.0
"""Between two rounds."""
WAIT_SECONDS = 5.0
"""While no node is known yet."""
REST_RATIO = 4
"""After each node the round rests for so many times as long as it took: a fifth of one CPU at most."""
PAGE = 200
STOP_SECONDS = 2.0
_REPORTING = frozenset({NodeState.UP, NodeState.LATE})

log = structlog.get_logger(__name__)


class AgreementRound:
    """Goes over the nodes that report, again and again, in a thread of its own; every server does its own."""

    def __init__(self, account: Account, store: SeriesStore, clock: Clock) -> None:
        self._account = account
        self._store = store
        self._clock = clock
        self._found: dict[tuple[str, str], Agreement] = {}
        self._failures = FailureMemory()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, cluster: str, node: str) -> Agreement | None:
        """Return what the last round found; None for a node that it has not reached, or could not ask about."""
        return self._found.get((cluster, node))

    def of_cluster(self, cluster: str | None) -> list[Agreement]:
        """Return what the last round found of a cluster's nodes, or of all."""
        return [agreement for (place, _), agreement in list(self._found.items()) if cluster in (None, place)]

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread = threading.Thread(target=self._run_on, name="agreement", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; a question under way is not waited for longer than two seconds."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def run_once(self) -> None:
        """Go over all nodes once. Never raises for the store or the database."""
        seen: set[tuple[str, str]] = set()
        try:
            for record in self._nodes():
                if self._over.is_set():
                    return
                seen.add((record.cluster, record.node))
                self._look_at(record)
        except (KwhereError, SQLAlchemyError) as error:
            self._tell("nodes", error)
            return
        for gone in [key for key in self._found if key not in seen]:
            self._found.pop(gone, None)

    def _run_on(self) -> None:
        while not self._over.is_set():
            self.run_once()
            self._over.wait(REST_SECONDS if self._found else WAIT_SECONDS)

    def _nodes(self) -> Iterator[NodeRecord]:
        after: str | None = None
        while True:
            page = self._account.nodes(None, None, after, PAGE)
            yield from (record for record in page.items if record.state in _REPORTING)
            after = page.next
            if after is None:
                return

    def _look_at(self, record: NodeRecord) -> None:
        start_ns = self._clock.monotonic_ns()
        key, now = (record.cluster, record.node), utc_of(self._clock.utc_ns())
        try:
            found = reconcile_node(self._store, NodeRef(*key), Span(now - LOOK_BACK, now))
        except KwhereError as error:
            self._found.pop(key, None)
            self._tell("series", error)
        else:
            self._found[key] = agreement_of(found)
            self._failures.recovered("series")
        took_seconds = (self._clock.monotonic_ns() - start_ns) / NANOSECONDS_PER_SECOND
        self._over.wait(REST_RATIO * took_seconds)

    def _tell(self, subject: str, error: Exception) -> None:
        times = self._failures.failed(subject, str(error), self._clock.monotonic_ns())
        if times is not None:
            log.warning("meters cannot be compared", subject=subject, error=str(error), times=times)
