"""Who runs passes, when, and what a failing one may not do."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from tests.unit.ledger.journals import StandingClock

from kwhere.core.errors import SourceError
from kwhere.database import leases
from kwhere.server.passes import LEASE, LEASE_SECONDS, PassRunner, Turn

SECOND_NS = 1_000_000_000


class HandPass:
    """A pass that counts its runs; `fault` is raised, `work` done in each."""

    def __init__(self, name: str, due: bool = True) -> None:
        self.name = name
        self.due = due
        self.runs = 0
        self.fault: Exception | None = None
        self.ran = threading.Event()

    def is_due(self) -> bool:
        return self.due

    def run(self, turn: Turn) -> None:
        self.runs += 1
        self.ran.set()
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def runners() -> Iterator[list[PassRunner]]:
    made: list[PassRunner] = []
    yield made
    for runner in made:
        runner.stop()


def test_passes_run_in_order_when_they_are_due(engine: Engine, clock: StandingClock) -> None:
    first, idle, last = HandPass("first"), HandPass("idle", due=False), HandPass("last")
    runner = PassRunner(engine, clock, [first, idle, last])

    runner.run_once()
    runner.run_once()

    assert (first.runs, idle.runs, last.runs) == (2, 0, 2)
    assert runner.leads
    assert runner.faults == {}


def test_one_of_two_servers_runs_them(engine: Engine, clock: StandingClock) -> None:
    ours, theirs = HandPass("p"), HandPass("p")
    one, two = PassRunner(engine, clock, [ours]), PassRunner(engine, clock, [theirs])

    for _ in range(3):
        one.run_once()
        two.run_once()

    assert (ours.runs, theirs.runs) == (3, 0)
    assert (one.leads, two.leads) == (True, False)


def test_another_takes_over_when_the_lease_has_run_out(engine: Engine, clock: StandingClock) -> None:
    ours, theirs = HandPass("p"), HandPass("p")
    one, two = PassRunner(engine, clock, [ours]), PassRunner(engine, clock, [theirs])
    one.run_once()

    clock.now_ns += int(LEASE_SECONDS * SECOND_NS)  # the first was killed
    two.run_once()
    one.run_once()

    assert (ours.runs, theirs.runs) == (1, 1)
    assert (one.leads, two.leads) == (False, True)


def test_another_takes_over_at_once_when_the_first_stops(engine: Engine, clock: StandingClock) -> None:
    theirs = HandPass("p")
    one, two = PassRunner(engine, clock, [HandPass("p")]), PassRunner(engine, clock, [theirs])
    one.run_once()

    one.stop()
    two.run_once()

    assert theirs.runs == 1


def test_a_lease_is_renewed_while_it_is_used(engine: Engine, clock: StandingClock) -> None:
    runner = PassRunner(engine, clock, [HandPass("p")])
    for _ in range(10):
        runner.run_once()
        clock.now_ns += int(LEASE_SECONDS / 2 * SECOND_NS)
        assert leases.holder_of(engine, LEASE, clock.now_ns) is not None
        runner.run_once()
        assert runner.leads


def test_a_pass_that_fails_hinders_no_other_and_is_tried_again(engine: Engine, clock: StandingClock) -> None:
    bad, good = HandPass("bad"), HandPass("good")
    runner = PassRunner(engine, clock, [bad, good])
    for fault in (SourceError("nonsense"), ZeroDivisionError("oops"), OperationalError("x", {}, Exception("gone"))):
        bad.fault = fault
        runner.run_once()
        assert list(runner.faults) == ["bad"]
        assert type(fault).__name__ in runner.faults["bad"]
    bad.fault = None

    runner.run_once()

    assert (bad.runs, good.runs) == (4, 4)
    assert runner.faults == {}


def test_a_pass_rests_for_four_times_as_long_as_it_took(engine: Engine, clock: StandingClock) -> None:
    heavy = HandPass("heavy")

    def run(turn: Turn) -> None:
        heavy.runs += 1
        clock.now_ns += SECOND_NS

    heavy.run = run  # type: ignore[method-assign]
    runner = PassRunner(engine, clock, [heavy])
    runner.run_once()
    clock.now_ns += 4 * SECOND_NS - 1
    runner.run_once()
    assert heavy.runs == 1

    clock.now_ns += 1
    runner.run_once()

    assert heavy.runs == 2


def test_a_pass_is_told_when_the_lease_is_lost(engine: Engine, clock: StandingClock) -> None:
    long = HandPass("long")
    said: list[bool] = []

    def run(turn: Turn) -> None:
        said.append(turn.goes_on())
        clock.now_ns += int(LEASE_SECONDS * SECOND_NS)
        assert leases.hold(engine, LEASE, "another", clock.now_ns, LEASE_SECONDS)
        said.append(turn.goes_on())

    long.run = run  # type: ignore[method-assign]
    after = HandPass("after")

    PassRunner(engine, clock, [long, after]).run_once()

    assert said == [True, False]
    assert after.runs == 0


def test_started_it_runs_by_itself_and_stops(engine: Engine, clock: StandingClock, runners: list[PassRunner]) -> None:
    each = HandPass("p")
    runner = PassRunner(engine, clock, [each], poll_seconds=0.01)
    runners.append(runner)

    runner.start()
    assert each.ran.wait(20)
    runner.stop()

    assert not any(thread.name == "passes" for thread in threading.enumerate())
    assert leases.holder_of(engine, LEASE, clock.now_ns) is None


def test_without_a_database_nothing_runs_and_nothing_is_raised(engine: Engine, clock: StandingClock) -> None:
    each = HandPass("p")
    runner = PassRunner(engine, clock, [each])
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE leases RENAME TO leases_away")

    runner.run_once()
    faults = runner.faults
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE leases_away RENAME TO leases")
    runner.run_once()

    assert list(faults) == ["lease"]
    assert runner.faults == {}
    assert each.runs == 1


def test_a_pass_that_rests_has_not_mended_what_failed(engine: Engine, clock: StandingClock) -> None:
    failing = HandPass("p")
    failing.fault = SourceError("the service is away")
    runner = PassRunner(engine, clock, [failing])
    runner.run_once()

    failing.due = False
    runner.run_once()
    at_rest = runner.faults
    failing.due, failing.fault = True, None
    runner.run_once()

    assert at_rest == {"p": "SourceError: the service is away"}
    assert runner.faults == {}
    counts = runner.counts["p"]
    assert (counts.runs, counts.errors, counts.succeeded_ns) == (2, 1, clock.utc_ns())


def test_what_failed_here_is_forgotten_when_another_server_leads(engine: Engine, clock: StandingClock) -> None:
    ours, theirs = HandPass("p"), HandPass("p")
    ours.fault = SourceError("away")
    one, two = PassRunner(engine, clock, [ours]), PassRunner(engine, clock, [theirs])
    one.run_once()
    clock.now_ns += int(LEASE_SECONDS * SECOND_NS)
    two.run_once()

    one.run_once()

    assert one.faults == {}
