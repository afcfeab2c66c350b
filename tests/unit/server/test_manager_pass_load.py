"""What a pass may ask of its manager at once, and how long it rests."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.account_site import HandClock
from tests.databases import sqlite_engine
from tests.journals import SECOND_NS, T0_NS
from tests.managed_site import T0
from tests.unit.server.test_manager_pass import HOUR_NS, Always, Told

from kwhere.core.errors import Unavailable
from kwhere.core.managed import ManagerUnit
from kwhere.core.timespan import Span
from kwhere.database.manager_states import manager_state
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.server import manager_pass
from kwhere.server.manager_pass import ManagerPass


class Slow(Told):
    """A manager whose answers take their time."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.clock = clock
        self.seconds = 0.0
        self.asked_at_once = 0

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        self.clock.now_ns += int(self.seconds * SECOND_NS)
        return super().fetch_units(span)


class World:
    def __init__(self, engine: Engine, **settings: object) -> None:
        self.engine = engine
        self.clock = HandClock(T0_NS)
        self.told = Slow(self.clock)
        words = {"manager": "slurm", "cluster": "c1", "backfill_days": 1, **settings}
        built = BuiltManager("slurm", ManagerSettings.model_validate(words), self.told)
        self.server_pass = ManagerPass(engine, built, self.clock)

    def look(self, after_seconds: int = 60) -> list[tuple[float, float]]:
        """Run once; return the spans asked for, as hours around T0."""
        self.clock.now_ns += after_seconds * SECOND_NS
        self.told.asked = []
        self.server_pass.run(Always())
        hour = timedelta(hours=1)
        return [((span.start - T0) / hour, (span.end - T0) / hour) for span in self.told.asked]

    def rests(self) -> int:
        """Return the seconds until it is due, to the next whole one."""
        began_ns, seconds = self.clock.now_ns, 0
        while not self.server_pass.is_due():
            seconds += 1
            self.clock.now_ns = began_ns + seconds * SECOND_NS
        self.clock.now_ns = began_ns
        return seconds

    def good_until_ns(self) -> int | None:
        return manager_state(self.engine, "c1", "slurm").good_until_ns


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return sqlite_engine(tmp_path / "d.sqlite")


def test_a_long_backfill_is_read_over_several_looks(engine: Engine) -> None:
    world = World(engine, windows_per_look=2)

    assert world.look(0) == [(-24, -18), (-18, -12)]
    assert world.look(0) == [(-12, -6), (-6, 0)]
    assert world.good_until_ns() == T0_NS
    assert world.look(0) == [(-1, 0)]


@pytest.mark.parametrize("hours", [0.25, 0.5, 1])
def test_windows_shorter_than_the_overlap_still_get_on(engine: Engine, hours: float) -> None:
    world = World(engine, windows_per_look=1, window_hours=hours, backfill_days=0.125)
    looks = 0
    while world.good_until_ns() != T0_NS:
        world.look(0)
        looks += 1
        assert looks <= 3 / hours

    assert looks == 3 / hours


def test_a_slow_look_is_broken_off_and_goes_on_later(engine: Engine) -> None:
    world = World(engine)
    world.told.seconds = 40

    assert world.look(0) == [(-24, -18), (-18, -12)]
    assert world.look()[0] == (-12, -6)


@pytest.mark.parametrize(
    ("seconds", "rests"),
    [(0, 60), (1, 60 - 1), (10, 60 - 10), (30, 120), (50, 200), (200, 600)],  # a fifth of the time; ten intervals
)
def test_a_slow_manager_is_left_alone_for_longer(engine: Engine, seconds: int, rests: int) -> None:
    world = World(engine, backfill_days=0.1)
    world.told.seconds = seconds
    world.look(0)

    assert world.rests() == rests


def test_one_that_fails_slowly_is_left_alone_for_longer_too(engine: Engine) -> None:
    world = World(engine)
    world.told.seconds, world.told.fault = 120, "sacct: no answer within 120 s"
    with pytest.raises(Unavailable):
        world.look(0)

    assert world.rests() == 480


def test_a_deep_look_is_bounded_and_goes_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [T0_NS - 19 * HOUR_NS]
    monkeypatch.setattr(manager_pass, "oldest_waiting", lambda *_: waiting.pop() if waiting else None)
    world = World(engine, windows_per_look=3, backfill_days=0.1)

    assert [start for start, _ in world.look(0)] == [-2.4, pytest.approx(-19), pytest.approx(-13)]
    assert [start for start, _ in world.look(0)] == [-1, pytest.approx(-7)]
    assert [start for start, _ in world.look(0)] == [-1]
