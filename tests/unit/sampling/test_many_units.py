"""Ten thousand units on one node: the books close, ended ones go, and memory of them goes with them."""

from tests.sampling_world import SECOND, WATT, make_world

from kwhere.core.terms import Component, DomainKind, Part
from kwhere.ledger.closure import residuals
from kwhere.meters.meter import Domain

CPU0 = Domain(DomainKind.CPU, "0")
MANY = 10_000
TICK = 10_000_000


def test_ten_thousand_units_share_exactly() -> None:
    world = make_world(sockets=(0,) * 8, idle_watts={CPU0: 100}, slot_seconds=60)
    keys = [world.units.start(f"{number:05}", milli_cpus=1) for number in range(MANY)]
    world.units.parents.clear()
    world.step()
    for number, key in enumerate(keys[:100]):
        world.units.use(key, TICK)
        world.busy(number % 8, TICK)
    world.meters[0].add(CPU0, 300 * WATT + 7)
    world.clock.advance(SECOND)

    slot = world.sampler.finish().slot

    assert slot is not None
    assert residuals(slot) == {}
    assert len(slot.entries) == MANY + 2
    idle = [entry.figures.energy_uj[(Component.CPU, Part.IDLE)] for entry in slot.entries[:-2]]
    assert set(idle) == {10_000}  # 100 J over 8 CPUs is 12.5 J each, but 10 CPUs are held of 8: 100 J / 10,000
    dynamic = [entry.figures.energy_uj[(Component.CPU, Part.DYNAMIC)] for entry in slot.entries[:100]]
    assert set(dynamic) == {2_000_000, 2_000_001}
    assert sum(dynamic) == 200 * WATT + 7


def test_nothing_is_kept_of_units_that_ended_long_ago() -> None:
    world = make_world(idle_watts={CPU0: 1}, slot_seconds=10)
    world.step()
    for wave in range(20):
        keys = [world.units.start(f"{wave}-{number}") for number in range(50)]
        world.step(5 * SECOND)
        for key in keys:
            world.units.end(key)
        world.meters[0].add(CPU0, 5 * WATT)
        world.step(5 * SECOND)
    for _ in range(35):
        world.meters[0].add(CPU0, 10 * WATT)
        world.step(10 * SECOND)

    sampler = world.sampler
    assert sampler.accounts.units == {}
    assert sampler.cpu_book.marks() == {}
    assert sampler.details.saved() == {}
    assert sampler.accounts.energy_uj()[Component.CPU] == (20 * 5 + 35 * 10) * WATT
    assert all(residuals(slot) == {} for slot in world.sink.slots)
