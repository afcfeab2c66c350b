"""GPUs in the sampler: whoever holds one pays for it, and the sum is the device, to the microjoule."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hand_gpus import HandGpus
from tests.sampling_world import GIB, SECOND, WATT, World, make_world, unit_key

from kwhere.core.terms import Component, DomainKind, EntryKind, Flag, IdlePolicy, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import GpuProcess, Readings
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.discovery.gpu_claims import ClaimSource, GpuClaim
from kwhere.ledger.closure import residuals
from kwhere.ledger.gpu_uses import GpuUse
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.meters.meter import Domain
from kwhere.sampling.gpu_book import GpuBook
from kwhere.sampling.gpu_shown import UnitGpu
from kwhere.sampling.saved import SavedState
from kwhere.sampling.snapshot import build_totals
from kwhere.sampling.totals import StepCounts, Totals

GPU0 = Domain(DomainKind.GPU, "GPU-0")
A, B = unit_key("a"), unit_key("b")
DYNAMIC, IDLE = (Component.GPU, Part.DYNAMIC), (Component.GPU, Part.IDLE)


@dataclass
class HandHolders:
    """Claims and owners of processes that a test sets by hand."""

    held: list[GpuClaim] = field(default_factory=list)
    owners: dict[int, UnitKey] = field(default_factory=dict)

    def claims(self) -> Sequence[GpuClaim]:
        return list(self.held)

    def owner_of(self, pid: int) -> UnitKey | None:
        return self.owners.get(pid)


@dataclass
class GpuWorld:
    """A node with GPUs, of which each idles at 100 W, and units a and b."""

    world: World
    gpus: HandGpus
    holders: HandHolders
    joules: dict[str, float] = field(default_factory=dict)

    def step(self, watts: float, uuid: str = "GPU-0", **more: object) -> None:
        """Let a second pass in which the device draws `watts`."""
        self.world.clock.advance(SECOND)
        self.joules[uuid] = self.joules.get(uuid, 0.0) + watts
        self.gpus.read(uuid, watts=watts, joules=self.joules[uuid], **more)  # type: ignore[arg-type]
        self.world.sampler.step()

    def totals(self) -> Totals:
        return build_totals(self.world.sampler, StepCounts())

    def energy(self, key: UnitKey) -> tuple[int, int]:
        """Return a unit's dynamic and idle GPU energy in joules."""
        row = next(unit.energy_uj for unit in self.totals().units if unit.key == key)
        return row[DYNAMIC] // WATT, row[IDLE] // WATT

    def others(self) -> tuple[int, int]:
        """Return dynamic energy of `system` and unallocated idle energy in joules."""
        seen = self.totals()
        return seen.system_uj[DYNAMIC] // WATT, seen.unallocated_uj[IDLE] // WATT

    def unit_gpus(self, key: UnitKey) -> tuple[UnitGpu, ...]:
        return next(unit.gpus for unit in self.totals().units if unit.key == key)


def make(
    *claims: GpuClaim,
    slices: int = 1,
    instances: Sequence[tuple[str, int]] = (),
    policy: IdlePolicy = IdlePolicy.ALLOCATION,
) -> GpuWorld:
    holders = HandHolders(list(claims), {1: A, 2: B})
    world = make_world(meters=[], idle_watts={GPU0: 100}, policy=policy)
    gpus = HandGpus(world.clock)
    gpus.add("GPU-0", slices=slices, instances=instances)
    world.meters.append(GpuMeter("nvml", gpus))  # type: ignore[arg-type]
    world.gpus = GpuBook([gpus], holders)
    world.sampler = world.new_sampler()
    for name in ("a", "b"):
        world.units.start(name)
    made = GpuWorld(world, gpus, holders)
    made.step(0)
    return made


def claim(unit: UnitKey, **more: object) -> GpuClaim:
    return GpuClaim(unit, "GPU-0", **more)  # type: ignore[arg-type]


