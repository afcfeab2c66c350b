"""The pass that keeps emission factors: asks for the zones in force, keeps news, touches the hours they change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy import Engine, select

from kwhere.core.clock import Clock
from kwhere.core.errors import KwhereError, SourceError
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.engine import writing
from kwhere.database.factors import keep_factors, report_by, touch_hours
from kwhere.database.grid import Grid, from_ns
from kwhere.database.reading.site import zones_by_cluster
from kwhere.database.settings import SiteSettings
from kwhere.database.zones_derived import Zones, forget_zones, note_zones, zones_derived
from kwhere.emission_factors.choose import Chooser, QualityChange
from kwhere.emission_factors.provider import EmissionFactorProvider, Factor
from kwhere.server.passes import Turn

FIRST_LOOK_BACK = timedelta(days=14)
"""A zone's first question reaches as far back as 5-minute usage."""
LOOK_BACK = timedelta(hours=48)
LOOK_AHEAD = timedelta(hours=1)
RETRY_SECONDS = 60.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Answer:
    factors: Sequence[Factor]
    reporting: bool


class FactorPass:
    """Factors of every zone in force, at the reporting provider's pace; at once when a zone is chosen."""

    name = "factors"

    def __init__(self, engine: Engine, site: SiteSettings, chooser: Chooser, clock: Clock) -> None:
        self._engine = engine
        self._site = site
        self._chooser = chooser
        self._clock = clock
        self._due_ns: dict[str, int] = {}

    def is_due(self) -> bool:
        """Return whether a cluster's zone changed or a zone's factors should be asked for again."""
        zones = self._zones()
        with self._engine.connect() as connection:
            if zones_derived(connection) != zones:
                return True
        return any(self._is_due(zone) for zone in _named(zones))

    def run(self, turn: Turn) -> None:
        """Ask, keep, touch. A zone that cannot be answered for hinders no other; raises SourceError that names it."""
        self._report()
        zones, faults = self._zones(), []
        for zone in _named(zones):
            if turn.goes_on() and self._is_due(zone):
                faults += self._refresh(zone, [cluster for cluster, its in zones.items() if its == zone])
        note_zones(self._engine, zones, self._clock.utc_ns())
        if faults:
            raise SourceError("; ".join(faults))

    def _zones(self) -> Zones:
        with self._engine.connect() as connection:
            return zones_by_cluster(connection, self._site)

    def _is_due(self, zone: str) -> bool:
        return self._due_ns.get(zone, 0) <= self._clock.monotonic_ns()

    def _report(self) -> None:
        now_ns = self._clock.utc_ns()
        with writing(self._engine).begin() as connection:
            if report_by(connection, self._chooser.reporting_name, now_ns):
                forget_zones(connection, now_ns)

    def _refresh(self, zone: str, cluster_ids: Sequence[int]) -> list[str]:
        """Ask every provider about `zone` before anything is written; return what went wrong."""
        answers, faults = self._ask(zone, self._span(zone))
        now_ns = self._clock.utc_ns()
        with writing(self._engine).begin() as connection:
            nodes = schema.nodes.c
            node_ids = connection.execute(select(nodes.id).where(nodes.cluster_id.in_(cluster_ids))).scalars().all()
            for answer in answers:
                news = keep_factors(connection, zone, answer.factors, now_ns, reporting=answer.reporting)
                touch_hours(connection, Grid(self._site.tz), news, node_ids, now_ns)
        pause_seconds = RETRY_SECONDS if faults else self._chooser.refresh_seconds
        self._due_ns[zone] = self._clock.monotonic_ns() + int(pause_seconds * NANOSECONDS_PER_SECOND)
        return faults

    def _span(self, zone: str) -> Span:
        now = from_ns(self._clock.utc_ns())
        return Span(now - (LOOK_BACK if zone in self._due_ns else FIRST_LOOK_BACK), now + LOOK_AHEAD)

    def _ask(self, zone: str, span: Span) -> tuple[list[_Answer], list[str]]:
        answers: list[_Answer] = []
        faults: list[str] = []
        askers: list[tuple[EmissionFactorProvider | Chooser, bool]] = [(self._chooser, True)]
        askers += [(provider, False) for provider in self._chooser.beside_of(zone)]
        for asker, reporting in askers:
            try:
                answers.append(_Answer(asker.factors(zone, span), reporting))
            except KwhereError as error:
                faults.append(f"zone {zone}: {error}")
        return answers, faults


def report_quality(change: QualityChange) -> None:
    """Log that another provider or quality is in force."""
    log.info("emission factors", zone=change.zone, before=change.before, after=change.after, reason=change.reason)


def _named(zones: Zones) -> Iterable[str]:
    return sorted({zone for zone in zones.values() if zone is not None})
