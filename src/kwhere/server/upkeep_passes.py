"""Small passes that keep the account tidy: what is past its time goes, power of the silent fades."""

import structlog
from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import power, retention
from kwhere.database.grid import Grid
from kwhere.database.settings import RetentionSettings
from kwhere.server.passes import Turn

RETENTION_SECONDS = 3600
FADE_SECONDS = 10

log = structlog.get_logger(__name__)


class _Paced:
    """Due every so many seconds, first at once."""

    def __init__(self, clock: Clock, seconds: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._due_ns = 0

    def is_due(self) -> bool:
        """Return whether its time has come."""
        return self._clock.monotonic_ns() >= self._due_ns

    def _done(self) -> None:
        self._due_ns = self._clock.monotonic_ns() + self._seconds * NANOSECONDS_PER_SECOND


class RetentionPass(_Paced):
    """Once an hour drops what is past its time."""

    name = "retention"

    def __init__(self, engine: Engine, settings: RetentionSettings, grid: Grid, clock: Clock) -> None:
        super().__init__(clock, RETENTION_SECONDS)
        self._engine = engine
        self._settings = settings
        self._grid = grid

    def run(self, turn: Turn) -> None:
        """Drop it; what a failure leaves goes next time."""
        self._done()
        dropped = retention.drop_old(self._engine, self._settings, self._grid, self._clock.utc_ns())
        if any(dropped.values()):
            log.info("old rows dropped", **{table: count for table, count in dropped.items() if count})


class FadePass(_Paced):
    """Clears the power of units that were silent for three slots, so that lists by power hold the living alone."""

    name = "power"

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(clock, FADE_SECONDS)
        self._engine = engine

    def run(self, turn: Turn) -> None:
        """Clear it."""
        self._done()
        power.fade(self._engine, self._clock.utc_ns())
