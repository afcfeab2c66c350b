from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.meters.powercap_tree import GIB, context

from kwhere.core.errors import Unavailable
from kwhere.core.terms import DomainKind, Method
from kwhere.energy.calibration import Calibration, Scope
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.identity import CpuModel
from kwhere.meters import model
from kwhere.meters.meter import PLATFORM, Domain, MeterContext
from kwhere.meters.model_settings import ModelSettings
from kwhere.meters.settings import MeterSettings
from kwhere.sampling.meter_bank import MeterBank

SECOND = 1_000_000_000
CPU_0, CPU_1 = Domain(DomainKind.CPU, "0"), Domain(DomainKind.CPU, "1")
DRAM_0, DRAM_1 = Domain(DomainKind.DRAM, "0"), Domain(DomainKind.DRAM, "1")


def test_each_socket_has_its_busy_time_and_its_memory() -> None:
    """Two CPUs per socket at 0.74 … 3.5 W each, 32 GiB per socket at 0.392 W."""
    busy = {0: 10 * SECOND, 1: 0, 2: 0, 3: 0}
    meter = model.build(context(HostFS(), sockets=("0", "1"), busy_ns=busy))

    found = {reading.domain: reading.counter_uj for reading in meter.read(100 * SECOND)}

    assert found == {
        CPU_0: 148_000_000 + 27_600_000,
        CPU_1: 148_000_000,
        DRAM_0: 1_254_400_000,
        DRAM_1: 1_254_400_000,
    }
    assert meter.domains == (CPU_0, CPU_1, DRAM_0, DRAM_1)
    assert meter.method is Method.MODELLED
    meter.close()


def test_its_idle_power_is_its_own() -> None:
    meter = model.build(context(HostFS(), sockets=("0", "1")))

    assert meter.idle_uw(CPU_1) == 1_480_000
    assert meter.idle_uw(DRAM_1) == 12_544_000
    assert meter.p_max_uw(CPU_1) >= 7_000_000
    assert meter.p_max_uw(DRAM_1) >= 12_544_000


def test_a_cpu_that_goes_offline_keeps_what_it_used() -> None:
    busy = {0: 10 * SECOND, 1: 30 * SECOND}
    meter = model.build(context(HostFS(), busy_ns=busy))
    before = meter.read(100 * SECOND)[0].counter_uj
    del busy[1]
    gone = meter.read(100 * SECOND)[0].counter_uj
    busy[1] = 29 * SECOND  # and never counts backwards
    busy[7] = 999 * SECOND  # nor takes in a CPU of no known socket

    assert before == gone == meter.read(100 * SECOND)[0].counter_uj


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**10)), min_size=1, max_size=20))
def test_when_it_is_read_makes_no_difference(steps: list[tuple[int, int]]) -> None:
    busy = {0: 0, 1: 0}
    meter = model.build(context(HostFS(), busy_ns=busy))
    start = meter.read(0)[0].counter_uj
    now_ns = 0
    seen = []
    for elapsed_ns, busy_ns in steps:
        now_ns += elapsed_ns
        busy[0] += busy_ns
        seen.append(meter.read(now_ns)[0].counter_uj)

    fresh = model.build(context(HostFS(), busy_ns=busy)).read(now_ns)[0].counter_uj

    assert seen[-1] == fresh
    assert seen == sorted(seen, key=lambda value: value or 0)
    assert start == 0


def test_without_memory_or_cpus_there_is_less_to_model() -> None:
    def bare(cpus: dict[int, str]) -> MeterContext:
        return MeterContext(HostFS(), cpus, None, None, None, dict)

    assert model.build(bare({0: "0"})).domains == (CPU_0,)
    with pytest.raises(Unavailable) as caught:
        model.build(bare({}))
    assert caught.value.reason == "absent"
    assert model.memory_by_socket(bare({})) == {}


def test_memory_is_divided_without_loss() -> None:
    three = context(HostFS(), sockets=("0", "1", "15"))

    assert sum(model.memory_by_socket(three).values()) == 64 * GIB
    assert list(model.memory_by_socket(three)) == ["0", "1", "15"]


@pytest.mark.parametrize(
    ("domain", "expected_uw"),
    [
        (CPU_0, 1_480_000),
        (Domain(DomainKind.CPU, "99"), 1_480_000),
        (DRAM_0, 4_800_000),
        (Domain(DomainKind.DRAM), 9_600_000),
        (PLATFORM, 40_000_000),
    ],
)
def test_the_table_serves_measured_domains_until_they_have_learned(domain: Domain, expected_uw: int) -> None:
    assert model.idle_table_uw(context(HostFS(), sockets=("0", "1")), domain) == expected_uw


def test_the_table_is_never_zero() -> None:
    nothing = MeterContext(HostFS(), {}, None, None, None, dict)

    assert [model.idle_table_uw(nothing, domain) for domain in (CPU_0, DRAM_0)] == [1, 1]


ROME = "AMD EPYC 7742 64-Core Processor"
FITTED = Calibration("powercap", Scope.CPU, "", 2, 4, 40.0, 5.0, 0.06, "2026-11-30T01:02:03+00:00", 12.0)


