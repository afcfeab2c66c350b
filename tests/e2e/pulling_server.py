"""A server process without its pages, to be killed: pulls one agent into a database and does the passes.

python -m tests.e2e.pulling_server DATABASE_URL AGENT_URL
"""

import signal
import sys
import threading
import time
from zoneinfo import ZoneInfo

from tests.e2e.intake_world import LATER_NS, with_token

from kwhere.core.clock import SystemClock
from kwhere.database.engine import open_engine
from kwhere.database.grid import Grid
from kwhere.database.settings import DatabaseSettings, SiteSettings
from kwhere.emission_factors.choose import build_chooser
from kwhere.emission_factors.settings import EmissionFactorSettings
from kwhere.server.factor_pass import FactorPass
from kwhere.server.intake import Intake
from kwhere.server.page_booker import PageBooker
from kwhere.server.passes import PassRunner, ServerPass
from kwhere.server.rollup_pass import RollupPass
from kwhere.server.settings import ServerSettings
from kwhere.server.target import Target


class LaterClock(SystemClock):
    """Goes on over restarts of the process, after the slots of the tests."""

    def utc_ns(self) -> int:
        return LATER_NS + time.monotonic_ns()


def main(database_url: str, agent_url: str) -> None:
    """Run until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    engine = open_engine(DatabaseSettings(url=database_url))
    clock, site = LaterClock(), SiteSettings(zone="FR")
    booker = PageBooker(engine, Grid(ZoneInfo("UTC")), 30.0)
    settings = ServerSettings(page_slots=2, pull_seconds=0.01)
    target = Target("c", agent_url)
    intake = Intake(engine, booker, clock, settings, lambda: [target], with_token)
    chooser = build_chooser(EmissionFactorSettings(), clock)
    work: list[ServerPass] = [FactorPass(engine, site, chooser, clock), RollupPass(engine, site, clock)]
    passes = PassRunner(engine, clock, work, poll_seconds=0.01)
    intake.start()
    passes.start()
    over.wait()
    intake.stop()
    passes.stop()
    engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
