"""What comes after a unit's end: a process group that comes back lives on, and of a job its end becomes known."""

from dataclasses import replace

import pytest
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


@pytest.mark.parametrize("steps", [0, 1, 15])  # with its end, in the same slot, in the next one
def test_what_becomes_known_after_the_end_is_in_the_ledger(steps: int) -> None:
    world = make_world(slot_seconds=10)
    key = world.units.start("42")
    world.step()
    world.units.use(key, SECOND // 2)
    world.step()
    unit = world.units.units[key]
    world.units.end(key)
    for _ in range(steps):
        world.step()
    world.units.told.append(replace(unit, info=replace(unit.info, labels=(("slurm_end", "1796000000"),))))

    for _ in range(25):
        world.step()

    named = [entry for slot in world.sink.slots for entry in slot.entries if entry.key == key]
    assert named[-1].labels == (("slurm_end", "1796000000"),)
    assert len(named) == (2 if steps == 15 else 1)


def test_nothing_is_told_of_a_unit_that_lives_or_was_never_here() -> None:
    world = make_world(slot_seconds=10)
    key = world.units.start("42")
    world.step()
    unit = world.units.units[key]
    other = replace(unit, key=replace(key, unit="43", run="43@1"))
    world.units.told += [replace(unit, info=replace(unit.info, labels=(("slurm_end", "1"),))), other]

    for _ in range(12):
        world.step()

    (entry,) = [entry for entry in world.sink.slots[0].entries if entry.key is not None]
    assert (entry.key, entry.labels) == (key, ())
