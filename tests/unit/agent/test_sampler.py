"""The sampler's thread on a node made of numbers."""

import threading

import structlog
from tests.sampling_world import SECOND, WATT, World, make_world

from kwhere.agent.pace import Pace
from kwhere.agent.sampler import SamplerThread
from kwhere.core.clock import SystemClock
from kwhere.core.terms import DomainKind
from kwhere.kernel.stat import CpuStat
from kwhere.ledger.closure import residuals
from kwhere.meters.meter import Domain

CPU0 = Domain(DomainKind.CPU, "0")


def thread_of(world: World, interval_ns: int = SECOND // 10) -> SamplerThread:
    return SamplerThread(world.sampler, Pace(interval_ns, 1.0), SystemClock())


class Steps:
    """Moves a world at each step and tells when enough were done."""

    def __init__(self, world: World, enough: int) -> None:
        self.world = world
        self.done = threading.Event()
        self.count = 0
        self.enough = enough
        read = world.sampler.parts.read_stat
        object.__setattr__(world.sampler.parts, "read_stat", lambda: self.step(read))

    def step(self, read) -> CpuStat:  # type: ignore[no-untyped-def]
        self.count += 1
        self.world.clock.advance(SECOND)
        self.world.meters[0].add(CPU0, 10 * WATT)
        if self.count >= self.enough:
            self.done.set()
        found: CpuStat = read()
        return found


def test_it_steps_until_it_is_stopped_and_closes_the_slot() -> None:
    world = make_world(idle_watts={CPU0: 10})
    steps = Steps(world, 3)
    thread = thread_of(world, SECOND // 100)

    thread.start()
    assert steps.done.wait(10)
    assert thread.stop()

    assert not thread.alive
    (slot,) = world.sink.slots
    assert residuals(slot) == {}
    assert slot.controls[0].energy_uj == (steps.count - 1) * 10 * WATT
    assert thread.counts().steps == steps.count


def test_stopping_does_not_wait_for_the_next_step() -> None:
    world = make_world()
    thread = thread_of(world, 60 * SECOND)
    thread.start()
    assert thread.wait_for_step(10)

    assert thread.stop(timeout_seconds=2)


def test_a_fault_in_a_step_does_not_end_the_account() -> None:
    world = make_world()
    thread = thread_of(world)

    def broken() -> CpuStat:
        raise ZeroDivisionError

    good = world.sampler.parts.read_stat
    with structlog.testing.capture_logs() as logs:
        object.__setattr__(world.sampler.parts, "read_stat", broken)
        for _ in range(5):
            thread._step_once(world.sampler.step)
        object.__setattr__(world.sampler.parts, "read_stat", good)
        thread._step_once(world.sampler.step)

    assert thread.counts().failed == 5
    assert [line["event"] for line in logs] == ["sampler failed"]


def test_a_refusing_journal_is_told_once_and_again_when_it_is_well() -> None:
    world = make_world(slot_seconds=1)
    thread = thread_of(world)
    world.sink.refuse = "full"

    with structlog.testing.capture_logs() as logs:
        for _ in range(40):
            world.clock.advance(SECOND)
            thread._step_once(world.sampler.step)
        world.sink.refuse = ""
        for _ in range(12):
            world.clock.advance(SECOND)
            thread._step_once(world.sampler.step)

    assert [line["event"] for line in logs] == ["sampler failed", "journal takes slots again"]


def test_readers_get_the_same_snapshot_until_the_next_step() -> None:
    world = make_world()
    thread = thread_of(world)
    thread._step_once(world.sampler.step)
    board = world.sampler.parts.board

    first = board.snapshot()

    assert first is not None
    assert board.snapshot() is first
    world.clock.advance(SECOND)
    thread._step_once(world.sampler.step)
    assert board.snapshot() is not first


def test_a_step_out_of_turn_is_done_when_it_is_asked_for() -> None:
    world = make_world()
    thread = thread_of(world, 60 * SECOND)
    thread.start()
    assert thread.wait_for_step(10)

    assert thread.step_now(timeout_seconds=10)
    assert thread.step_now(timeout_seconds=10)

    assert thread.counts().steps == 3
    assert (thread.counts().late, thread.counts().missed) == (0, 0)
    assert thread.stop()


def test_a_stopped_sampler_does_no_step_out_of_turn() -> None:
    world = make_world()
    thread = thread_of(world, 60 * SECOND)
    thread.start()
    assert thread.stop(timeout_seconds=10)

    assert not thread.step_now(timeout_seconds=0.01)


def test_steps_out_of_turn_count_against_the_budget() -> None:
    pace = Pace(SECOND, budget_ratio=0.05)
    pace.spent(40 * SECOND)
    for step in range(30):
        pace.begin(step * SECOND)
        pace.end(step * SECOND, cpu_ns=0)

    assert pace.step_ns == 2 * SECOND
