"""The pass that writes figures of ended units into their manager's own records; off unless a manager's settings ask.

It is done once per unit, after its energy is complete. What was decided is kept, so a server that starts anew goes on;
what stands there is read right before, so that nobody else's text is lost and nothing is written twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, NotFound, SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.manager_states import manager_state
from kwhere.database.notes import Decision, NotableUnit, Outcome, is_accounted, notable_units, write_decisions
from kwhere.database.reader import Reader
from kwhere.reports.unit_note import merge_note, unit_note
from kwhere.resource_managers.notes import NoteBook, NotedRun
from kwhere.resource_managers.registry import BuiltManager
from kwhere.resource_managers.resource_manager import NotingManager
from kwhere.server.passes import ServerPass, Turn

MINUTE_SECONDS = 60
EXAMINED_PER_NOTE = 4
"""Of several units looked at one may be ready."""
RECENT_SECONDS = 7200
DEEP_SECONDS = 3600
"""Units that ended lately are looked for each time, all that may be written about now and then."""
LONGEST_SECONDS = 6 * 3600
MOST_FAILURES = 3
"""So many in a row are no fault of the units."""
DAY_SECONDS = 86_400

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Ready:
    unit: NotableUnit
    run: NotedRun
    line: str


def note_passes(
    engine: Engine, managers: Sequence[BuiltManager], reader: Reader, clock: Clock
) -> tuple[ServerPass, ...]:
    """Return a pass for each manager that is to be written to."""
    return tuple(
        NotePass(engine, each, each.source.notes, reader, clock)
        for each in managers
        if isinstance(each.source, NotingManager) and each.source.notes is not None
    )


class NotePass:
    """Writes about the ended units of one manager, so many a minute."""

    def __init__(self, engine: Engine, manager: BuiltManager, book: NoteBook, reader: Reader, clock: Clock) -> None:
        self.name = f"notes {manager.settings.cluster} {manager.source.name}"
        self._engine = engine
        self._manager = manager
        self._cluster = manager.settings.cluster
        self._book = book
        self._reader = reader
        self._clock = clock
        settings = book.settings
        self._interval_seconds = max(manager.settings.interval_seconds, MINUTE_SECONDS / settings.per_minute)
        self._per_look = max(1, int(settings.per_minute * min(self._interval_seconds / MINUTE_SECONDS, 1.0)))
        self._due_ns = 0
        self._deep_ns = 0

    def is_due(self) -> bool:
        """Return whether it may write again."""
        return self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Write about units that are ready. Raises KwhereError where the manager is away; they are tried again."""
        self._due_ns = self._clock.monotonic_ns() + _ns(self._interval_seconds)
        ready = self._ready(turn)
        if not ready or not turn.goes_on():
            return
        standing = self._standing(ready)
        failures, written = 0, 0
        for each in ready:
            if not turn.goes_on():
                break
            decision, error = self._write_beside(each, standing)
            self._keep([decision])
            written += decision.before is not None
            failures = 0 if error is None else failures + 1
            if error is not None and failures >= MOST_FAILURES:
                raise error
        if written:
            log.info("ended units written about", server_pass=self.name, units=written)

    def _standing(self, ready: Sequence[_Ready]) -> Mapping[NotedRun, str] | None:
        """Return what stands at all of them; None where one keeps the manager from telling of the others."""
        try:
            return self._book.read([each.run for each in ready])
        except KwhereError as error:
            if not _is_of_one(error):
                raise
            return None

    def _write_beside(
        self, ready: _Ready, standing: Mapping[NotedRun, str] | None
    ) -> tuple[Decision, KwhereError | None]:
        """Write about one unit, beside what stands there; it is asked for alone where `standing` is None."""
        try:
            told = self._book.read([ready.run]) if standing is None else standing
        except KwhereError as error:
            return self._failed(ready.unit, None, error), error
        return self._write(ready, told.get(ready.run))

    def _ready(self, turn: Turn) -> list[_Ready]:
        """Return units whose energy is complete; what becomes of the others is kept."""
        settings, now_ns = self._book.settings, self._clock.utc_ns()
        state = manager_state(self._engine, self._cluster, self._manager.claims)
        oldest_ns = now_ns - _ns(settings.most_days * DAY_SECONDS)
        settled_ns = now_ns - _ns(settings.settle_seconds)
        is_deep = self._clock.monotonic_ns() >= self._deep_ns
        ended = (oldest_ns if is_deep else max(oldest_ns, settled_ns - _ns(RECENT_SECONDS)), settled_ns)
        limit = self._per_look * EXAMINED_PER_NOTE
        found = notable_units(self._engine, state.cluster_id, self._manager.claims, ended, now_ns, limit)
        if is_deep and len(found) < limit // 2:
            self._deep_ns = self._clock.monotonic_ns() + _ns(DEEP_SECONDS)
        ready: list[_Ready] = []
        undecided: list[Decision] = []
        for unit in found:
            if not turn.goes_on() or len(ready) >= self._per_look:
                break
            judged = self._judge(unit, now_ns, oldest_ns)
            if isinstance(judged, Decision):
                undecided.append(judged)
            else:
                ready.append(judged)
        self._keep(undecided)
        return ready

    def _judge(self, unit: NotableUnit, now_ns: int, oldest_ns: int) -> Decision | _Ready:
        if unit.project in self._book.settings.excluded_projects:
            return Decision(unit, Outcome.EXCLUDED)
        if unit.ended_ns < oldest_ns:
            return Decision(unit, Outcome.INCOMPLETE)
        line = self._line(unit)
        if line is not None:
            return _Ready(unit, NotedRun(unit.unit, unit.shown, unit.started_at), line)
        # One that is not ready is looked at again when it is twice as old.
        wait_ns = max(_ns(max(self._book.settings.settle_seconds, 1.0)), now_ns - unit.ended_ns)
        return Decision(unit, Outcome.WAITING, next_ns=now_ns + wait_ns)

    def _line(self, unit: NotableUnit) -> str | None:
        if not is_accounted(self._engine, unit):
            return None
        try:
            record = self._reader.unit(self._cluster, self._manager.claims, unit.unit, unit.run)
        except NotFound:
            return None
        return unit_note(record)

    def _write(self, ready: _Ready, standing: str | None) -> tuple[Decision, KwhereError | None]:
        unit = ready.unit
        if standing is None:
            return Decision(unit, Outcome.SUPERSEDED), None
        text = merge_note(standing, ready.line, appends=self._book.settings.other_text == "append")
        if text is None:
            return Decision(unit, Outcome.LEFT, standing), None
        if text == standing:
            return Decision(unit, Outcome.WRITTEN, text), None
        try:
            self._book.write(ready.run, text)
        except SourceError as error:
            return Decision(unit, Outcome.REFUSED, standing, error=str(error)), None
        except KwhereError as error:
            return self._failed(unit, standing, error), error
        return Decision(unit, Outcome.WRITTEN, text, before=standing), None

    def _failed(self, unit: NotableUnit, standing: str | None, error: KwhereError) -> Decision:
        """Each time it waits twice as long."""
        wait = min(MINUTE_SECONDS * 2.0**unit.attempts, LONGEST_SECONDS)
        next_ns = self._clock.utc_ns() + _ns(wait)
        return Decision(unit, Outcome.FAILED, standing, error=str(error), next_ns=next_ns)

    def _keep(self, decisions: Sequence[Decision]) -> None:
        if decisions:
            subject = f"{self._cluster}/{self._manager.claims}"
            write_decisions(self._engine, subject, decisions, self._clock.utc_ns())


def _is_of_one(error: KwhereError) -> bool:
    """Return whether one unit's record may be the cause: nonsense, or none there."""
    return isinstance(error, SourceError) or (isinstance(error, Unavailable) and error.reason == "unsupported")


def _ns(seconds: float) -> int:
    return int(seconds * NANOSECONDS_PER_SECOND)
