"""Sends on what this server took in: every journal of one cluster, to the push door of another server.

The other server keeps the cursors and says where to go on, so that either side may be restarted or restored. Only nodes
with news are asked for, all of them after a failure and once an hour.
"""

import hashlib
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, Unavailable
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import leases, relayed
from kwhere.database.relayed import RelayedNode
from kwhere.ledger.push import LedgerPush, Pusher
from kwhere.server.relayed_ledger import RelayedLedger
from kwhere.server.settings import RelaySettings
from kwhere.transport.http import HttpClient

LOOK_AGAIN_NS = 3600 * NANOSECONDS_PER_SECOND
LEASE_SECONDS = 15.0
_RENEWED_NS = 5 * NANOSECONDS_PER_SECOND
_MOST_REST_SECONDS = 600.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _State:
    """How things stand with one node."""

    ledger: RelayedLedger
    sent: tuple[int, int] | None = None
    """Slots and epochs taken in here when the other server last had them all."""
    failures: int = 0
    rest_until_ns: int = 0


class Relay:
    """Sends one cluster on. Of several servers on one database one does, by a lease; two would do no harm."""

    def __init__(self, engine: Engine, client: HttpClient, settings: RelaySettings, clock: Clock) -> None:
        self._engine = engine
        self._client = client
        self._settings = settings
        self._clock = clock
        self._states: dict[int, _State] = {}
        self._failures = FailureMemory()
        self._look_again_ns = clock.monotonic_ns() + LOOK_AGAIN_NS
        place = hashlib.sha256(f"{settings.cluster} {settings.url}".encode()).hexdigest()
        self._lease = f"relay {place[:32]}"
        self._renew_ns = 0
        self._holder = f"{socket.gethostname()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"

    def push_all(self, is_over: Callable[[], bool] = lambda: False) -> int:
        """Send until the other server holds all that is held here; return the number of slots sent.

        A node whose pages it refuses is told of and rests; the others go on. Raises Unavailable.
        """
        try:
            return self._push_all(is_over)
        except SQLAlchemyError as error:
            raise Unavailable("database", f"relay: {type(error).__name__}: the database does not answer") from error
        except Unavailable:
            # Whoever was away may have come back with an older state.
            self._forget()
            raise

    def close(self) -> None:
        """Hang up and let another server take over."""
        self._client.close()
        try:
            leases.release(self._engine, self._lease, self._holder)
        except (SQLAlchemyError, Unavailable) as error:
            log.debug("lease not given back", fault=str(error))

    def _push_all(self, is_over: Callable[[], bool]) -> int:
        if not self._holds_lease():
            return 0
        if self._clock.monotonic_ns() >= self._look_again_ns:
            self._forget()
        with self._engine.connect() as connection:
            nodes = relayed.find_nodes(connection, self._settings.cluster)
        sent = 0
        for node in nodes:
            if is_over() or not self._holds_lease():
                break
            sent += self._push_node(node, is_over)
        return sent

    def _holds_lease(self) -> bool:
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._renew_ns:
            return True
        seconds = max(LEASE_SECONDS, 1.5 * self._settings.interval_seconds)
        if not leases.hold(self._engine, self._lease, self._holder, self._clock.utc_ns(), seconds):
            return False
        self._renew_ns = now_ns + _RENEWED_NS
        return True

    def _forget(self) -> None:
        self._look_again_ns = self._clock.monotonic_ns() + LOOK_AGAIN_NS
        for state in self._states.values():
            state.sent = None

    def _push_node(self, node: RelayedNode, is_over: Callable[[], bool]) -> int:
        state = self._states.setdefault(node.id, _State(RelayedLedger(self._engine, node.id, self._clock)))
        news = (node.slots, node.epochs)
        if state.sent == news or self._clock.monotonic_ns() < state.rest_until_ns:
            return 0
        try:
            sent = self._send(node, state.ledger, is_over)
        except Unavailable:
            raise
        except KwhereError as error:
            self._rest(node, state, error)
            return 0
        if not is_over():
            state.sent = news
        state.failures = 0
        if self._failures.recovered(node.name):
            log.info("ledger is sent on again", node=node.name)
        return sent

    def _send(self, node: RelayedNode, ledger: RelayedLedger, is_over: Callable[[], bool]) -> int:
        clock = _NodeClock(self._clock, node.clock_offset_ns or 0)
        pusher = Pusher(self._client, ledger, clock, self._settings.page_slots)
        question = ledger.question()
        if question is None:
            return 0
        after = pusher.send(question)
        if after is None and not is_over():
            after = pusher.send(ledger.opening())
        return pusher.push_from(after, is_over)

    def _rest(self, node: RelayedNode, state: _State, error: KwhereError) -> None:
        state.failures += 1
        rest_s = min(self._settings.interval_seconds * 2.0 ** min(state.failures - 1, 16), _MOST_REST_SECONDS)
        state.rest_until_ns = self._clock.monotonic_ns() + int(rest_s * NANOSECONDS_PER_SECOND)
        repeats = self._failures.failed(node.name, str(error), self._clock.monotonic_ns())
        if repeats is not None:
            log.warning("ledger cannot be sent on", node=node.name, fault=str(error), count=repeats)


class _NodeClock:
    """A node's own clock, as well as we know it: the other server measures it, not ours."""

    def __init__(self, clock: Clock, offset_ns: int) -> None:
        self._clock = clock
        self._offset_ns = offset_ns

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def boottime_ns(self) -> int:
        return self._clock.boottime_ns()

    def utc_ns(self) -> int:
        return self._clock.utc_ns() + self._offset_ns


def build_relay(engine: Engine, settings: RelaySettings, clock: Clock) -> LedgerPush:
    """Return what sends a cluster on, from `start` to `stop`. Raises ConfigError."""
    relay = Relay(engine, HttpClient(settings.url, settings.client), settings, clock)
    return LedgerPush(relay, clock, settings.interval_seconds)