def test_the_table_goes_by_the_processor() -> None:
    """Two of 128 threads of a 7742: 22.8 W idle, 149.824 W full; 64 GiB of DDR4."""
    meter = model.build(context(HostFS(), model=ROME))

    assert meter.powers["0"].idle_uw == round(22_800_000 / 64)
    assert meter.powers["0"].max_uw == round(149_824_000 / 64)
    assert meter.basis == "By EPYC 7742 (2 of 128 threads): cpu 0.356 W idle, 2.34 W at full load, ± 40 %."
    assert meter.memories_uw == {"0": 25_088_000}


def test_a_name_that_says_nothing_goes_by_the_numbers() -> None:
    numbers = CpuModel("AuthenticAMD", 25, 1, "AMD EPYC", 1, is_guest=True)

    meter = model.build(replace(context(HostFS(), model="AMD EPYC"), cpu=numbers))

    assert meter.powers["0"].family == "EPYC 7003"


def test_a_board_has_its_memory_inside() -> None:
    pi = CpuModel("0x41", None, None, None, None, "0xd08", "Raspberry Pi 4 Model B Rev 1.4")

    meter = model.build(replace(context(HostFS(), cpus_per_socket=4), cpu=pi))

    assert meter.domains == (CPU_0,)
    assert (meter.powers["0"].idle_uw, meter.powers["0"].max_uw) == (2_700_000, 6_400_000)


def test_a_calibration_comes_before_the_table() -> None:
    """40 W over two sockets of two CPUs, 5 W per busy CPU; 12 W of memory, both halves alike."""
    calibrated = replace(context(HostFS(), sockets=("0", "1")), calibration=FITTED)

    meter = model.build(calibrated)

    assert [(power.idle_uw, power.max_uw) for power in meter.powers.values()] == [(20_000_000, 30_000_000)] * 2
    assert meter.memories_uw == {"0": 6_000_000, "1": 6_000_000}
    assert meter.basis.startswith(
        "By figures calibrated against powercap on 2026-11-30: cpu 40 W idle, 60 W at full load, ± 6 %"
    )
    assert model.idle_table_uw(calibrated, CPU_0) == 20_000_000


def test_of_a_whole_node_memory_is_taken_off_first() -> None:
    """40 W less 64 GiB x 0.392 W; a node that would have nothing left keeps a tenth for its CPUs."""
    node = replace(FITTED, scope=Scope.NODE, dram_idle_watts=None)
    calibrated = replace(context(HostFS(), sockets=("0", "1")), calibration=node)

    assert sum(power.idle_uw for power in model.cpu_powers(calibrated).values()) == 40_000_000 - 25_088_000
    assert model.idle_table_uw(calibrated, CPU_0) == 1_480_000
    small = replace(calibrated, calibration=replace(node, idle_watts=10.0))
    assert sum(power.idle_uw for power in model.cpu_powers(small).values()) == 1_000_000


@pytest.mark.parametrize(
    ("settings", "expected_uw"),
    [
        (ModelSettings(idle_watts=30.0), (30_000_000, 35_520_000)),
        (ModelSettings(watts_per_busy_cpu=4.0), (1_480_000, 9_480_000)),
        (ModelSettings(idle_watts=30.0, watts_per_busy_cpu=4.0), (30_000_000, 38_000_000)),
    ],
)
def test_what_the_site_sets_comes_first(settings: ModelSettings, expected_uw: tuple[int, int]) -> None:
    ours = context(HostFS(), settings=MeterSettings(model=settings))

    power = model.cpu_powers(ours)["0"]

    assert (power.idle_uw, power.max_uw) == expected_uw
    assert model.build(ours).basis.startswith("By figures of meters.model: ")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"model": ROME}, id="another table"),
        pytest.param({"settings": MeterSettings(model=ModelSettings(idle_watts=500.0))}, id="watts by hand"),
    ],
)
def test_other_figures_after_a_restart_are_a_gap_and_never_energy(other: dict[str, object]) -> None:
    """The counter would leap by hours of another idle power: it begins anew."""
    busy = {0: 0, 1: 0}
    bank = MeterBank([model.build(context(HostFS(), busy_ns=busy))], {}, SECOND)
    for second in (10_000, 10_001):
        bank.read(second * SECOND, suspended=False)
    saved = bank.saved()

    later = MeterBank([model.build(context(HostFS(), busy_ns=busy, **other))], {}, SECOND)  # type: ignore[arg-type]
    later.restore(saved)
    first = {step.domain: step.step for step in later.read(10_004 * SECOND, suspended=False)}
    then = {step.domain: step.step for step in later.read(10_005 * SECOND, suspended=False)}

    assert first[CPU_0].energy_uj is None
    assert later.gaps["model"].by_cause == {"epoch": 1}
    assert later.gaps["model"].duration_ns == 3 * SECOND
    assert then[CPU_0].energy_uj == model.build(context(HostFS(), **other)).powers["0"].idle_uw  # type: ignore[arg-type]
    assert then[CPU_0].span_ns == SECOND
    assert first[DRAM_0].energy_uj == 3 * 25_088_000


def test_the_same_figures_after_a_restart_lose_nothing() -> None:
    bank = MeterBank([model.build(context(HostFS()))], {}, SECOND)
    bank.read(10_000 * SECOND, suspended=False)
    later = MeterBank([model.build(context(HostFS()))], {}, SECOND)
    later.restore(bank.saved())

    found = {step.domain: step.step for step in later.read(10_007 * SECOND, suspended=False)}

    assert found[CPU_0].energy_uj == 7 * 1_480_000
    assert found[CPU_0].span_ns == 7 * SECOND
