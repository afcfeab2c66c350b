"""Whole steps with numbers worked out by hand: the cases of energy.md and of the field."""

from tests.sampling_world import SECOND, WATT, World, make_world

from kwhere.core.terms import Component, DomainKind, Part
from kwhere.core.unit import UnitKey
from kwhere.meters.meter import Domain

CPU0 = Domain(DomainKind.CPU, "0")
CPU1 = Domain(DomainKind.CPU, "1")
DRAM0 = Domain(DomainKind.DRAM, "0")


def energy_uj(world: World, key: UnitKey, component: Component = Component.CPU) -> tuple[int, int]:
    """Return dynamic and idle microjoules of a unit since the process began."""
    row = {unit.key: unit for unit in snapshot_units(world)}[key].energy_uj
    return row[(component, Part.DYNAMIC)], row[(component, Part.IDLE)]


def snapshot_units(world: World):  # type: ignore[no-untyped-def]
    from kwhere.sampling.snapshot import build_totals
    from kwhere.sampling.totals import StepCounts

    return build_totals(world.sampler, StepCounts()).units


def test_the_worked_case_of_the_methodology() -> None:
    world = make_world(sockets=(0,) * 10, idle_watts={CPU0: 100})
    a = world.units.start("A", milli_cpus=8000)
    b = world.units.start("B", milli_cpus=2000)
    world.step()

    for cpu in range(8):
        world.busy(cpu, SECOND)
    world.units.use(a, 8 * SECOND)
    world.meters[0].add(CPU0, 180 * WATT)
    world.step()

    assert energy_uj(world, a) == (80 * WATT, 80 * WATT)
    assert energy_uj(world, b) == (0, 20 * WATT)
    assert sum(world.sampler.accounts.unallocated.sums.energy_uj) == 0
    assert sum(world.sampler.accounts.system.sums.energy_uj) == 0