def shared(unit: UnitKey, share: int, **more: object) -> GpuClaim:
    return claim(unit, share=share, exclusive=False, **more)


def test_the_holder_has_it_all_also_what_it_draws_idle_case_gpu_61() -> None:
    node = make(claim(A))

    node.step(300)
    node.step(60)

    assert node.energy(A) == (200, 160)
    assert node.energy(B) == (0, 0)
    assert node.others() == (0, 0)


def test_nobody_holds_it() -> None:
    node = make()

    node.step(300)

    assert node.others() == (200, 100)


def test_a_claim_of_a_unit_that_is_gone_is_nobodys() -> None:
    node = make(claim(unit_key("gone")))

    node.step(300)

    assert node.others() == (200, 100)


def test_two_exclusive_claims_are_the_live_ones() -> None:
    node = make(claim(A, live=False), claim(B))

    node.step(300)

    assert (node.energy(A), node.energy(B)) == ((0, 0), (200, 100))


def test_a_shared_gpu_goes_by_what_each_used_and_holds_case_gpu_44_case_energy_a8() -> None:
    node = make(shared(A, 250), shared(B, 500))
    node.gpus.run("GPU-0", GpuProcess(1, sm_percent=60), GpuProcess(2, sm_percent=20))

    node.step(300)

    assert (node.energy(A), node.energy(B)) == ((150, 25), (50, 50))
    assert node.others() == (0, 25)


def test_a_stranger_on_a_shared_gpu_is_the_systems() -> None:
    node = make(shared(A, 500))
    node.gpus.run("GPU-0", GpuProcess(1, sm_percent=30), GpuProcess(99, sm_percent=10))

    node.step(300)

    assert (node.energy(A), node.others()) == ((150, 50), (50, 50))


def test_replicas_of_one_unit_are_one_hold_case_gpu_41() -> None:
    node = make(shared(A, 250), shared(A, 250))

    node.step(100)

    assert (node.energy(A), node.others()) == ((0, 50), (0, 50))
    assert [one.share_ratio for one in node.unit_gpus(A)] == [0.5]


def test_a_divided_gpu_goes_by_slices_and_activity_case_gpu_29_case_energy_a8() -> None:
    node = make(
        claim(A, instance="MIG-3"), claim(B, instance="MIG-1"), slices=7, instances=[("MIG-3", 3), ("MIG-1", 1)]
    )
    node.gpus.activity("GPU-0", "MIG-3", 0.5)
    node.gpus.activity("GPU-0", "MIG-1", 1.0)

    node.step(350)

    assert (node.energy(A), node.energy(B)) == ((150, 42), (100, 14))
    assert node.others() == (0, 42)


def test_an_instance_whose_activity_nobody_tells_counts_while_it_has_a_process() -> None:
    node = make(
        claim(A, instance="MIG-3"), claim(B, instance="MIG-1"), slices=7, instances=[("MIG-3", 3), ("MIG-1", 1)]
    )
    node.gpus.run("GPU-0", GpuProcess(2, gpu_instance=2, compute_instance=0))

    node.step(300)

    assert (node.energy(A)[0], node.energy(B)[0]) == (0, 200)


def marked(node: GpuWorld) -> set[UnitKey | None]:
    """Return who bears the mark in the ledger."""
    node.world.sampler.finish()
    return {entry.key for slot in node.world.sink.slots for entry in slot.entries if Flag.SLICES in entry.flags}


def test_who_was_charged_by_slices_is_marked_so() -> None:
    node = make(claim(A, instance="MIG-3"), slices=7, instances=[("MIG-3", 3), ("MIG-1", 1)])

    node.step(300)

    assert marked(node) == {A}


def test_who_was_charged_by_activity_bears_no_mark() -> None:
    node = make(claim(A, instance="MIG-3"), slices=7, instances=[("MIG-3", 3), ("MIG-1", 1)])
    node.gpus.activity("GPU-0", "MIG-3", 0.5)

    node.step(300)

    assert marked(node) == set()


