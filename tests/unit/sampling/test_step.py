"""Whole steps with numbers worked out by hand: the cases of energy.md and of the field."""

import pytest
from tests.sampling_world import SECOND, WATT, HandMeter, World, make_world

from kwhere.core.terms import Component, DomainKind, EntryKind, Flag, IdlePolicy, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading, UnitDetail
from kwhere.ledger.closure import residuals
from kwhere.ledger.rows import Entry, Slot
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.meter_bank import MeterBank
from kwhere.sampling.saved import SavedState
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts, Totals

CPU0 = Domain(DomainKind.CPU, "0")
CPU1 = Domain(DomainKind.CPU, "1")
DRAM0 = Domain(DomainKind.DRAM, "0")


def totals(world: World) -> Totals:
    return build_totals(world.sampler, StepCounts())


def energy_uj(world: World, key: UnitKey, component: Component = Component.CPU) -> tuple[int, int]:
    """Return dynamic and idle microjoules of a unit since the process began."""
    row = {unit.key: unit for unit in totals(world).units}[key].energy_uj
    return row[(component, Part.DYNAMIC)], row[(component, Part.IDLE)]


def last_slot(world: World) -> Slot:
    world.clock.advance(SECOND)
    slot = world.sampler.finish().slot
    assert slot is not None
    assert residuals(slot) == {}
    return slot


def entry_of(slot: Slot, key: UnitKey) -> Entry:
    return next(entry for entry in slot.entries if entry.key == key)


def system_of(slot: Slot) -> Entry:
    return next(entry for entry in slot.entries if entry.kind is EntryKind.SYSTEM)


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


@pytest.mark.parametrize("case", ["case_energy_a1"])
def test_a_busy_vm_gets_what_the_node_drew_more_and_no_more(case: str) -> None:
    world = make_world(idle_watts={CPU0: 20})
    vm = world.units.start("vm", milli_cpus=0, manager="libvirt")
    world.step()

    world.busy(0, SECOND)
    world.units.use(vm, SECOND)
    world.meters[0].add(CPU0, 32 * WATT)
    world.step()

    assert energy_uj(world, vm) == (12 * WATT, 0)


@pytest.mark.parametrize("case", ["case_energy_a2"])
def test_units_never_add_up_to_more_than_the_node(case: str) -> None:
    world = make_world(idle_watts={CPU0: 7})
    keys = [world.units.start(f"u{i}", milli_cpus=333) for i in range(13)]
    world.step()

    for i, key in enumerate(keys):
        world.units.use(key, (i + 1) * 7_777_777)
    world.busy(1, SECOND)
    world.meters[0].add(CPU0, 31_415_927)
    world.step()

    node = totals(world)
    units_uj = sum(sum(unit.energy_uj.values()) for unit in node.units)
    assert node.node_uj == {Component.CPU: 31_415_927}
    assert units_uj + sum(node.system_uj.values()) + sum(node.unallocated_uj.values()) == 31_415_927


@pytest.mark.parametrize("case", ["case_energy_a4"])
def test_an_idle_socket_does_not_pay_for_a_busy_one(case: str) -> None:
    world = make_world(sockets=(0, 0, 1, 1), idle_watts={CPU0: 30, CPU1: 30})
    job = world.units.start("job", cpuset=frozenset({2, 3}), milli_cpus=2000)
    world.step()

    world.busy(2, SECOND)
    world.busy(3, SECOND)
    world.units.use(job, 2 * SECOND)
    world.meters[0].add(CPU0, 30 * WATT)
    world.meters[0].add(CPU1, 90 * WATT)
    world.step()

    assert energy_uj(world, job) == (60 * WATT, 30 * WATT)
    assert sum(totals(world).unallocated_uj.values()) == 30 * WATT
    assert sum(totals(world).system_uj.values()) == 0


