"""The pass that writes a report of each ISO week, once: whatever clocks, restarts and other servers do."""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.errors import Unavailable
from kwhere.core.iso_week import IsoWeek
from kwhere.core.metrics import Kind, MetricSpec, Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database.grid import from_ns
from kwhere.database.report_weeks import (
    WeekState,
    Written,
    is_read_to_end,
    note_weeks,
    read_weeks,
    write_once,
)
from kwhere.reports.settings import WeeklyReportSettings
from kwhere.reports.weekly_plan import plan_weeks
from kwhere.server.passes import Turn

PACE_SECONDS = 60
NEWEST = MetricSpec(
    "kwhere_report_newest_week_end_timestamp_seconds",
    Kind.GAUGE,
    "End of the newest week of which a scheduled report was written, Unix seconds.",
    ("report",),
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WeekText:
    """A week as it is written."""

    text: bytes
    completeness_ratio: float | None


class WeeklyReportPass:
    """Looks once a minute for weeks that are due; those that were missed while nobody looked are written late."""

    def __init__(
        self,
        engine: Engine,
        settings: WeeklyReportSettings,
        zone: ZoneInfo,
        directory: Path,
        render: Callable[[IsoWeek], WeekText],
        clock: Clock,
    ) -> None:
        self.name = f"report {settings.name}"
        self._engine = engine
        self._settings = settings
        self._zone = zone
        self._directory = directory
        self._render = render
        self._clock = clock
        self._due_ns = 0
        self._newest: IsoWeek | None = None

    def is_due(self) -> bool:
        """Return whether to look again."""
        return self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Write what is due, the oldest week first. Raises Unavailable where a file cannot be put."""
        self._due_ns = self._clock.monotonic_ns() + PACE_SECONDS * NANOSECONDS_PER_SECOND
        report, now_ns = self._settings.name, self._clock.utc_ns()
        known = read_weeks(self._engine, report)
        written = {week for week, kept in known.items() if kept.state is WeekState.WRITTEN}
        self._newest = max(written, default=None)
        plan = plan_weeks(self._settings, self._zone, from_ns(now_ns), written, known.keys())
        if plan.missed:
            note_weeks(self._engine, report, plan.missed, WeekState.MISSED, now_ns)
            log.warning(
                "weekly reports were missed for too long and are left out",
                report=report,
                weeks=len(plan.missed),
                first=str(plan.missed[0]),
                last=str(plan.missed[-1]),
            )
        note_weeks(self._engine, report, [week for week in plan.due if week not in known], WeekState.WAITING, now_ns)
        for week in plan.due:
            if not turn.goes_on():
                return
            since_ns = known[week].since_ns if week in known else now_ns
            if self._is_ready(week, now_ns - since_ns):
                self._write(week)

    def samples(self) -> Iterable[Sample]:
        """Return up to where reports were written. Any thread."""
        if (newest := self._newest) is not None:
            yield Sample(NEWEST, (self._settings.name,), newest.span(self._zone).end.timestamp())

    def _is_ready(self, week: IsoWeek, waited_ns: int) -> bool:
        if waited_ns >= self._settings.wait_hours * 3600 * NANOSECONDS_PER_SECOND:
            return True
        return is_read_to_end(self._engine, week.span(self._zone), self._settings.cluster)

    def _write(self, week: IsoWeek) -> None:
        found = self._render(week)
        path = self._directory / f"{self._settings.name}-{week}{self._settings.format.suffix}"
        written = Written(str(path), hashlib.sha256(found.text).hexdigest(), found.completeness_ratio)
        now_ns = self._clock.utc_ns()
        if write_once(self._engine, self._settings.name, week, written, now_ns, lambda: _put(path, found.text)):
            self._newest = max(week, self._newest or week)
            log.info(
                "weekly report written", report=self._settings.name, file=str(path), complete=found.completeness_ratio
            )


def _put(path: Path, text: bytes) -> None:
    """Put a whole file in its place, durable: it is there as it should be, or as it was. Raises Unavailable."""
    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, 0o640)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(place)
        finally:
            os.close(place)
    except OSError as error:
        raise Unavailable("reports", f"{path}: the report cannot be written: {error.strerror}") from error