def test_activity_that_comes_with_the_next_reading_marks_nobody() -> None:
    node = make(claim(A, instance="MIG-3"), slices=7, instances=[("MIG-3", 3)])
    state = node.gpus.states["GPU-0"]
    soon = replace(state.instances[0], readings=Readings(1, {}, {GpuField.PROF_GRAPHICS_RATIO: Absence.NO_DATA}))
    node.gpus.states["GPU-0"] = replace(state, instances=(soon,))

    node.step(300)

    assert marked(node) == set()


def test_an_instance_that_two_share_is_shared_like_a_device() -> None:
    node = make(shared(A, 500, instance="MIG-3"), shared(B, 250, instance="MIG-3"), slices=7, instances=[("MIG-3", 3)])

    node.step(500)

    assert (node.energy(A)[0], node.energy(B)[0]) == (266, 133)  # 400 J, two to one
    assert (node.energy(A)[1], node.energy(B)[1]) == (21, 10)  # a half and a quarter of 3/7 of 100 J


def test_who_holds_the_whole_of_a_divided_gpu_holds_its_instances() -> None:
    node = make(claim(A), slices=7, instances=[("MIG-3", 3), ("MIG-4", 4)])

    node.step(300)

    assert node.energy(A) == (200, 100)


def test_idle_energy_follows_the_sites_policy() -> None:
    node = make(claim(A), policy=IdlePolicy.NONE)

    node.step(300)

    assert (node.energy(A), node.others()) == ((200, 0), (0, 100))


def test_who_held_it_while_the_meter_was_silent_pays_for_that_time() -> None:
    node = make(claim(A))
    for _ in range(3):
        node.world.step()  # the device is not read
    node.holders.held = [claim(B)]
    node.world.step()

    node.step(100 * 5)

    assert (node.energy(A)[1], node.energy(B)[1]) == (300, 200)


def test_the_ledger_says_what_was_held_and_used() -> None:
    node = make(claim(A), shared(B, 500))
    node.gpus.run("GPU-0", GpuProcess(1, memory_bytes=GIB))
    node.holders.held = [claim(A)]
    for _ in range(4):
        node.step(200, more={GpuField.GPU_UTIL_PERCENT: 75, GpuField.MEMORY_USED_BYTES: 2 * GIB})
    node.world.sampler.finish()

    entry = next(entry for entry in node.world.sink.slots[-1].entries if entry.key == A)
    other = next(entry for entry in node.world.sink.slots[-1].entries if entry.key == B)

    assert entry.figures.gpu_busy_ns == 3 * SECOND
    assert entry.figures.gpu_memory_byte_seconds == 8 * GIB
    assert other.figures.gpu_busy_ns is None


def test_a_gpu_that_is_held_and_idle_says_since_when_case_gpu_61() -> None:
    node = make(claim(A, source=ClaimSource.PROLOG))
    began_ns = node.world.clock.monotonic
    for _ in range(3):
        node.step(50, more={GpuField.GPU_UTIL_PERCENT: 0})
    (idle,) = node.unit_gpus(A)
    node.gpus.run("GPU-0", GpuProcess(1))
    node.step(300, more={GpuField.GPU_UTIL_PERCENT: 90})

    (busy,) = node.unit_gpus(A)

    assert (idle.held_idle_ns, idle.source) == (idle.held_ns, ClaimSource.PROLOG)
    assert idle.idle_since_ns is not None
    assert idle.idle_since_ns <= began_ns + SECOND
    assert (busy.held_ns, busy.idle_since_ns) == (idle.held_ns + SECOND, None)
    assert busy.held_idle_ns == idle.held_idle_ns


def ledger_gpus(node: GpuWorld, key: UnitKey) -> tuple[GpuUse, ...]:
    node.world.sampler.finish()
    return next(entry.gpus for entry in node.world.sink.slots[-1].entries if entry.key == key)


