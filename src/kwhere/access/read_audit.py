"""The trace that looks at others' units leave in the audit log."""

from collections.abc import Callable
from threading import Lock

from sqlalchemy import Engine

from kwhere.access.principal import Principal
from kwhere.access.roles import Role
from kwhere.core.clock import Clock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import audit
from kwhere.database.engine import writing
from kwhere.database.grid import from_ns
from kwhere.database.witness import Owners, Witness, questions_of

ONCE_NS = 3600 * NANOSECONDS_PER_SECOND
"""The same question of the same principal is told once in so long: pages refresh themselves."""
_MOST_KEPT = 50_000


class ReadAudit:
    """Writes the trace; shared by all requests of a server."""

    def __init__(self, engine: Engine, clock: Clock, *, tells_of_tokens: bool) -> None:
        """`tells_of_tokens`: whether looks under the server's own token, which names nobody, are told as well."""
        self._engine = engine
        self._clock = clock
        self._tells_of_tokens = tells_of_tokens
        self._told: dict[tuple[str, str, str], int] = {}
        self._lock = Lock()

    def witness_of(self, principal: Principal) -> Witness | None:
        """Return who sees what a principal reads; None for those who can read nothing but their own."""
        sees_others = bool(principal.roles - {Role.USER} or principal.visibility.projects)
        if not sees_others or not (principal.is_person or self._tells_of_tokens):
            return None
        return _Watched(principal, self._note)

    def _note(self, principal: Principal, action: str, subject: str) -> None:
        now_ns = self._clock.utc_ns()
        keys = [(principal.name, action, question) for question in questions_of(subject, from_ns(now_ns))]
        with self._lock:
            if any(now_ns - self._told.get(key, -ONCE_NS) < ONCE_NS for key in keys):
                return
        with writing(self._engine).begin() as connection:
            audit.record(connection, now_ns, principal.name, action, subject, {"why": principal.why})
        with self._lock:
            if len(self._told) >= _MOST_KEPT:
                self._told.clear()
            self._told |= dict.fromkeys(keys, now_ns)


class _Watched:
    def __init__(self, principal: Principal, note: Callable[[Principal, str, str], None]) -> None:
        self._principal = principal
        self._note = note

    def saw(self, action: str, subject: str, owners: Owners) -> None:
        """Note it, unless all of it is the principal's own."""
        if not all(self._principal.is_own(cluster, user) for cluster, user in owners):
            self._note(self._principal, action, subject)


Witnesses = Callable[[Principal], Witness | None]
