"""Energy of GPUs: by counter, by power where there is none or where it is stuck; lost, reloaded, mixed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_nvml.gpus import A100, P100, gpu
from tests.fake_nvml.node import GpuNode
from tests.fake_nvml.scenario import Scenario
from tests.hand_gpus import HandGpus
from tests.sampling_world import SECOND, WATT, HandClock, HandMeter

from kwhere.core.errors import NoData, Unavailable
from kwhere.core.terms import DomainKind, Method
from kwhere.devices.gpu import LibraryState
from kwhere.devices.gpu_fields import Absence, GpuField
from kwhere.meters.gpu_energy import GpuMeter
from kwhere.meters.meter import Domain
from kwhere.sampling.meter_bank import MeterBank, MeterStep


class GpuBench:
    """A meter bank over hand-made GPUs, stepped once a second."""

    def __init__(self, *, answered: bool = True) -> None:
        self.clock = HandClock()
        self.gpus = HandGpus(self.clock, answered=answered)
        self.meter = GpuMeter("nvml", self.gpus)
        self.bank = MeterBank([self.meter], {}, SECOND)

    def step(self) -> list[MeterStep]:
        """Read now, then let a second pass."""
        found = self.bank.read(self.clock.monotonic, suspended=False)
        self.clock.advance(SECOND)
        return found

    def total_uj(self, uuid: str = "GPU-0") -> int:
        return self.bank.totals_uj.get(("nvml", Domain(DomainKind.GPU, uuid)), 0)


def test_a_counter_is_taken_as_it_is() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=1000)
    bench.step()
    for joules in (1100, 1250, 1300):
        bench.gpus.read("GPU-0", joules=joules)
        (step,) = bench.step()

    assert bench.total_uj() == 300 * WATT
    assert step.method is Method.COUNTER


def test_the_same_reading_twice_adds_nothing_case_gpu_12() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=None, watts=100)
    for _ in range(4):  # the watch did not answer in between
        bench.step()

    assert bench.total_uj() == 0


@pytest.mark.parametrize("watts", [20, 300], ids=["idle", "busy"])
def test_a_counter_that_stands_still_is_replaced_by_power_case_energy_m8(watts: int) -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=5000, watts=watts)
    bench.step()
    for _ in range(60):
        bench.gpus.read("GPU-0", joules=5000, watts=watts)
        steps = bench.step()

    assert bench.total_uj() == 60 * watts * WATT
    assert steps[0].method is Method.INTEGRATED
    assert bench.bank.gaps["nvml"].by_cause == {}


def test_a_counter_that_stops_later_loses_nothing_case_energy_m8() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=0, watts=300)
    bench.step()
    for second in range(1, 100):
        bench.gpus.read("GPU-0", joules=min(300 * second, 6000), watts=300)
        bench.step()

    assert bench.total_uj() == 99 * 300 * WATT


def test_a_counter_that_moves_seldom_is_not_stuck() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=0, watts=100)
    bench.step()
    for second in range(1, 41):
        bench.gpus.read("GPU-0", joules=100 * (second // 5 * 5), watts=100)
        steps = bench.step()

    assert bench.total_uj() == 4000 * WATT
    assert steps[0].method is Method.COUNTER


def test_a_gpu_that_draws_nothing_may_stand_still() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=70, watts=0)
    for _ in range(30):
        bench.gpus.read("GPU-0", joules=70, watts=0)
        steps = bench.step()

    assert (bench.total_uj(), steps[0].method) == (0, Method.COUNTER)


@pytest.mark.parametrize("why", [Absence.UNSUPPORTED, Absence.OLD_DRIVER])
def test_without_a_counter_power_is_integrated_case_energy_m9(why: Absence) -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=None, watts=100)
    bench.step()
    for watts in (200, 200, 100):
        bench.gpus.read("GPU-0", joules=None, watts=watts, why=why)
        (step,) = bench.step()

    assert bench.total_uj() == (150 + 200 + 150) * WATT
    assert step.method is Method.INTEGRATED


@pytest.mark.parametrize(
    "name",
    [GpuField.POWER_AVERAGE_UW, GpuField.POWER_INSTANT_UW],
    ids=["case_ceems_496-no-momentary-power", "case_ceems_496-no-mean"],
)
def test_the_first_power_that_is_a_number_is_taken(name: GpuField) -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=None, watts=None)
    for _ in range(3):
        bench.gpus.read("GPU-0", joules=None, watts=None, more={name: 717 * WATT // 2})
        bench.step()

    assert bench.total_uj() == 717 * WATT


@pytest.mark.parametrize("after", [0, 40, 999])
def test_a_counter_that_fell_begins_anew_case_energy_m10(after: int) -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=1000)
    bench.step()
    bench.gpus.read("GPU-0", joules=after)
    bench.step()
    bench.gpus.read("GPU-0", joules=after + 50)
    bench.step()

    assert bench.total_uj() == 50 * WATT
    assert bench.bank.gaps["nvml"].by_cause == {"reset": 1}
    assert bench.bank.gaps["nvml"].duration_ns == SECOND


def test_more_than_the_board_can_draw_is_no_energy_case_gpu_20() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=1000)
    bench.step()
    bench.gpus.read("GPU-0", joules=1000 + 640)  # its limit is 400 W
    bench.step()

    assert bench.total_uj() == 0
    assert bench.bank.gaps["nvml"].by_cause == {"implausible": 1}


def test_a_limit_that_was_lowered_does_not_undo_what_was_drawn_before() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=0)
    bench.step()
    bench.gpus.read("GPU-0", joules=400, more={GpuField.POWER_LIMIT_ENFORCED_UW: 100 * WATT})
    bench.step()

    assert bench.total_uj() == 400 * WATT


def test_a_failure_that_passes_costs_nothing() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=0)
    bench.step()
    for _ in range(2):
        bench.gpus.read("GPU-0", joules=None, why=Absence.ERROR)
        bench.step()
    bench.gpus.read("GPU-0", joules=300)
    (step,) = bench.step()

    assert bench.total_uj() == 300 * WATT
    assert step.method is Method.COUNTER


def test_a_lost_gpu_takes_no_other_with_it() -> None:
    bench = GpuBench()
    for uuid in ("GPU-0", "GPU-1"):
        bench.gpus.add(uuid, joules=0)
    bench.step()
    bench.gpus.lose("GPU-0")
    bench.gpus.read("GPU-1", joules=100)
    bench.step()
    assert bench.bank.health["nvml"].up

    bench.gpus.lose("GPU-1")
    bench.step()

    assert (bench.total_uj("GPU-0"), bench.total_uj("GPU-1")) == (0, 100 * WATT)
    assert (bench.bank.health["nvml"].up, bench.bank.health["nvml"].reason) == (False, "lost")


def test_a_library_that_fails_says_why_and_goes_on_where_it_stood() -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=0)
    bench.step()
    bench.gpus.library = LibraryState(False, "reopen")
    bench.step()
    assert bench.bank.health["nvml"].reason == "reopen"

    bench.gpus.library = LibraryState(True)
    bench.gpus.read("GPU-0", joules=200)
    bench.step()

    assert bench.total_uj() == 200 * WATT


def test_before_the_library_answered_there_is_no_data_and_no_one_else_speaks() -> None:
    bench = GpuBench(answered=False)
    with pytest.raises(NoData):
        bench.meter.read(0)
    cray = HandMeter("cray", counters={Domain(DomainKind.GPU, "0"): 0})
    bank = MeterBank([bench.meter, cray], {}, SECOND)

    bank.read(bench.clock.monotonic, suspended=False)

    assert not bank.speaks("cray", DomainKind.GPU)


def test_a_library_without_a_gpu_is_absent() -> None:
    with pytest.raises(Unavailable) as caught:
        GpuBench().meter.read(0)
    assert caught.value.reason == "absent"


def test_the_vendors_speak_together_and_no_one_beside_them() -> None:
    clock = HandClock()
    uuid = {"nvml": "GPU-0", "amdsmi": "GPU-a"}
    meters = [HandMeter(source, counters={Domain(DomainKind.GPU, name): 0}) for source, name in uuid.items()]
    cray = HandMeter("cray", counters={Domain(DomainKind.GPU, "0"): 0})
    bank = MeterBank([*meters, cray], {}, SECOND)

    bank.read(clock.monotonic, suspended=False)

    assert [bank.speaks(source, DomainKind.GPU) for source in ("nvml", "amdsmi", "cray")] == [True, True, False]


@given(
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 400), st.booleans()), min_size=2, max_size=60),
    st.integers(0, 10**9),
)
def test_any_history_adds_at_most_what_the_board_can_draw(history: list[tuple[int, int, bool]], start: int) -> None:
    bench = GpuBench()
    bench.gpus.add("GPU-0", joules=start)
    joules = start
    for rise, watts, is_read in history:
        joules += rise
        if is_read:
            bench.gpus.read("GPU-0", joules=joules, watts=watts)
        for step in bench.step():
            assert step.step.energy_uj is None or step.step.energy_uj >= 0

    assert 0 <= bench.total_uj() <= len(history) * 600 * WATT + WATT


@pytest.mark.service("cc")
def test_an_old_gpu_beside_a_new_one_through_the_real_library_case_energy_m9(tmp_path: Path) -> None:
    node = GpuNode(tmp_path, Scenario([gpu(P100, 0, watts=100), gpu(A100, 1, watts=200)]))
    bank = MeterBank([GpuMeter("nvml", node.watch)], {}, SECOND)
    times_ns = []
    for second in range(2):
        readings = node.poll().devices[0].readings
        assert readings is not None
        times_ns.append(readings.time_ns)
        steps = {step.domain.index: step for step in bank.read(second * SECOND, suspended=False)}

    old, new = (steps[device.uuid] for device in node.gpus)
    node.close()
    assert (old.method, new.method) == (Method.INTEGRATED, Method.COUNTER)
    assert old.step.energy_uj == (times_ns[1] - times_ns[0]) * 100 * WATT // SECOND
    assert (new.step.energy_uj or 0) > 0


@pytest.mark.service("cc")
def test_a_driver_reload_through_the_real_library_case_energy_m10(tmp_path: Path) -> None:
    node = GpuNode(tmp_path, Scenario([gpu(A100, 0, watts=200)]))
    node.poll()
    bank = MeterBank([GpuMeter("nvml", node.watch)], {}, SECOND)
    bank.read(0, suspended=False)
    node.scenario.reload_driver()
    node.write()
    node.poll()
    node.poll()

    (step,) = bank.read(SECOND, suspended=False)

    node.close()
    assert step.step.energy_uj is None
    assert bank.gaps["nvml"].by_cause == {"reset": 1}
