"""The pass that sums up whole days by account, so that months of all accounts are read at once."""

from sqlalchemy import Engine

from kwhere.core.clock import Clock
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.database import account_days, account_marks
from kwhere.database.grid import Grid
from kwhere.server.passes import Turn

PACE_SECONDS = 300


class AccountDayPass:
    """Days that are over, and were marked; the day that goes on is read from its units."""

    name = "account days"

    def __init__(self, engine: Engine, grid: Grid, clock: Clock) -> None:
        self._engine = engine
        self._grid = grid
        self._clock = clock
        self._due_ns = 0

    def is_due(self) -> bool:
        """Return whether its time has come: marks come with every slot."""
        return self._clock.monotonic_ns() >= self._due_ns

    def run(self, turn: Turn) -> None:
        """Sum up what was marked, the oldest day first; a mark goes once all of its days are done."""
        self._due_ns = self._clock.monotonic_ns() + PACE_SECONDS * NANOSECONDS_PER_SECOND
        today_ns = self._grid.day_start(self._clock.utc_ns())
        with self._engine.connect() as connection:
            over = [mark for mark in account_marks.read_marks(connection, None, today_ns) if mark.to_ns <= today_ns]
            days = account_days.marked_days(connection, self._grid, over)
        for day in days:
            if not turn.goes_on():
                return
            account_days.roll_day(self._engine, day)
        account_days.clear_marks(self._engine, over)
