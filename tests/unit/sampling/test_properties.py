"""What holds for every history: books that close, nothing below zero, nothing lost by a kill."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling_world import SECOND, WATT, HandMeter, World, make_world

from kwhere.core.terms import Component, DomainKind, EntryKind, IdlePolicy, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.ledger.closure import residuals
from kwhere.ledger.rows import Figures
from kwhere.meters.meter import PLATFORM, Domain
from kwhere.sampling.saved import SavedState
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts

TICK = 10_000_000
CPU0, CPU1 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.CPU, "1")
DRAM0 = Domain(DomainKind.DRAM, "0")
COVERS = frozenset({Component.CPU, Component.DRAM})


@dataclass
class Truth:
    """What really happened, kept by the test."""

    busy_ns: int = 0
    energy_uj: dict[Domain, int] = field(default_factory=dict)
    used_ns: dict[UnitKey, int] = field(default_factory=dict)
    names: int = 0


Op = tuple[str, int, int]
OPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "use", "use", "system", "energy", "step", "step", "finish", "kill", "nest"]),
        st.integers(0, 7),
        st.integers(1, 90),
    ),
    max_size=60,
)


def a_world() -> World:
    cpus = HandMeter(counters={CPU0: 262_143_000_000, CPU1: 5, DRAM0: 7})
    return make_world(sockets=(0, 0, 1, 1), meters=[cpus], idle_watts={CPU0: 7, CPU1: 9, DRAM0: 2}, slot_seconds=7)


def do(world: World, truth: Truth, op: Op) -> None:
    what, which, amount = op
    live = sorted(world.units.units)
    if what in ("start", "nest"):
        truth.names += 1
        outer = live[which % len(live)] if what == "nest" and live else None
        cgroup = f"{world.units.units[outer].cgroup}/in{truth.names}" if outer else None
        cpuset = frozenset({which % 4}) if which > 3 else None
        allocation = amount * 50 if which % 2 else None
        key = world.units.start(f"{truth.names:03}", milli_cpus=allocation, cpuset=cpuset, outer=outer, cgroup=cgroup)
        truth.used_ns[key] = 0
    elif what == "end" and live:
        key = live[which % len(live)]
        path = world.units.units[key].cgroup or ""
        for other in [other for other in live if (world.units.units[other].cgroup or "").startswith(f"{path}/")]:
            world.units.end(other)
        world.units.end(key)
    elif what == "use" and live:
        key = live[which % len(live)]
        use(world, truth, key, which % 4, amount * TICK)
    elif what == "system":
        world.busy(which % 4, amount * TICK)
        truth.busy_ns += amount * TICK
    elif what == "energy":
        domain = (CPU0, CPU1, DRAM0)[which % 3]
        world.meters[0].add(domain, amount * 1_000_003)
        truth.energy_uj[domain] = truth.energy_uj.get(domain, 0) + amount * 1_000_003
    elif what == "step":
        world.step(SECOND + which * 1_000_000)
    elif what == "finish":
        world.clock.advance(SECOND)
        world.sampler.finish()
    elif what == "kill":
        kill(world)


def use(world: World, truth: Truth, key: UnitKey, cpu: int, cpu_ns: int) -> None:
    world.units.use(key, cpu_ns)
    world.busy(cpu, cpu_ns)
    truth.busy_ns += cpu_ns
    truth.used_ns[key] += cpu_ns


def kill(world: World) -> None:
    """Start the process anew with what the journal holds; events of the meantime are lost."""
    world.units.started, world.units.ended = [], []
    world.sampler = world.new_sampler()
    state = world.sink.last_state()
    assert state is not None
    assert world.sampler.restore(SavedState.from_json(state))


def finish(world: World) -> None:
    world.clock.advance(SECOND)
    for meter in world.meters:
        for domain in meter.counters:
            meter.add(domain, 1)  # a counter speaks by moving
    world.sampler.step()
    world.clock.advance(SECOND)
    world.sampler.finish()


def cpu_of(figures: Figures) -> int:
    return (figures.cpu_user_ns or 0) + (figures.cpu_system_ns or 0)


def numbers(figures: Figures) -> list[int]:
    found = [figures.cpu_user_ns, figures.cpu_system_ns, figures.cpu_allocated_ns, *figures.energy_uj.values()]
    return [number for number in found if number is not None]


@settings(max_examples=150, deadline=None)
@given(OPS)
def test_every_history_balances_and_loses_nothing(ops: list[Op]) -> None:
    world, truth = a_world(), Truth()
    world.step()
    finish(world)
    begun = len(world.sink.slots)

    for op in ops:
        do(world, truth, op)
    finish(world)

    slots = world.sink.slots[begun:]
    assert all(residuals(slot) == {} for slot in world.sink.slots)
    assert all(min(numbers(entry.figures), default=0) >= 0 for slot in slots for entry in slot.entries)
    assert sum(control.energy_uj for slot in slots for control in slot.controls) == sum(truth.energy_uj.values()) + 3
    cpu_ns = sum(
        (entry.figures.cpu_user_ns or 0) + (entry.figures.cpu_system_ns or 0)
        for slot in slots
        for entry in slot.entries
    )
    assert cpu_ns + sum(world.sampler.parts.weigher.carry_ns) == truth.busy_ns
    assert sum(slot.node_busy_ns or 0 for slot in slots) == truth.busy_ns
    assert contiguous(world)


def control_uj(world: World, component: Component) -> int:
    return sum(c.energy_uj for slot in world.sink.slots for c in slot.controls if c.component is component)


def contiguous(world: World) -> bool:
    slots = world.sink.slots
    return all(one.end_ns == two.start_ns for one, two in pairwise(slots))


@settings(max_examples=100, deadline=None)
@given(OPS)
def test_a_unit_that_lives_gets_exactly_what_it_used(ops: list[Op]) -> None:
    world, truth = a_world(), Truth()
    world.step()
    finish(world)

    for what, which, amount in ops:
        if what not in ("end", "nest"):  # and amounts so small that no first step is capped
            do(world, truth, (what, which, 1 + amount % 6))
    finish(world)

    for key in world.units.units:
        rows = [entry for slot in world.sink.slots for entry in slot.entries if entry.key == key]
        assert sum(cpu_of(row.figures) for row in rows) == truth.used_ns[key]


@settings(max_examples=60, deadline=None)
@given(OPS, st.integers(0, 59))
def test_scrapes_change_nothing(ops: list[Op], which: int) -> None:
    quiet, watched = a_world(), a_world()
    for world in (quiet, watched):
        truth = Truth()
        world.step()
        finish(world)
        for position, op in enumerate(ops):
            if world is watched and position >= which:
                build_totals(world.sampler, StepCounts())
            do(world, truth, op)
        finish(world)

    assert quiet.sink.slots == watched.sink.slots
    assert quiet.sink.states == watched.sink.states


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 100), min_size=2, max_size=12),
    st.permutations(range(12)),
    st.sampled_from(list(IdlePolicy)),
)
def test_order_of_listing_does_not_matter(uses: list[int], order: list[int], policy: IdlePolicy) -> None:
    found = []
    for places in (range(len(uses)), [place for place in order if place < len(uses)]):
        world = make_world(idle_watts={CPU0: 13}, policy=policy)
        keys = {place: world.units.start(f"u{place:02}", milli_cpus=100 * place) for place in places}
        world.step()
        for place, key in keys.items():
            world.units.use(key, uses[place] * TICK)
            world.busy(0, uses[place] * TICK)
        world.meters[0].add(CPU0, 29_999_989)
        world.clock.advance(SECOND)
        slot = world.sampler.finish().slot
        assert slot is not None
        found.append(slot)

    assert found[0].entries == found[1].entries


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100), st.booleans(), st.booleans()), max_size=30),
    st.booleans(),
)
def test_other_never_invents_energy(steps: list[tuple[int, int, bool, bool]], modelled: bool) -> None:
    method = Method.MODELLED if modelled else Method.COUNTER
    cpu = HandMeter("model" if modelled else "powercap", method, counters={CPU0: 0}, range_uj=None)
    bmc = HandMeter("hwmon_energy", counters={PLATFORM: 0}, covers=COVERS, range_uj=None)
    world = make_world(idle_watts={CPU0: 5, PLATFORM: 20}, meters=[cpu, bmc], slot_seconds=5)
    job = world.units.start("job", milli_cpus=2000)
    world.step()
    platform_uj = 0

    for platform, component, broken, fresh in steps:
        cpu.broken = "permission" if broken else ""
        cpu.add(CPU0, component * WATT)
        platform_uj += platform * WATT if fresh else 0
        bmc.add(PLATFORM, platform * WATT if fresh else 0)
        world.units.use(job, component * TICK // 2)
        world.busy(0, component * TICK)
        world.step()
    world.clock.advance(SECOND)
    world.sampler.finish()

    assert all(residuals(slot) == {} for slot in world.sink.slots)
    other_uj = control_uj(world, Component.OTHER)
    assert 0 <= other_uj <= platform_uj


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["fail", "full", "ok"]), max_size=25))
def test_failures_of_sources_and_of_the_journal_lose_nothing(weather: list[str]) -> None:
    world = a_world()
    job = world.units.start("job", milli_cpus=1000)
    world.step()
    truth = Truth(used_ns={job: 0})

    for day in weather:
        world.units.fail = day == "fail"
        world.sink.refuse = "full" if day == "full" else ""
        world.meters[0].broken = "permission" if day == "fail" else ""
        use(world, truth, job, 0, 30 * TICK)
        world.meters[0].add(CPU0, 11 * WATT)
        truth.energy_uj[CPU0] = truth.energy_uj.get(CPU0, 0) + 11 * WATT
        world.step()
    world.units.fail, world.sink.refuse, world.meters[0].broken = False, "", ""
    finish(world)

    rows = [entry for slot in world.sink.slots for entry in slot.entries if entry.key == job]
    assert sum(cpu_of(row.figures) for row in rows) == truth.used_ns[job]
    energy_uj = sum(control.energy_uj for slot in world.sink.slots for control in slot.controls)
    assert energy_uj == sum(truth.energy_uj.values()) + 3


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 100), min_size=4, max_size=20), st.integers(2, 5))
def test_node_totals_do_not_depend_on_sampling(loads: list[int], stride: int) -> None:
    totals = []
    for every in (1, stride):
        world = make_world(idle_watts={CPU0: 5})
        world.step()
        for position, load in enumerate(loads):
            world.meters[0].add(CPU0, load * WATT)
            world.clock.advance(SECOND)
            if position % every == 0:
                world.sampler.step()
        world.meters[0].add(CPU0, 1)
        world.clock.advance(SECOND)
        world.sampler.finish()
        totals.append(control_uj(world, Component.CPU))

    assert totals[0] == totals[1] == sum(loads) * WATT + 1


def test_an_idle_unit_without_allocation_gets_no_idle_energy() -> None:
    world = make_world(idle_watts={CPU0: 10})
    key = world.units.start("idle")
    world.step()
    world.meters[0].add(CPU0, 40 * WATT)
    world.clock.advance(SECOND)
    slot = world.sampler.finish().slot

    assert slot is not None
    row = next(entry for entry in slot.entries if entry.kind is EntryKind.UNIT and entry.key == key)
    assert row.figures.energy_uj == {(Component.CPU, Part.DYNAMIC): 0, (Component.CPU, Part.IDLE): 0}
