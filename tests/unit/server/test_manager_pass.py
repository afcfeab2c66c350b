"""The pass over a manager: nothing is asked for in vain, nothing is lost."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, select
from tests.account_site import HandClock
from tests.journals import SECOND_NS, T0_NS
from tests.managed_site import T0, said

from kwhere.core.errors import Unavailable
from kwhere.core.managed import Accounts, ManagerNode, ManagerUnit
from kwhere.core.timespan import Span
from kwhere.database import schema
from kwhere.database.engine import open_engine
from kwhere.database.maintenance import upgrade
from kwhere.database.manager_states import manager_state
from kwhere.database.settings import DatabaseSettings
from kwhere.resource_managers.plugin import ManagerSettings
from kwhere.resource_managers.registry import BuiltManager
from kwhere.server.manager_pass import ManagerPass

HOUR_NS = 3600 * SECOND_NS


class Told:
    """A manager that says what a test gives it, and remembers what it was asked."""

    name = "slurm"
    cluster = "c1"

    def __init__(self) -> None:
        self.units: list[ManagerUnit] = []
        self.asked: list[Span] = []
        self.fault: str | None = None
        self.fails_after = 0

    def fetch_units(self, span: Span) -> Iterator[ManagerUnit]:
        self.asked.append(span)
        if self.fault is not None and len(self.asked) > self.fails_after:
            raise Unavailable("refused", self.fault)
        return iter(
            [u for u in self.units if u.started_at < span.end and (u.ended_at is None or u.ended_at >= span.start)]
        )

    def fetch_accounts(self) -> Accounts:
        return Accounts()

    def fetch_nodes(self) -> list[ManagerNode]:
        return [ManagerNode("n1", "idle")]

    def close(self) -> None:
        pass


class Always:
    def goes_on(self) -> bool:
        return True


class Until:
    """Leave to go on so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def goes_on(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_engine(DatabaseSettings(url=f"sqlite:///{tmp_path}/d.sqlite"))
    upgrade(engine)
    return engine


class World:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.clock = HandClock(T0_NS)
        self.told = Told()
        settings = ManagerSettings(manager="slurm", cluster="c1", backfill_days=1)
        self.server_pass = ManagerPass(engine, BuiltManager("slurm", settings, self.told), self.clock)

    def run(self, after_seconds: int = 0) -> list[tuple[float, float]]:
        """Run once; return the spans asked for, as hours around T0."""
        self.clock.now_ns += after_seconds * SECOND_NS
        self.told.asked = []
        self.server_pass.run(Always())
        return self.spans()

    def spans(self) -> list[tuple[float, float]]:
        hour = timedelta(hours=1)
        return [((span.start - T0) / hour, (span.end - T0) / hour) for span in self.told.asked]

    def good_until_ns(self) -> int | None:
        return manager_state(self.engine, "c1", "slurm").good_until_ns

    def units(self) -> list[str]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(schema.units.c.unit)).scalars())


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


def test_the_first_look_goes_back_in_windows(world: World) -> None:
    assert world.run() == [(-24, -18), (-18, -12), (-12, -6), (-6, 0)]
    assert world.good_until_ns() == T0_NS


def test_later_looks_go_back_a_little(world: World) -> None:
    world.run()

    ((first, last),) = world.run(60)
    assert first == -1
    assert last == pytest.approx(1 / 60)
    assert not world.server_pass.is_due()
    world.clock.now_ns += 60 * SECOND_NS
    assert world.server_pass.is_due()


def test_a_span_that_failed_is_asked_for_again(world: World) -> None:
    world.told.units = [said("1", -20 * 3600, -19 * 3600), said("2", -1000, -500)]
    world.told.fault, world.told.fails_after = "slurmdbd is away", 2
    with pytest.raises(Unavailable):
        world.run()
    assert world.units() == ["1"]
    assert world.good_until_ns() == T0_NS - 12 * HOUR_NS

    world.told.fault = None
    assert world.run() == [(-13, -7), (-7, -1), (-1, 0)]
    assert sorted(world.units()) == ["1", "2"]


def test_an_outage_of_hours_is_made_up_for(world: World) -> None:
    world.run()
    world.told.fault = "away"
    for _ in range(3):
        with pytest.raises(Unavailable):
            world.run(3 * 3600)
    with world.engine.connect() as connection:
        states = schema.manager_states.c
        assert connection.execute(select(states.error, states.error_since_ns)).one() == ("away", T0_NS + 3 * HOUR_NS)
    world.told.fault = None
    world.told.units = [said("1", 2 * 3600, 3 * 3600)]

    assert world.run()[0][0] == -1
    assert world.units() == ["1"]


def test_one_that_is_cut_off_goes_on_where_it_was(world: World) -> None:
    world.server_pass.run(Until(2))

    assert world.good_until_ns() == T0_NS - 12 * HOUR_NS


def test_a_clock_that_went_back_asks_for_no_empty_span(world: World) -> None:
    world.run()
    world.clock.now_ns -= 2 * HOUR_NS

    assert world.run() == [(-3, -2)]


def test_accounts_and_nodes_are_read_now_and_then(world: World) -> None:
    world.run()
    world.run(599)
    facts_ns = manager_state(world.engine, "c1", "slurm").facts_ns
    world.run(1)

    assert facts_ns == T0_NS
    assert manager_state(world.engine, "c1", "slurm").facts_ns == T0_NS + 600 * SECOND_NS


def test_case_ceems_262_277_no_statement_grows_with_the_number_of_units(world: World) -> None:
    world.told.units = [said(str(n), -1000, -500, user=f"u{n % 700}") for n in range(2500)]
    most = 0

    @event.listens_for(world.engine, "before_cursor_execute")
    def count(_: object, __: object, ___: str, parameters: Sequence[object], ____: object, many: bool) -> None:
        nonlocal most
        most = most if many else max(most, len(parameters))

    world.run()

    assert len(world.units()) == 2500
    assert most <= 1100


def test_a_unit_that_lives_in_many_windows_is_written_once_a_look(world: World) -> None:
    world.told.units = [said("1", -86_000)]
    written: list[str] = []

    def count(_: object, __: object, statement: str, *___: object) -> None:
        if "INTO units " in statement:
            written.append(statement)

    event.listen(world.engine, "before_cursor_execute", count)

    assert len(world.run()) == 4
    assert len(written) == 1
    world.run(after_seconds=3600)
    assert len(written) == 2
