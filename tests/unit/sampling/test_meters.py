"""Meters in the step: choice of source, gaps, proof of a platform meter, and what switches one off."""

from tests.sampling_world import SECOND, WATT, HandMeter, World, make_world

from kwhere.core.terms import Component, DomainKind, Method, Part
from kwhere.ledger.closure import residuals
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.saved import SavedState
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts, Totals

CPU0, CPU1 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.CPU, "1")
DRAM0, GPU0 = Domain(DomainKind.DRAM, "0"), Domain(DomainKind.GPU, "0")
INSIDE = frozenset({Component.CPU, Component.DRAM})


def totals(world: World) -> Totals:
    return build_totals(world.sampler, StepCounts())


def finish(world: World) -> None:
    world.clock.advance(SECOND)
    slot = world.sampler.finish().slot
    assert slot is not None
    assert residuals(slot) == {}


def test_the_better_source_speaks_and_the_other_is_shown_beside_it() -> None:
    rapl = HandMeter(counters={CPU0: 0})
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(idle_watts={CPU0: 10}, meters=[rapl, model])
    world.step()
    rapl.add(CPU0, 30 * WATT)
    model.add(CPU0, 99 * WATT)
    world.step()

    seen = totals(world)
    assert seen.node_uj == {Component.CPU: 30 * WATT}
    assert seen.meters_uj == {("powercap", CPU0): 30 * WATT, ("model", CPU0): 99 * WATT}
    assert seen.methods == {Component.CPU: (Method.COUNTER, "powercap")}


def test_a_failure_is_a_hole_that_the_counter_fills_again() -> None:
    rapl = HandMeter(counters={CPU0: 0})
    world = make_world(idle_watts={CPU0: 0}, meters=[rapl])
    world.step()
    rapl.add(CPU0, 10 * WATT)
    world.step()
    rapl.broken = "permission"
    rapl.add(CPU0, 10 * WATT)
    world.step()
    assert totals(world).sources["powercap"].reason == "permission"
    assert totals(world).node_uj == {Component.CPU: 10 * WATT}

    rapl.broken = ""
    rapl.add(CPU0, 10 * WATT)
    world.step()

    assert totals(world).node_uj == {Component.CPU: 30 * WATT}
    assert totals(world).sources["powercap"].up


def test_case_energy_r17_one_socket_that_is_not_read_any_more_shows_and_comes_back() -> None:
    rapl = HandMeter(counters={CPU0: 0, CPU1: 0})
    world = make_world(idle_watts={CPU0: 0, CPU1: 0}, sockets=(0, 0, 1, 1), meters=[rapl])
    world.step()
    missing = rapl.counters.pop(CPU1)
    rapl.add(CPU0, 10 * WATT)
    world.step()
    source = totals(world).sources["powercap"]
    assert (source.up, source.reason, source.silent) == (True, "partial", frozenset({CPU1}))

    rapl.counters[CPU1] = missing
    rapl.add(CPU1, 8 * WATT)
    world.step()

    source = totals(world).sources["powercap"]
    assert (source.up, source.reason, source.silent, source.gaps) == (True, "", frozenset(), {})
    assert totals(world).node_uj == {Component.CPU: 18 * WATT}
    finish(world)


def test_an_implausible_delta_is_a_counted_gap() -> None:
    rapl = HandMeter(counters={CPU0: 0, CPU1: 0}, p_max_watts=500)
    world = make_world(sockets=(0, 0, 1, 1), meters=[rapl])
    world.step()
    rapl.add(CPU0, 9000 * WATT)
    rapl.add(CPU1, 20 * WATT)
    world.step()

    seen = totals(world)
    assert seen.node_uj == {Component.CPU: 20 * WATT}
    assert seen.sources["powercap"].gaps == {"implausible": 1}
    assert seen.sources["powercap"].gap_ns == SECOND
    finish(world)


def test_a_power_sensor_is_integrated_and_never_holds_for_long() -> None:
    sensor = HandMeter("hwmon_power", Method.INTEGRATED, powers={CPU0: 40 * WATT})
    world = make_world(idle_watts={CPU0: 0}, meters=[sensor])
    world.step()
    sensor.powers[CPU0] = 60 * WATT
    world.step()
    assert totals(world).node_uj == {Component.CPU: 50 * WATT}

    world.step(10 * SECOND)

    assert totals(world).node_uj == {Component.CPU: 50 * WATT}
    assert totals(world).sources["hwmon_power"].gaps == {"stale": 1}


def test_psys_that_shows_less_than_the_packages_is_not_believed() -> None:
    rapl = HandMeter(counters={CPU0: 0})
    psys = HandMeter("psys", counters={PLATFORM: 0}, covers=INSIDE, needs_proof=True)
    world = make_world(idle_watts={CPU0: 0}, meters=[rapl, psys])
    world.step()
    rapl.add(CPU0, 30 * WATT)
    psys.add(PLATFORM, 20 * WATT)
    world.step()

    assert totals(world).node_uj == {Component.CPU: 30 * WATT}
    assert totals(world).sources["psys"].reason == "below_components"
    assert totals(world).carry_uj is None
    finish(world)


