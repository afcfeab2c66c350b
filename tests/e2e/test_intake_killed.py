"""A server killed with -9 at random while it pulls: every total equals the control sum, nothing twice, nothing lost."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, func, select
from tests.account_site import Site, worked_case
from tests.databases import engine
from tests.journal_server import JournalServer, serve_journal
from tests.journals import HandJournal

from kwhere.core.clock import SystemClock
from kwhere.database import schema
from kwhere.database.engine import open_engine
from kwhere.database.grid import Grid
from kwhere.database.maintenance import check
from kwhere.database.settings import DatabaseSettings
from kwhere.server.intake import Intake
from kwhere.server.page_booker import PageBooker
from kwhere.server.settings import ServerSettings
from kwhere.server.target import Target
from kwhere.transport.http import HttpClient
from kwhere.transport.settings import HttpClientSettings

__all__ = ["engine"]

KILLS = 20
SETTINGS = ServerSettings(pull_seconds=0.02, page_slots=3, workers=1)
PROGRAM = """
# Imports once, then forks a server per line: DATABASE URL. Answers its process id; the next empty line reaps it.
import os, signal, sys
from tests.e2e.test_intake_killed import build_intake
from kwhere.database.engine import open_engine
from kwhere.database.settings import DatabaseSettings

while line := sys.stdin.readline().split():
    child = os.fork()
    if child == 0:
        build_intake(open_engine(DatabaseSettings(url=line[0])), line[1]).start()
        signal.pause()
    print(child, flush=True)
    sys.stdin.readline()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Servers:
    """Starts servers quickly, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(self, database: str, url: str) -> int:
        return int(self._say(f"{database} {url}"))

    def kill(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        return int(self._say(""))

    def close(self) -> None:
        self._process.communicate()

    def _say(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        return self._process.stdout.readline()


@pytest.fixture
def servers() -> Iterator[Servers]:
    started = Servers()
    yield started
    started.close()


def build_intake(database: Engine, url: str) -> Intake:
    target = Target("c1", url)
    booker = PageBooker(database, Grid(Site(database).settings.tz), SETTINGS.pull_seconds)
    return Intake(
        database,
        booker,
        SystemClock(),
        SETTINGS,
        lambda: [target],
        lambda target: HttpClient(target.url, HttpClientSettings()),
    )


def kill_while_pulling(servers: Servers, served: JournalServer, database: str, dice: random.Random) -> None:
    pid = servers.start(database, served.url)
    try:
        for _ in range(dice.randint(1, 6)):
            assert served.asked.acquire(timeout=60)
        time.sleep(dice.random() * 0.03)  # no wait for anything: a moment within the work on that answer
    finally:
        assert servers.kill(pid) == -signal.SIGKILL
    while served.asked.acquire(blocking=False):
        pass


def sums(database: Engine) -> dict[str, int]:
    found: dict[str, int] = {}
    with database.connect() as connection:
        for table in (schema.run_totals, schema.usage_5m):
            energy = func.sum(table.c.cpu_dynamic_uj) + func.sum(table.c.cpu_idle_uj)
            found[table.name] = int(connection.execute(select(energy)).scalar_one())
        node = schema.node_5m.c
        shares = (node.cpu_units_dynamic_uj, node.cpu_units_idle_uj, node.cpu_system_uj, node.cpu_unallocated_uj)
        found["node_5m"] = sum(int(connection.execute(select(func.sum(share))).scalar_one()) for share in shares)
        found["units"] = int(connection.execute(select(func.sum(schema.unit_totals.c.energy_uj))).scalar_one())
    return found


@pytest.mark.slow
def test_a_server_killed_twenty_times_books_every_slot_once(engine: Engine, servers: Servers) -> None:
    dice, journal = random.Random(20), HandJournal()
    url = engine.url.render_as_string(hide_password=False)
    with serve_journal(journal) as served:
        for kill in range(KILLS):
            if kill % 4 == 3:
                journal.new_epoch()
            worked_case(journal, slots=dice.randint(6, 20))
            kill_while_pulling(servers, served, url, dice)
        worked_case(journal, slots=3)

        fresh = open_engine(DatabaseSettings(url=url))
        build_intake(fresh, served.url).pull_all()

    expected = journal.control_uj
    assert sums(fresh) == dict.fromkeys(("run_totals", "usage_5m", "node_5m", "units"), expected)
    slots = sum(len(lines) for lines in journal.lines.values())
    with fresh.connect() as connection:
        assert connection.execute(select(func.count()).select_from(schema.slots)).scalar_one() == slots
        assert connection.execute(select(func.count()).select_from(schema.lost)).scalar_one() == 0
        assert connection.execute(select(func.count()).select_from(schema.quarantine)).scalar_one() == 0
    assert check(fresh).is_current
    fresh.dispose()