def test_cpu_time_by_cpu_places_a_unit_that_nothing_pins() -> None:
    world = make_world(sockets=(0, 1), idle_watts={CPU0: 0, CPU1: 0})
    a, b = world.units.start("a"), world.units.start("b")
    world.units.cpu = {key: CpuReading(0, per_cpu_ns=(0, 0)) for key in (a, b)}
    world.step()

    world.units.cpu = {
        a: CpuReading(SECOND, per_cpu_ns=(SECOND, 0)),
        b: CpuReading(SECOND, per_cpu_ns=(0, SECOND)),
    }
    world.busy(0, SECOND)
    world.busy(1, SECOND)
    world.meters[0].add(CPU0, 10 * WATT)
    world.meters[0].add(CPU1, 30 * WATT)
    world.step()

    assert (energy_uj(world, a), energy_uj(world, b)) == ((10 * WATT, 0), (30 * WATT, 0))


@pytest.mark.parametrize("case", ["case_energy_a5"])
def test_three_hundred_idle_processes_share_one_idle_watt_exactly(case: str) -> None:
    world = make_world(idle_watts={CPU0: 1}, policy=IdlePolicy.EQUAL)
    keys = [world.units.start(f"p{i:03}") for i in range(300)]
    world.step()

    world.meters[0].add(CPU0, 1 * WATT)
    world.step()

    shares = [energy_uj(world, key)[1] for key in keys]
    assert sum(shares) == 1 * WATT
    assert set(shares) == {3333, 3334}


@pytest.mark.parametrize("case", ["case_energy_a6"])
def test_a_node_without_a_dram_domain_still_has_its_package_term(case: str) -> None:
    world = make_world(idle_watts={CPU0: 10})
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0, DRAM0: 0}, range_uj=None)
    world.meters.append(model)
    world.sampler = world.new_sampler()
    job = world.units.start("job", milli_cpus=4000)
    world.step()

    world.busy(0, SECOND)
    world.units.use(job, SECOND)
    world.meters[0].add(CPU0, 25 * WATT)
    model.add(DRAM0, 3 * WATT)
    world.step()

    assert energy_uj(world, job) == (15 * WATT, 10 * WATT)
    assert set(totals(world).node_uj) == {Component.CPU}


@pytest.mark.parametrize("case", ["case_energy_a9"])
def test_what_an_exited_process_used_stays_with_its_unit(case: str) -> None:
    world = make_world(idle_watts={CPU0: 0})
    pod = world.units.start("pod", manager="kubernetes")
    world.step()
    world.busy(0, SECOND)
    world.units.use(pod, SECOND)
    world.meters[0].add(CPU0, 150 * WATT)
    world.step()

    world.step()

    assert energy_uj(world, pod) == (150 * WATT, 0)