def test_psys_that_shows_all_is_the_platform() -> None:
    rapl = HandMeter(counters={CPU0: 0})
    psys = HandMeter("psys", counters={PLATFORM: 0}, covers=INSIDE, needs_proof=True)
    world = make_world(idle_watts={CPU0: 0, PLATFORM: 5}, meters=[rapl, psys])
    world.step()
    for platform in (40, 35):
        rapl.add(CPU0, 30 * WATT)
        psys.add(PLATFORM, platform * WATT)
        world.step()

    assert totals(world).node_uj == {Component.CPU: 60 * WATT, Component.OTHER: 15 * WATT}


def test_a_lagging_platform_meter_owes_and_pays_back() -> None:
    rapl = HandMeter(counters={CPU0: 0})
    bmc = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=INSIDE)
    world = make_world(idle_watts={CPU0: 0, PLATFORM: 50}, meters=[rapl, bmc])
    world.step()
    rapl.add(CPU0, 100 * WATT)
    bmc.add(PLATFORM, 60 * WATT)
    world.step()
    assert totals(world).carry_uj == -40 * WATT

    rapl.add(CPU0, 10 * WATT)
    bmc.add(PLATFORM, 100 * WATT)
    world.step()

    assert totals(world).carry_uj == 0
    assert totals(world).node_uj == {Component.CPU: 110 * WATT, Component.OTHER: 50 * WATT}
    finish(world)


def test_a_platform_meter_below_its_components_is_switched_off() -> None:
    rapl = HandMeter(counters={CPU0: 0}, p_max_watts=100_000, range_uj=None)
    bmc = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=INSIDE, range_uj=None)
    world = make_world(idle_watts={CPU0: 0, PLATFORM: 10}, meters=[rapl, bmc])
    world.step()
    rapl.add(CPU0, 7000 * WATT)  # a debt beyond 600 s x 10 W
    bmc.add(PLATFORM, 500 * WATT)
    world.step()

    seen = totals(world)
    assert (seen.sources["hwmon_energy"].up, seen.sources["hwmon_energy"].reason) == (False, "below_components")
    assert seen.node_uj[Component.OTHER] == 0
    rapl.add(CPU0, 20 * WATT)
    world.step()
    assert totals(world).node_uj[Component.CPU] == 7020 * WATT
    finish(world)


def test_the_first_platform_that_answers_is_kept() -> None:
    rapl = HandMeter(counters={CPU0: 0})
    better = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=INSIDE, broken="absent")
    worse = HandMeter("hwmon_power", Method.INTEGRATED, powers={PLATFORM: 90 * WATT}, covers=INSIDE)
    world = make_world(idle_watts={CPU0: 0, PLATFORM: 5}, meters=[rapl, better, worse])
    world.step()
    better.broken = ""
    for _ in range(2):
        rapl.add(CPU0, 30 * WATT)
        better.add(PLATFORM, 70 * WATT)
        world.step()

    assert totals(world).node_uj[Component.OTHER] == 120 * WATT
    assert totals(world).methods[Component.OTHER] == (Method.INTEGRATED, "hwmon_power")


def test_a_platform_that_is_still_being_asked_holds_its_place() -> None:
    bmc = HandMeter("redfish", Method.INTEGRATED, powers={PLATFORM: 500 * WATT}, pending=True)
    hwmon = HandMeter("hwmon_power", Method.INTEGRATED, powers={PLATFORM: 400 * WATT})
    world = make_world(idle_watts={PLATFORM: 5}, meters=[bmc, hwmon])
    world.step()
    world.step()
    bmc.pending = False
    world.step()
    world.step()

    assert totals(world).methods[Component.OTHER] == (Method.INTEGRATED, "redfish")


def test_a_platform_that_was_asked_and_failed_gives_way() -> None:
    bmc = HandMeter("redfish", Method.INTEGRATED, powers={PLATFORM: 500 * WATT}, pending=True)
    hwmon = HandMeter("hwmon_power", Method.INTEGRATED, powers={PLATFORM: 400 * WATT})
    world = make_world(idle_watts={PLATFORM: 5}, meters=[bmc, hwmon])
    world.step()
    bmc.pending, bmc.broken = False, "refused"
    world.step()
    world.step()

    assert totals(world).methods[Component.OTHER] == (Method.INTEGRATED, "hwmon_power")


