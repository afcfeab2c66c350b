"""Sources that measure components and the platform at once, and sources that have not answered yet."""

from tests.sampling_world import SECOND, WATT, HandMeter, World, make_world

from kwhere.core.errors import NoData
from kwhere.core.terms import Component, DomainKind, Method
from kwhere.meters.meter import PLATFORM, Domain, Reading
from kwhere.sampling.meter_bank import SourceHealth
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts, Totals

CPU0 = Domain(DomainKind.CPU, "0")
IDLE = {CPU0: 0, PLATFORM: 10}


def totals(world: World) -> Totals:
    return build_totals(world.sampler, StepCounts())


class LateMeter(HandMeter):
    """Answers from its third read on, as one that is asked on a thread of its own."""

    reads = 0

    def read(self, now_ns: int) -> list[Reading]:
        self.reads += 1
        if self.reads < 3:
            raise NoData("not yet")
        return list(super().read(now_ns))


def test_a_better_source_that_is_still_asked_keeps_its_place() -> None:
    late = LateMeter("hwmon_power", Method.INTEGRATED, powers={CPU0: 80 * WATT})
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(idle_watts=IDLE, meters=[late, model])
    for _ in range(6):
        world.step()
        model.add(CPU0, 30 * WATT)

    seen = totals(world)
    assert seen.methods[Component.CPU] == (Method.INTEGRATED, "hwmon_power")
    assert seen.node_uj == {Component.CPU: 3 * 80 * WATT}


def test_a_better_source_that_fails_leaves_its_place() -> None:
    late = LateMeter("hwmon_power", Method.INTEGRATED, powers={CPU0: 80 * WATT})
    late.broken = "timeout"
    late.reads = 2
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(idle_watts=IDLE, meters=[late, model])
    for _ in range(3):
        world.step()
        model.add(CPU0, 30 * WATT)

    assert totals(world).methods[Component.CPU] == (Method.MODELLED, "model")


def test_a_platform_meter_that_only_says_nonsense_leaves_its_place_case_energy_r14() -> None:  # kepler#1774
    acpi = HandMeter("hwmon_power", Method.INTEGRATED, powers={PLATFORM: 160_000 * WATT}, covers=frozenset(Component))
    psys = HandMeter("psys", counters={PLATFORM: 0}, covers=frozenset({Component.CPU}), needs_proof=True)
    rapl = HandMeter(counters={CPU0: 0})
    world = make_world(idle_watts=IDLE, meters=[rapl, acpi, psys])
    world.step()
    for _ in range(3):
        rapl.add(CPU0, 30 * WATT)
        psys.add(PLATFORM, 50 * WATT)
        world.step()

    seen = totals(world)
    assert seen.methods[Component.OTHER] == (Method.COUNTER, "psys")
    assert seen.node_uj == {Component.CPU: 90 * WATT, Component.OTHER: 60 * WATT}
    assert seen.sources["hwmon_power"].gaps["implausible"] == 4
    assert seen.sources["hwmon_power"].gap_ns == 3 * SECOND


def test_a_platform_below_its_components_leaves_the_components_of_the_same_source() -> None:
    both = HandMeter(
        "cray",
        counters={CPU0: 0, PLATFORM: 0},
        covers=frozenset({Component.CPU}),
        range_uj=None,
        p_max_watts=100_000,
    )
    world = make_world(idle_watts=IDLE, meters=[both])
    world.step()
    both.add(CPU0, 7000 * WATT)  # a debt beyond 600 s x 10 W
    both.add(PLATFORM, 500 * WATT)
    world.step()
    both.add(CPU0, 100 * WATT)
    both.add(PLATFORM, 900 * WATT)
    world.step()
    world.clock.advance(SECOND)

    seen = totals(world)
    assert seen.node_uj[Component.CPU] == 7100 * WATT
    assert seen.node_uj.get(Component.OTHER, 0) == 0
    assert (seen.sources["cray"].up, seen.sources["cray"].reason) == (True, "below_components")
    assert seen.meters_uj["cray", PLATFORM] == 500 * WATT


def test_garbage_counters_of_a_machine_leave_its_cpus_to_the_model_case_energy_r14() -> None:  # kepler#897
    rapl = HandMeter(counters={CPU0: 0}, p_max_watts=500)
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(idle_watts=IDLE, meters=[rapl, model])
    for _ in range(6):
        world.step()
        rapl.add(CPU0, 100_000 * WATT)
        model.add(CPU0, 30 * WATT)

    seen = totals(world)
    assert seen.methods[Component.CPU] == (Method.MODELLED, "model")
    assert seen.node_uj == {Component.CPU: 3 * 30 * WATT}  # from the step in which powercap was given up
    assert world.sampler.parts.bank.health["powercap"] == SourceHealth(False, "nonsense")


def test_one_gap_at_the_beginning_is_no_reason_to_give_up_a_counter() -> None:
    rapl = HandMeter(counters={CPU0: 0}, p_max_watts=500)
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(idle_watts=IDLE, meters=[rapl, model])
    world.step()
    rapl.add(CPU0, 100_000 * WATT)
    world.step()
    for _ in range(4):
        rapl.add(CPU0, 50 * WATT)
        model.add(CPU0, 30 * WATT)
        world.step()

    assert totals(world).methods[Component.CPU] == (Method.COUNTER, "powercap")
