"""Full readings: when they are taken, and how inner units are taken out of their outer's."""

from dataclasses import replace

from tests.sampling_world import SECOND, World, make_world

from kwhere.core.errors import SourceError
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading, UnitDetail
from kwhere.ledger.rows import Figures, Slot


def last_slot(world: World) -> Slot:
    world.clock.advance(SECOND)
    slot = world.sampler.finish().slot
    assert slot is not None
    return slot


def figures(slot: Slot, key: UnitKey) -> Figures:
    return next(entry.figures for entry in slot.entries if entry.key == key)


class Asked:
    """Counts how often a unit was read in full."""

    def __init__(self, world: World) -> None:
        self.times: list[int] = []
        detail = world.units.detail
        self.world = world

        def counted(key: UnitKey) -> UnitDetail:
            self.times.append((world.clock.monotonic - 1000 * SECOND) // SECOND)
            return detail(key)

        world.units.detail = counted  # type: ignore[method-assign]


def test_units_are_read_in_full_every_fifteen_seconds_at_first_sight_and_at_the_slots_end() -> None:
    world = make_world(slot_seconds=40)
    asked = Asked(world)
    world.step()
    world.units.start("job")
    for _ in range(45):
        world.step()

    # step 1 had no unit; first sight at 2; all at 16, 31; the slot of 40 s ends at 41
    assert asked.times == [2, 16, 31, 41]


def test_a_run_that_is_about_to_go_is_read_in_full_out_of_turn() -> None:
    world = make_world(slot_seconds=40)
    world.units.start("make", manager="run")
    world.units.start("job")
    world.step()
    asked = Asked(world)

    world.clock.advance(SECOND)
    world.sampler.step(closely=True)

    assert len(asked.times) == 1  # the run alone; the job's turn is in 15 s


def test_the_last_sight_of_an_ended_unit_is_asked_for() -> None:
    world = make_world()
    job = world.units.start("job")
    world.units.details[job] = UnitDetail(io_read_bytes=5)
    world.step()
    asked = Asked(world)

    world.units.end(job)
    world.step()

    assert asked.times == [2]
    assert figures(last_slot(world), job).io_read_bytes == 5


def test_inner_input_and_output_is_not_the_outers() -> None:
    world = make_world(slot_seconds=1000)
    outer = world.units.start("outer")
    inner = world.units.start("inner", outer=outer, cgroup="/jobs/job_outer/inner")
    world.units.details = {outer: UnitDetail(io_write_bytes=0), inner: UnitDetail(io_write_bytes=0)}
    world.step()
    world.units.details = {outer: UnitDetail(io_write_bytes=90), inner: UnitDetail(io_write_bytes=100)}
    first = last_slot(world)
    world.units.details = {outer: UnitDetail(io_write_bytes=150), inner: UnitDetail(io_write_bytes=100)}
    second = last_slot(world)

    assert [figures(first, key).io_write_bytes for key in (inner, outer)] == [100, 0]
    assert [figures(second, key).io_write_bytes for key in (inner, outer)] == [0, 50]  # 10 were owed


def test_inner_memory_is_not_the_outers() -> None:
    world = make_world()
    outer = world.units.start("outer")
    inner = world.units.start("inner", outer=outer, cgroup="/jobs/job_outer/inner")
    world.units.details = {outer: UnitDetail(memory_current_bytes=100), inner: UnitDetail(memory_current_bytes=30)}
    world.step()
    slot = last_slot(world)

    assert (figures(slot, inner).memory_byte_seconds, figures(slot, outer).memory_byte_seconds) == (60, 140)


def test_what_a_unit_read_before_it_was_seen_is_not_booked() -> None:
    world = make_world()
    late = world.units.start("late", from_creation=False)
    world.units.details[late] = UnitDetail(io_read_bytes=1000)
    world.step()
    world.units.details[late] = UnitDetail(io_read_bytes=1007)

    assert figures(last_slot(world), late).io_read_bytes == 7


def test_user_and_system_time_add_up_to_the_whole() -> None:
    world = make_world()
    job = world.units.start("job")
    world.step()
    world.units.details[job] = UnitDetail(cpu_user_ns=2 * SECOND, cpu_system_ns=SECOND)
    world.units.use(job, 1_000_000_001)
    world.busy(0, SECOND)

    found = figures(last_slot(world), job)

    assert (found.cpu_user_ns, found.cpu_system_ns) == (666_666_667, 333_333_334)


def test_a_step_that_tells_both_modes_is_believed_first() -> None:
    world = make_world()
    job = world.units.start("job")
    world.step()
    world.units.details[job] = UnitDetail(cpu_user_ns=9, cpu_system_ns=9)
    world.units.cpu[job] = CpuReading(4 * SECOND, SECOND, 3 * SECOND)

    found = figures(last_slot(world), job)

    assert (found.cpu_user_ns, found.cpu_system_ns) == (SECOND, 3 * SECOND)


def test_an_unreadable_unit_is_counted_and_the_others_go_on() -> None:
    world = make_world()
    bad, good = world.units.start("bad"), world.units.start("good")
    world.units.details[good] = UnitDetail(io_read_bytes=1)
    detail = world.units.detail

    def broken(key: UnitKey) -> UnitDetail:
        if key == bad:
            raise SourceError("memory.stat: expected numbers")
        return detail(key)

    world.units.detail = broken  # type: ignore[method-assign]
    world.step()

    assert world.sampler.details.errors == 1
    assert figures(last_slot(world), good).io_read_bytes == 1


def test_details_go_on_over_a_restart() -> None:
    world = make_world()
    job = world.units.start("job")
    world.units.details[job] = UnitDetail(io_read_bytes=10)
    world.step()
    last_slot(world)
    saved = world.sampler.saved(0)

    world.sampler = world.new_sampler()
    world.sampler.restore(replace(saved, utc_ns=world.clock.utc))
    world.units.details[job] = UnitDetail(io_read_bytes=25)
    world.clock.advance(10 * SECOND)
    slot = world.sampler.step().slot

    assert slot is not None
    assert figures(slot, job).io_read_bytes == 15