def test_modelled_components_are_booked_unscaled_when_the_platform_meter_stays_away() -> None:
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    bmc = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=INSIDE)
    world = make_world(idle_watts={CPU0: 10, PLATFORM: 5}, meters=[model, bmc])
    job = world.units.start("job", milli_cpus=4000)
    world.step()
    bmc.broken = "timeout"
    for _ in range(6):
        model.add(CPU0, 20 * WATT)
        world.units.use(job, SECOND)
        world.busy(0, SECOND)
        world.step()

    assert totals(world).node_uj == {Component.CPU: 120 * WATT}
    row = totals(world).units[0].energy_uj
    assert (row[(Component.CPU, Part.DYNAMIC)], row[(Component.CPU, Part.IDLE)]) == (60 * WATT, 60 * WATT)
    finish(world)


def test_modelled_energy_held_back_survives_a_restart() -> None:
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    bmc = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=INSIDE)
    world = make_world(idle_watts={CPU0: 10, PLATFORM: 5}, meters=[model, bmc])
    world.step()
    model.add(CPU0, 20 * WATT)
    finish(world)  # no fresh platform reading: 20 J are held back

    state = world.sink.last_state()
    assert state is not None
    world.sampler = world.new_sampler()
    world.sampler.restore(SavedState.from_json(state))
    model.add(CPU0, 20 * WATT)
    bmc.add(PLATFORM, 200 * WATT)
    world.step()
    bmc.add(PLATFORM, 1)
    finish(world)

    booked = {Component.CPU: 0, Component.OTHER: 0}
    for slot in world.sink.slots:
        for control in slot.controls:
            booked[control.component] += control.energy_uj
    assert booked == {Component.CPU: 40 * WATT, Component.OTHER: 160 * WATT + 1}


def test_a_gpu_without_known_holders_is_the_systems_and_nobodys() -> None:
    gpu = HandMeter("nvml", counters={GPU0: 0})
    world = make_world(idle_watts={GPU0: 20}, meters=[gpu])
    world.units.start("job", milli_cpus=1000)
    world.step()
    gpu.add(GPU0, 50 * WATT)
    world.step()

    seen = totals(world)
    assert seen.system_uj[(Component.GPU, Part.DYNAMIC)] == 30 * WATT
    assert seen.unallocated_uj[(Component.GPU, Part.IDLE)] == 20 * WATT
    finish(world)


def test_learned_idle_power_comes_in_force_with_the_next_slot_and_survives_a_reboot() -> None:
    rapl = HandMeter(counters={CPU0: 0}, range_uj=None)
    world = make_world(meters=[rapl], slot_seconds=10_000)
    world.step()
    for _ in range(3):
        rapl.add(CPU0, 300 * 17 * WATT)
        world.step(300 * SECOND)
    assert totals(world).idle[0].power_uw == 1 * WATT  # the table's

    finish(world)
    assert totals(world).idle[0].power_uw == 17 * WATT

    state = world.sink.last_state()
    assert state is not None
    world.sampler = world.new_sampler()
    object.__setattr__(world.sampler.parts, "boot_id", "boot-2")
    assert not world.sampler.restore(SavedState.from_json(state))
    world.step()
    assert totals(world).idle[0].power_uw == 17 * WATT


def test_a_source_that_is_no_more_does_not_hinder_a_restart() -> None:
    rapl = HandMeter(counters={CPU0: 0, DRAM0: 0})
    world = make_world(idle_watts={CPU0: 10}, meters=[rapl])
    world.step()
    rapl.add(CPU0, 30 * WATT)
    rapl.add(DRAM0, 3 * WATT)
    world.step()
    finish(world)

    state = world.sink.last_state()
    assert state is not None
    world.meters = [HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)]
    world.sampler = world.new_sampler()
    assert world.sampler.restore(SavedState.from_json(state))
    world.step()
    world.meters[0].add(CPU0, 5 * WATT)
    world.step()

    assert totals(world).node_uj == {Component.CPU: 5 * WATT}


def test_other_comes_back_after_an_outage_of_the_platform_beside_modelled_components() -> None:
    """A BMC that is new every 2 s and was away for 10 s; nothing measures the CPU, so its model is held back."""
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    bmc = HandMeter(
        "redfish",
        Method.INTEGRATED,
        powers={PLATFORM: 300 * WATT},
        covers=frozenset({Component.CPU}),
        refresh_seconds=2,
    )
    world = make_world(idle_watts={CPU0: 0, PLATFORM: 0}, meters=[model, bmc])

    def run(seconds: int) -> int:
        for second in range(seconds):
            model.add(CPU0, 50 * WATT)
            bmc.pending = second % 2 == 0
            world.step()
        return totals(world).node_uj.get(Component.OTHER, 0)

    before = run(10)
    bmc.broken = "absent"
    away = run(10)
    bmc.broken = ""
    after = run(10)

    assert before == away == 8 * 250 * WATT  # from the first reading, after 2 s, to that after 10 s
    assert after - away == 8 * 250 * WATT
    assert totals(world).node_uj[Component.CPU] == 29 * 50 * WATT  # the first reading is a baseline
    finish(world)