def test_the_ledger_says_which_gpu_was_held_idle_and_what_that_cost_case_gpu_61() -> None:
    node = make(claim(A, source=ClaimSource.PROLOG))
    for _ in range(3):
        node.step(100, more={GpuField.GPU_UTIL_PERCENT: 0})
    node.gpus.run("GPU-0", GpuProcess(1, memory_bytes=GIB))
    for _ in range(2):
        node.step(300, more={GpuField.GPU_UTIL_PERCENT: 50, GpuField.MEMORY_TOTAL_BYTES: 80 * GIB})

    (gpu,) = ledger_gpus(node, A)
    figures = next(entry.figures for entry in node.world.sink.slots[-1].entries if entry.key == A)

    assert (gpu.device, gpu.model, gpu.source, gpu.memory_total_bytes) == ("GPU-0", "A100", "prolog", 80 * GIB)
    assert (gpu.held_ns, gpu.allocated_ns, gpu.place_ns, gpu.unknown_ns) == (5 * SECOND, 5 * SECOND, 5 * SECOND, 0)
    assert (gpu.busy_ns, gpu.held_idle_ns, gpu.idle_since_ns) == (SECOND, 3 * SECOND, None)
    assert (gpu.memory_peak_bytes, figures.gpu_memory_peak_bytes) == (GIB, GIB)
    assert (gpu.energy_uj, gpu.held_idle_uj) == (900 * WATT, 300 * WATT)
    assert (figures.gpu_held_idle_ns, figures.gpu_held_idle_uj, figures.gpu_unknown_ns) == (
        3 * SECOND,
        300 * WATT,
        None,
    )


def test_a_gpu_that_still_idles_says_since_when_by_the_wall_clock() -> None:
    node = make(claim(A))
    since_ns = node.world.clock.utc
    for _ in range(4):
        node.step(100, more={GpuField.GPU_UTIL_PERCENT: 0})

    (gpu,) = ledger_gpus(node, A)

    assert gpu.idle_since_ns == since_ns


def restart(node: GpuWorld, away_seconds: int = 5) -> None:
    """Let the agent end and, some time later, another process of it go on."""
    node.world.sampler.finish()
    text = node.world.sampler.saved(node.world.clock.utc).to_json()
    node.world.clock.advance(away_seconds * SECOND)
    node.world.gpus = GpuBook([node.gpus], node.holders)
    node.world.sampler = node.world.new_sampler()
    assert node.world.sampler.restore(SavedState.from_json(text))


def idle_since(node: GpuWorld) -> int | None:
    (gpu,) = node.unit_gpus(A)
    return gpu.idle_since_ns


def test_who_idles_before_and_after_a_restart_has_idled_all_the_while() -> None:
    node = make(claim(A))
    node.step(100)
    since_ns = idle_since(node)
    assert since_ns is not None

    restart(node)
    node.step(100)
    restart(node)  # and once more
    node.step(100)

    assert idle_since(node) == since_ns


def test_who_worked_in_between_idles_from_then_on() -> None:
    node = make(claim(A))
    node.step(100)
    restart(node)
    node.gpus.run("GPU-0", GpuProcess(1))
    node.step(300)
    node.gpus.run("GPU-0")

    node.step(100)

    assert idle_since(node) == node.world.clock.monotonic


def test_after_a_long_absence_of_the_agent_idleness_begins_anew() -> None:
    node = make(claim(A))
    node.step(100)
    restart(node, away_seconds=3600)

    node.step(100)

    assert idle_since(node) == node.world.clock.monotonic


def test_work_of_processes_that_are_nobodys_makes_no_holder_idle() -> None:
    """Time slicing seen from a container: the processes' numbers say nothing here."""
    node = make(shared(A, 500), shared(B, 500))
    node.gpus.run("GPU-0", GpuProcess(7, sm_percent=40), GpuProcess(8, sm_percent=38))
    for _ in range(2):
        node.step(300, more={GpuField.GPU_UTIL_PERCENT: 78})

    (gpu,) = ledger_gpus(node, A)

    assert (gpu.held_idle_ns, gpu.idle_since_ns, gpu.unknown_ns) == (None, None, SECOND)


