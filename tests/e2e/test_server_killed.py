"""A server killed with -9, passes and all, over a real growing journal. The intake alone: test_intake_killed."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select
from tests.databases import sqlite_engine
from tests.e2e.intake_world import SLOT_UJ, Agent, account_uj, assert_balanced, count

from kwhere.core.terms import Component
from kwhere.database import schema
from kwhere.database.maintenance import check
from kwhere.emission_factors.static import shipped_table
from kwhere.energy.emissions import grams

KILLS = 6
ROOT = Path(__file__).parents[2]


class Process:
    """A pulling server in a process of its own."""

    def __init__(self, engine: Engine, agent: Agent) -> None:
        words = [sys.executable, "-m", "tests.e2e.pulling_server", str(engine.url), agent.target.url]
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(30)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not come")


def booked(engine: Engine) -> int:
    return count(engine, schema.slots)


def day_uj(engine: Engine) -> int:
    names = [f"{component}_{part}_uj" for component in Component for part in ("dynamic", "idle")]
    with engine.connect() as connection:
        row = connection.execute(select(*(func.sum(schema.usage_day.c[name]) for name in names))).one()
    return sum(int(value) for value in row if value is not None)


def day_grams(engine: Engine) -> float:
    with engine.connect() as connection:
        return float(connection.execute(select(func.sum(schema.emissions_day.c.grams))).scalar_one())


@pytest.mark.slow
def test_a_server_killed_in_its_passes_doubles_and_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(9)
    engine = sqlite_engine(tmp_path / "account.sqlite")
    agent = Agent(tmp_path / "agent")
    for _ in range(KILLS):
        agent.append(30)
        before = booked(engine)
        server = Process(engine, agent)
        wait_for(lambda before=before: booked(engine) > before)  # type: ignore[misc]
        deadline = time.monotonic() + chance.uniform(0, 0.15)
        while time.monotonic() < deadline:
            agent.append()
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        totals = account_uj(engine)
        assert totals == (booked(engine) * SLOT_UJ,) * 3, "a page is booked whole or not at all"
    agent.restart()
    agent.append(5)

    server = Process(engine, agent)
    wait_for(lambda: booked(engine) == agent.appended and count(engine, schema.touched) == 0)
    assert server.end(signal.SIGTERM) == 0
    agent.stop()

    assert_balanced(engine, agent.appended)
    assert count(engine, schema.lost) == count(engine, schema.quarantine) == 0
    assert day_uj(engine) == agent.appended * SLOT_UJ
    factor = shipped_table().find("FR").grams_per_kwh
    assert day_grams(engine) == pytest.approx(grams(agent.appended * SLOT_UJ, 1.0, factor))
    assert check(engine).problems == ()
    engine.dispose()
