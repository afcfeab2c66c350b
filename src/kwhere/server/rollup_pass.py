"""The pass that sums up touched hours and days and derives their grams."""

from collections.abc import Callable

from sqlalchemy import Engine, select

from kwhere.core.clock import Clock
from kwhere.database import rollup, schema
from kwhere.database.settings import SiteSettings
from kwhere.server.passes import Turn

BATCH = 100
"""Hours or days between two looks whether to go on."""
MOST_BATCHES = 100
"""Batches of hours before days have their turn: hours are touched as fast as slots come in."""

_Roll = Callable[[Engine, SiteSettings, int, int], int]


class RollupPass:
    """5-minute usage into hours, hours into days of the site's time zone, both into grams."""

    name = "rollup"

    def __init__(self, engine: Engine, site: SiteSettings, clock: Clock) -> None:
        self._engine = engine
        self._site = site
        self._clock = clock

    def is_due(self) -> bool:
        """Return whether any hour or day was touched."""
        with self._engine.connect() as connection:
            return connection.execute(select(schema.touched.c.node_id).limit(1)).first() is not None

    def run(self, turn: Turn) -> None:
        """Compute what was touched, oldest first."""
        for roll in (rollup.roll_hours, rollup.roll_days):
            self._roll(roll, turn)

    def _roll(self, roll: _Roll, turn: Turn) -> None:
        for _ in range(MOST_BATCHES):
            if not turn.goes_on() or roll(self._engine, self._site, self._clock.utc_ns(), BATCH) < BATCH:
                return