def test_an_instance_at_work_is_not_idle_though_no_process_is_listed() -> None:
    node = make(claim(A, instance="MIG-3"), slices=7, instances=[("MIG-3", 3)])
    node.gpus.activity("GPU-0", "MIG-3", 0.8)
    node.step(300)
    node.step(300)

    (gpu,) = ledger_gpus(node, A)

    assert (gpu.idle_since_ns, gpu.busy_ns) == (None, round(SECOND * 0.8 * 3 / 7) * 2)


def test_instances_of_one_unit_share_its_devices_energy_by_slices() -> None:
    node = make(
        claim(A, instance="MIG-4"), claim(A, instance="MIG-2"), slices=7, instances=[("MIG-4", 4), ("MIG-2", 2)]
    )
    node.step(70)
    node.step(70)

    two, four = ledger_gpus(node, A)

    assert (two.instance, two.profile, two.place_ns) == ("MIG-2", "2g", 2 * SECOND)
    assert (four.energy_uj or 0) == 2 * (two.energy_uj or 0) > 0
    assert two.allocated_ns == round(SECOND * 2 / 7) * 2


def test_a_gpu_that_is_lost_while_held_is_neither_idle_nor_busy() -> None:
    node = make(claim(A))
    node.step(100, more={GpuField.GPU_UTIL_PERCENT: 0})
    node.gpus.states["GPU-0"] = replace(node.gpus.states["GPU-0"], up=False, readings=None, processes=None)
    node.world.step()

    (gpu,) = ledger_gpus(node, A)

    assert (gpu.held_ns, gpu.unknown_ns, gpu.held_idle_ns) == (2 * SECOND, SECOND, SECOND)


def test_what_is_not_held_any_more_stays_with_its_sums() -> None:
    node = make(claim(A))
    node.step(100)
    node.holders.held = []
    node.step(100)

    (seen,) = node.unit_gpus(A)

    assert (seen.share_ratio, seen.held_ns) == (0.0, SECOND)


def test_an_old_gpu_beside_a_new_one_says_how_most_is_known() -> None:
    node = make()
    node.gpus.add("GPU-1", joules=None)
    for _ in range(3):
        node.gpus.read("GPU-1", joules=None, watts=300)
        node.step(100)

    assert node.totals().methods[Component.GPU][0] is Method.INTEGRATED


def test_processes_that_run_make_no_quiet_hour() -> None:
    node = make(claim(A))
    node.gpus.run("GPU-0", GpuProcess(1))
    node.step(60)
    book = node.world.gpus
    assert book is not None

    node.world.step()

    seen = book.peek("GPU-0")
    assert seen is not None
    assert seen.utilisation == 1.0


PLACES = ["GPU-0", "GPU-1", "MIG-3", "MIG-2"]
CLAIMS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "gone"]),
        st.sampled_from(PLACES),
        st.integers(0, 1200),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)
PROCESSES = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([None, 0, 35, 100]), st.sampled_from([None, 1, 2])), max_size=5
)
STEPS = st.lists(
    st.tuples(
        CLAIMS, PROCESSES, st.integers(0, 500), st.integers(0, 500), st.sampled_from(["", "a", "b", "c", "lose"])
    ),
    min_size=1,
    max_size=12,
)


def _claims(drawn: Sequence[tuple[str, str, int, bool, bool]]) -> list[GpuClaim]:
    return [
        GpuClaim(
            unit_key(name),
            place if place.startswith("GPU") else "GPU-1",
            "" if place.startswith("GPU") else place,
            share,
            exclusive,
            live,
        )
        for name, place, share, exclusive, live in drawn
    ]


