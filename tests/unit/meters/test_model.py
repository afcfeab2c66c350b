import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.meters.powercap_tree import GIB, context

from kwhere.core.errors import Unavailable
from kwhere.core.terms import DomainKind, Method
from kwhere.kernel.hostfs import HostFS
from kwhere.meters import model
from kwhere.meters.meter import PLATFORM, Domain, MeterContext

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