@pytest.mark.parametrize("case", ["case_energy_a16"])
def test_processes_shorter_than_a_step_are_in_their_cgroup(case: str) -> None:
    long, short = make_world(idle_watts={CPU0: 5}), make_world(idle_watts={CPU0: 5})
    keys = [world.units.start("job", milli_cpus=1000) for world in (long, short)]
    for world in (long, short):
        world.step()

    for _ in range(100):
        long.busy(0, SECOND)
        long.units.use(keys[0], SECOND)
        for _ in range(10):
            short.busy(0, SECOND // 10)
            short.units.use(keys[1], SECOND // 10)
        for world in (long, short):
            world.meters[0].add(CPU0, 25 * WATT)
            world.step()

    assert energy_uj(long, keys[0]) == energy_uj(short, keys[1]) == (2000 * WATT, 125 * WATT)


@pytest.mark.parametrize("case", ["case_energy_a18"])
def test_a_unit_without_memory_keeps_its_other_terms(case: str) -> None:
    meter = HandMeter(counters={CPU0: 0, DRAM0: 0})
    world = make_world(idle_watts={CPU0: 0, DRAM0: 0}, meters=[meter])
    job = world.units.start("job")
    world.units.details[job] = UnitDetail(memory_current_bytes=0, memory_anon_bytes=0)
    world.step()

    world.busy(0, SECOND)
    world.units.use(job, SECOND)
    meter.add(CPU0, 10 * WATT)
    meter.add(DRAM0, 2 * WATT)
    world.step()

    assert energy_uj(world, job) == (10 * WATT, 0)
    assert energy_uj(world, job, Component.DRAM) == (2 * WATT, 0)
    assert entry_of(last_slot(world), job).figures.memory_byte_seconds == 0


@pytest.mark.parametrize("case", ["case_energy_c25"])
def test_a_unit_found_late_does_not_bring_its_past(case: str) -> None:
    world = make_world(idle_watts={CPU0: 0})
    world.step()
    late = world.units.start("late", from_creation=False, already_ns=3600 * SECOND)
    absent = world.units.start("absent", from_creation=True, already_ns=3600 * SECOND)

    for cpu in range(4):
        world.busy(cpu, SECOND)
    world.meters[0].add(CPU0, 40 * WATT)
    world.step()

    assert energy_uj(world, late) == (0, 0)
    assert energy_uj(world, absent) == (40 * WATT, 0)
    assert world.sampler.accounts.units[absent].sums.cpu_ns == 4 * SECOND


@pytest.mark.parametrize("case", ["case_energy_a14"])
def test_a_restart_books_the_missing_interval_and_starts_totals_at_zero(case: str) -> None:
    world = make_world(idle_watts={CPU0: 10}, slot_seconds=1)
    job = world.units.start("job", milli_cpus=4000)
    world.step()
    world.meters[0].add(CPU0, 10 * WATT)
    before = last_slot(world)

    world.sampler = world.new_sampler()
    assert world.sampler.restore(state_of(world))
    world.busy(0, 20 * SECOND)
    world.units.use(job, 20 * SECOND)
    world.meters[0].add(CPU0, 1000 * WATT)
    world.clock.advance(30 * SECOND)
    slot = world.sampler.step().slot

    assert slot is not None
    assert slot.flags == {Flag.GAP}
    assert (slot.start_ns, slot.monotonic_ns) == (before.end_ns, 30 * SECOND)
    assert entry_of(slot, job).figures.energy_uj == {
        (Component.CPU, Part.DYNAMIC): 700 * WATT,
        (Component.CPU, Part.IDLE): 300 * WATT,
    }
    assert entry_of(slot, job).figures.cpu_user_ns == 20 * SECOND
    assert totals(world).node_uj == {Component.CPU: 0}
    assert totals(world).meters_uj == {("powercap", CPU0): 0}
    assert energy_uj(world, job) == (0, 0)


def state_of(world: World) -> SavedState:
    state = world.sink.last_state()
    assert state is not None
    assert SavedState.from_json(state).to_json() == state
    return SavedState.from_json(state)


def test_a_unit_that_ended_in_the_downtime_leaves_its_time_to_the_system() -> None:
    world = make_world(idle_watts={CPU0: 0}, slot_seconds=1)
    job = world.units.start("job")
    world.step()
    last_slot(world)

    world.units.use(job, 5 * SECOND)
    world.busy(0, 5 * SECOND)
    world.units.end(job)
    world.units.ended.clear()  # a new process knows nothing of it
    world.sampler = world.new_sampler()
    world.sampler.restore(state_of(world))
    world.meters[0].add(CPU0, 50 * WATT)
    world.clock.advance(10 * SECOND)
    slot = world.sampler.step().slot

    assert slot is not None
    assert system_of(slot).figures.energy_uj[(Component.CPU, Part.DYNAMIC)] == 50 * WATT
    assert system_of(slot).figures.cpu_user_ns == 5 * SECOND


def test_a_unit_that_came_in_the_downtime_counts_from_zero() -> None:
    world = make_world(idle_watts={CPU0: 0}, slot_seconds=1)
    world.step()
    last_slot(world)

    job = world.units.start("new", from_creation=False)
    world.units.use(job, 4 * SECOND)
    world.busy(0, 5 * SECOND)
    world.sampler = world.new_sampler()
    world.sampler.restore(state_of(world))
    world.meters[0].add(CPU0, 50 * WATT)
    world.clock.advance(10 * SECOND)
    slot = world.sampler.step().slot

    assert slot is not None
    assert entry_of(slot, job).figures.energy_uj[(Component.CPU, Part.DYNAMIC)] == 40 * WATT


def test_a_unit_made_and_removed_between_two_steps_gets_its_parents_rest() -> None:
    world = make_world(idle_watts={CPU0: 0})
    world.step()

    world.clock.advance(SECOND // 2)
    job = world.units.start("short")
    world.units.use(job, SECOND // 4)
    world.busy(0, SECOND // 2)
    world.units.end(job)
    world.meters[0].add(CPU0, 8 * WATT)
    world.clock.advance(SECOND // 2)
    world.sampler.step()

    assert energy_uj(world, job) == (4 * WATT, 0)
    row = entry_of(last_slot(world), job)
    assert row.flags == {Flag.ENDED}
    assert row.figures.cpu_user_ns == SECOND // 4


def test_an_outer_unit_is_less_its_inner_unit() -> None:
    world = make_world(idle_watts={CPU0: 0})
    outer = world.units.start("outer", milli_cpus=4000)
    inner = world.units.start("inner", outer=outer, cgroup="/jobs/job_outer/inner", manager="docker", milli_cpus=1000)
    world.step()

    world.units.use(inner, SECOND)
    world.units.use(outer, 3 * SECOND)
    for cpu in range(4):
        world.busy(cpu, SECOND)
    world.meters[0].add(CPU0, 40 * WATT)
    world.step()

    assert energy_uj(world, outer) == (30 * WATT, 0)
    assert energy_uj(world, inner) == (10 * WATT, 0)
    slot = last_slot(world)
    assert entry_of(slot, outer).figures.cpu_allocated_ns == 3 * 2 * SECOND
    assert entry_of(slot, inner).figures.cpu_allocated_ns == 1 * 2 * SECOND


def test_a_daemons_directory_is_not_shared_among_ended_neighbours() -> None:
    world = make_world(idle_watts={CPU0: 0})
    world.units.parents["/jobs/daemon.service"] = 0
    job = world.units.start("job")
    world.step()

    world.units.parents["/jobs/daemon.service"] += SECOND
    world.units.parents["/jobs"] += SECOND
    world.busy(0, SECOND)
    world.units.end(job)
    world.meters[0].add(CPU0, 10 * WATT)
    world.step()

    assert energy_uj(world, job) == (0, 0)
    assert sum(totals(world).system_uj.values()) == 10 * WATT


def test_a_broken_meter_is_a_reason_and_no_series() -> None:
    world = make_world()
    world.meters[0].broken = "permission"
    world.step()
    world.step()

    seen = totals(world)
    assert (seen.sources["powercap"].up, seen.sources["powercap"].reason) == (False, "permission")
    assert seen.node_uj == {}


def test_counters_that_never_moved_leave_the_node_to_the_model() -> None:
    dead = HandMeter(counters={CPU0: 0})
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(meters=[dead, model])
    for _ in range(3):
        model.add(CPU0, 7 * WATT)
        world.step()
    before = totals(world).node_uj.get(Component.CPU, 0)
    dead.broken = "stuck"

    for _ in range(2):
        model.add(CPU0, 7 * WATT)
        world.step()

    assert before == 0
    assert totals(world).node_uj[Component.CPU] == 14 * WATT
    assert totals(world).sources["powercap"].reason == "stuck"


def test_a_source_that_once_worked_is_never_exchanged() -> None:
    measured = HandMeter(counters={CPU0: 0})
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(meters=[measured, model])
    for _ in range(2):
        measured.add(CPU0, 50 * WATT)
        model.add(CPU0, 7 * WATT)
        world.step()
    measured.broken = "permission"

    for _ in range(2):
        model.add(CPU0, 7 * WATT)
        world.step()

    assert totals(world).node_uj == {Component.CPU: 50 * WATT}


def test_a_meter_read_late_in_its_step_is_judged_by_when_it_was_read() -> None:
    """300 W; the second reading comes 0.9 s into its step, so it holds 570 J: no more than 1.9 s can bring."""
    meter = HandMeter(counters={CPU0: 0}, p_max_watts=500)
    bank = MeterBank([meter], {}, SECOND)
    bank.read(0, suspended=False, read_clock_ns=lambda: 0)
    meter.add(CPU0, 570 * WATT)
    (late,) = bank.read(SECOND, suspended=False, read_clock_ns=lambda: 19 * SECOND // 10)
    meter.add(CPU0, 30 * WATT)
    (next_one,) = bank.read(2 * SECOND, suspended=False, read_clock_ns=lambda: 2 * SECOND)

    assert (late.step.energy_uj, late.step.span_ns, late.step.gaps) == (570 * WATT, SECOND, ())
    assert next_one.step.energy_uj == 30 * WATT


def test_sleep_is_a_gap_and_no_energy() -> None:
    world = make_world(idle_watts={CPU0: 10})
    world.step()
    world.meters[0].add(CPU0, 10 * WATT)
    world.step()

    world.clock.boottime += 3600 * SECOND
    world.meters[0].counters[CPU0] = 77
    world.step()
    world.meters[0].add(CPU0, 10 * WATT)
    world.step()

    seen = totals(world)
    assert seen.node_uj == {Component.CPU: 20 * WATT}
    assert seen.sources["powercap"].gaps == {"suspend": 1}


def test_a_clock_step_changes_times_and_never_energy() -> None:
    world = make_world(idle_watts={CPU0: 10}, slot_seconds=60)
    world.step()
    start_ns = world.clock.utc
    world.meters[0].add(CPU0, 10 * WATT)
    world.clock.utc += 3600 * SECOND
    world.clock.advance(SECOND)

    slot = world.sampler.step().slot

    assert slot is not None
    assert slot.flags == {Flag.CLOCK}
    assert (slot.start_ns, slot.end_ns, slot.monotonic_ns) == (start_ns, start_ns + SECOND, SECOND)
    assert slot.controls[0].energy_uj == 10 * WATT
    assert last_slot(world).start_ns == world.clock.utc - SECOND


def test_a_journal_that_refuses_keeps_the_slot_open() -> None:
    world = make_world(idle_watts={CPU0: 10}, slot_seconds=1)
    world.step()
    world.sink.refuse = "full"
    for _ in range(5):
        world.meters[0].add(CPU0, 10 * WATT)
        world.step()
    assert world.sink.slots == []

    world.sink.refuse = ""
    slot = last_slot(world)

    assert slot.monotonic_ns == 6 * SECOND
    assert slot.controls[0].energy_uj == 50 * WATT


def test_a_slow_meter_is_split_over_all_steps_since_its_last_reading() -> None:
    world = make_world(idle_watts={CPU0: 10})
    first = world.units.start("first", milli_cpus=1000)
    world.step()

    world.units.use(first, SECOND)
    world.busy(0, SECOND)
    world.step()
    second = world.units.start("second", milli_cpus=1000)
    world.step()
    world.units.use(second, 3 * SECOND)
    for cpu in range(3):
        world.busy(cpu, SECOND)
    world.meters[0].add(CPU0, 70 * WATT)
    world.step()

    # 3 s: idle 30 J of 12 CPU-seconds, held 3 + 2; dynamic 40 J over 1 + 3 busy seconds
    assert energy_uj(world, first) == (10 * WATT, 7_500_000)
    assert energy_uj(world, second) == (30 * WATT, 5_000_000)
    control = last_slot(world).controls[0]
    assert control.span_ns == 3 * SECOND


def test_other_is_what_the_platform_drew_beside_its_components() -> None:
    platform = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=frozenset({Component.CPU, Component.DRAM}))
    cpu = HandMeter(counters={CPU0: 0})
    world = make_world(idle_watts={CPU0: 10, PLATFORM: 30}, meters=[cpu, platform])
    job = world.units.start("job", milli_cpus=2000)
    world.step()

    world.units.use(job, SECOND)
    world.busy(0, 2 * SECOND)
    cpu.add(CPU0, 50 * WATT)
    platform.add(PLATFORM, 120 * WATT)
    world.step()

    # other = 70 J: idle 30 J (half of the CPUs held), dynamic 40 J half to the job, half to the system
    assert energy_uj(world, job) == (20 * WATT, 5 * WATT)
    assert energy_uj(world, job, Component.OTHER) == (20 * WATT, 15 * WATT)
    assert totals(world).node_uj == {Component.CPU: 50 * WATT, Component.OTHER: 70 * WATT}
    assert residuals(last_slot(world)) == {}


def test_modelled_components_are_scaled_into_the_platform_meter() -> None:
    platform = HandMeter("bmc", Method.COUNTER, counters={PLATFORM: 0}, covers=frozenset({Component.CPU}))
    model = HandMeter("model", Method.MODELLED, counters={CPU0: 0}, range_uj=None)
    world = make_world(idle_watts={CPU0: 20, PLATFORM: 30}, meters=[model, platform])
    world.step()

    model.add(CPU0, 80 * WATT)
    platform.add(PLATFORM, 40 * WATT)
    world.step()

    assert totals(world).node_uj == {Component.CPU: 40 * WATT, Component.OTHER: 0}
    assert residuals(last_slot(world)) == {}


def test_a_pinned_holding_above_capacity_is_flagged() -> None:
    world = make_world(idle_watts={CPU0: 12})
    keys = [world.units.start(name, milli_cpus=4000) for name in ("a", "b", "c")]
    world.step()

    world.meters[0].add(CPU0, 12 * WATT)
    world.step()

    assert [energy_uj(world, key)[1] for key in keys] == [4 * WATT] * 3
    slot = last_slot(world)
    assert Flag.OVERCOMMITTED in slot.flags
    assert Flag.OVERCOMMITTED in entry_of(slot, keys[0]).flags


def test_memory_is_integrated_over_time() -> None:
    world = make_world()
    job = world.units.start("job", memory_bytes=1000)
    world.units.details[job] = UnitDetail(memory_current_bytes=100, memory_peak_bytes=400, io_read_bytes=7)
    world.step()

    world.units.details[job] = UnitDetail(memory_current_bytes=300, memory_peak_bytes=500, io_read_bytes=19)
    world.step(3 * SECOND)
    found = entry_of(last_slot(world), job).figures

    # 1 s at 100 before the first reading, then 4 s from 100 to 300 in a straight line
    assert found.memory_byte_seconds == 100 + 4 * 200
    assert (found.memory_peak_bytes, found.io_read_bytes) == (500, 19)
    assert found.memory_allocated_byte_seconds == 4 * 1000
    assert found.io_write_bytes is None


def test_an_ended_unit_stays_in_sight_for_five_minutes() -> None:
    world = make_world(slot_seconds=10)
    job = world.units.start("job")
    world.step()
    world.units.end(job)
    world.step()

    for _ in range(29):
        world.step(10 * SECOND)
    assert [unit.key for unit in totals(world).units] == [job]
    for _ in range(3):
        world.step(10 * SECOND)

    assert totals(world).units == ()


def test_energy_that_nobody_was_given_shows_as_residual() -> None:
    world = make_world(idle_watts={CPU0: 10}, slot_seconds=1000)
    world.step()
    world.meters[0].add(CPU0, 10 * WATT)
    world.step()
    assert totals(world).residual_uj == 0

    world.sampler.accounts.unallocated.sums.energy_uj[1] -= 3

    assert totals(world).residual_uj == 3
    world.clock.advance(SECOND)
    result = world.sampler.finish()
    assert result.slot is not None
    assert result.unbalanced_uj == {Component.CPU: 3}
    assert (totals(world).residual_uj, world.sampler.unbalanced_slots) == (3, 1)


def test_slots_end_at_the_step_nearest_to_their_time() -> None:
    world = make_world(slot_seconds=10)
    world.step()
    for jitter_ns in [-700_000, 900_000, -100, 100_000, 0] * 6:
        world.step(SECOND + jitter_ns)

    assert [round(slot.monotonic_ns / SECOND) for slot in world.sink.slots] == [10, 10, 10]
