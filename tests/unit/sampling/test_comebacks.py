"""A process group that ends and comes back is the same run: it lives again, and what is shown of it goes on."""

from tests.sampling_world import SECOND, World, make_world

from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading
from kwhere.sampling.snapshot import attach
from kwhere.sampling.totals import StepCounts, UnitTotals


def shown(world: World, key: UnitKey) -> UnitTotals:
    totals = world.sampler.parts.board.snapshot()
    assert totals is not None
    return next(unit for unit in totals.units if unit.tracked.key == key)


def live_and_end(world: World, user_ns: int, system_ns: int) -> UnitKey:
    key = world.units.start("root:make", manager="process")
    world.step()
    world.units.cpu[key] = CpuReading(user_ns + system_ns, user_ns, system_ns)
    world.step()
    world.units.end(key)
    world.step()
    return key


def test_a_unit_that_came_back_is_alive() -> None:
    world = make_world()
    attach(world.sampler, StepCounts)
    key = live_and_end(world, SECOND, 0)
    assert not shown(world, key).live

    world.units.start("root:make", manager="process")
    world.step()

    assert shown(world, key).live


def test_cpu_time_of_both_lives_is_shown() -> None:
    world = make_world()
    attach(world.sampler, StepCounts)
    key = live_and_end(world, SECOND // 2, SECOND // 4)  # and nobody looks between the two lives

    live_and_end(world, SECOND // 8, SECOND // 16)

    found = shown(world, key)
    assert (found.cpu_user_ns, found.cpu_system_ns) == (SECOND * 5 // 8, SECOND * 5 // 16)


def test_a_unit_that_came_back_is_not_put_away() -> None:
    world = make_world(slot_seconds=10)
    attach(world.sampler, StepCounts)
    key = live_and_end(world, SECOND // 2, 0)
    world.units.start("root:make", manager="process")
    world.units.cpu[key] = CpuReading(0, 0, 0)
    for _ in range(330):
        world.step()

    assert shown(world, key).live
    assert shown(world, key).cpu_user_ns == SECOND // 2
