from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.cpu_table import any_cpu
from kwhere.energy.model import (
    Memory,
    cpu_counter_uj,
    dram_counter_uj,
    dram_idle_table_uw,
    dram_idle_uw,
    other_idle_uw,
)

SECOND = 1_000_000_000


def test_power_grows_with_the_number_of_cpus() -> None:
    power = any_cpu(10)

    assert (power.idle_uw, power.max_uw) == (7_400_000, 35_000_000)


def test_the_counter_is_idle_power_and_slope() -> None:
    power = any_cpu(2)  # 1.48 W idle, 7 W full: 2.76 W per busy CPU

    assert cpu_counter_uj(power, 2, 100 * SECOND, 0) == 148_000_000
    assert cpu_counter_uj(power, 2, 100 * SECOND, 30 * SECOND) == 148_000_000 + 82_800_000
    assert cpu_counter_uj(power, 2, 100 * SECOND, 200 * SECOND) == 700_000_000


@given(st.integers(1, 512), st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**12)), max_size=20))
def test_when_the_counter_is_read_makes_no_difference(cpus: int, steps: list[tuple[int, int]]) -> None:
    power = any_cpu(cpus)
    uptime = busy = last = total = 0
    for elapsed_ns, busy_ns in steps:
        uptime += elapsed_ns
        busy += busy_ns
        now = cpu_counter_uj(power, cpus, uptime, busy)
        assert now >= last
        total += now - last
        last = now

    assert total == cpu_counter_uj(power, cpus, uptime, busy)


def test_memory_draws_by_size() -> None:
    assert dram_idle_uw(64 << 30) == 25_088_000
    assert dram_idle_uw(64 << 30, Memory.DDR5) == 21_056_000
    assert dram_idle_uw(64 << 30, Memory.DDR3) == 29_440_000
    assert dram_idle_uw(64 << 30, Memory.INSIDE) == 0
    assert dram_counter_uj(25_088_000, 10 * SECOND) == 250_880_000
    assert dram_idle_table_uw(64 << 30) == 9_600_000


def test_the_rest_of_a_node_is_never_taken_for_nothing() -> None:
    assert other_idle_uw(2) == 40_000_000