@settings(max_examples=60)
@given(STEPS, st.sampled_from(list(IdlePolicy)))
def test_units_and_system_and_unallocated_are_the_devices(
    steps: list[tuple[list[tuple[str, str, int, bool, bool]], list[tuple[int, int | None, int | None]], int, int, str]],
    policy: IdlePolicy,
) -> None:
    node = make(policy=policy)
    node.gpus.add("GPU-1", slices=7, instances=[("MIG-3", 3), ("MIG-2", 2)])
    live = {"a": A, "b": B}
    for drawn, running, watts, others, event in steps:
        node.holders.held = _claims(drawn)
        for uuid in ("GPU-0", "GPU-1"):
            node.gpus.run(
                uuid,
                *(GpuProcess(pid, sm_percent=sm, gpu_instance=gi, compute_instance=0) for pid, sm, gi in running),
            )
        node.gpus.activity("GPU-1", "MIG-3", None if others % 3 else others / 500)
        if event == "lose":
            node.gpus.lose("GPU-1")
        elif event in live:
            node.world.units.end(live.pop(event))
        elif event:
            live[event] = node.world.units.start(event, from_creation=True)
        if event != "lose":
            node.joules["GPU-1"] = node.joules.get("GPU-1", 0.0) + others
            node.gpus.read("GPU-1", watts=others, joules=node.joules["GPU-1"])
        node.step(watts)
    node.world.sampler.finish()

    slots = node.world.sink.slots
    metered = node.world.sampler.parts.bank.totals_uj
    booked = sum(
        entry.figures.energy_uj.get(column, 0) for slot in slots for entry in slot.entries for column in (DYNAMIC, IDLE)
    )
    assert all(residuals(slot) == {} for slot in slots)
    assert booked == sum(metered.values())
    assert all(value >= 0 for slot in slots for entry in slot.entries for value in entry.figures.energy_uj.values())
    assert {entry.kind for slot in slots for entry in slot.entries} <= set(EntryKind)
    for entry in (entry for slot in slots for entry in slot.entries):
        energy_uj = sum(entry.figures.energy_uj.get(column, 0) for column in (DYNAMIC, IDLE))
        assert sum(gpu.energy_uj or 0 for gpu in entry.gpus) <= energy_uj
        assert all((gpu.held_idle_uj or 0) <= (gpu.energy_uj or 0) for gpu in entry.gpus)
        assert sum(gpu.held_idle_uj or 0 for gpu in entry.gpus) == (entry.figures.gpu_held_idle_uj or 0)


def busy(percent: int) -> dict[GpuField, int]:
    return {GpuField.GPU_UTIL_PERCENT: percent}


def two_dies() -> GpuWorld:
    """Return an MI250: two GPUs, of which GPU-0 measures both."""
    node = make(claim(A))
    node.gpus.add("GPU-1", joules=None, watts=None)
    second = node.gpus.states["GPU-1"]
    node.gpus.states["GPU-1"] = replace(second, device=replace(second.device, carrier="GPU-0"))
    return node


def test_the_other_die_of_a_package_pays_its_part_of_what_one_measures_case_gpu_18() -> None:
    node = two_dies()
    node.holders.held.append(GpuClaim(B, "GPU-1"))
    node.gpus.read("GPU-1", joules=None, watts=None, more=busy(80))
    for _ in range(10):
        node.step(500, more=busy(80))

    (a_dynamic, a_idle), (b_dynamic, b_idle) = node.energy(A), node.energy(B)
    assert (a_dynamic, a_idle) == (b_dynamic, b_idle)
    assert a_dynamic + a_idle + b_dynamic + b_idle in range(4999, 5001)  # the package once: 500 W for 10 s
    assert node.others() == (0, 0)


def test_a_die_that_nobody_holds_leaves_dynamic_energy_to_the_other_case_gpu_18() -> None:
    node = two_dies()
    node.gpus.read("GPU-1", joules=None, watts=None, more=busy(0))
    for _ in range(10):
        node.step(500, more=busy(80))

    dynamic, idle = node.energy(A)
    assert dynamic == 4000
    assert idle == 500  # half of the package's 1000 J; the other half is nobody's
    assert node.others() == (0, 500)
