import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.model import (
    ANY_CPU,
    FAMILIES,
    cpu_counter_uj,
    cpu_power,
    dram_counter_uj,
    dram_idle_table_uw,
    dram_idle_uw,
    other_idle_uw,
)

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("AMD EPYC 7551 32-Core Processor", "EPYC, 1st generation"),
        ("AMD EPYC 7742 64-Core Processor", "EPYC, 2nd generation"),
        ("AMD EPYC 7763 64-Core Processor", "EPYC, 3rd generation"),
        ("AMD EPYC 75F3 32-Core Processor", "EPYC, 3rd generation"),
        ("AMD EPYC 9654 96-Core Processor", "EPYC, later"),
        ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", "Skylake"),
        ("Intel(R) Xeon(R) Platinum 9242 CPU @ 2.30GHz", "Cascade Lake"),
        ("Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz", "Cascade Lake"),
        ("Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz", "Ice Lake"),
        ("Intel(R) Xeon(R) Platinum 8480+", "Xeon, later than Ice Lake"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "Broadwell"),
        ("Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz", "Haswell"),
        ("Intel(R) Xeon(R) CPU E5-2650 v2 @ 2.60GHz", "Ivy Bridge"),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "Sandy Bridge"),
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "Core, mobile"),
        ("11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", "Core, mobile"),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "Core, mobile"),
        ("Intel(R) Core(TM) Ultra 7 155H", "Core, mobile"),
        ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "Core"),
        ("Intel(R) Core(TM) i5-9500 CPU @ 3.00GHz", "Core"),
        ("Neoverse-N1", "Neoverse"),
        ("", "any CPU"),
        (None, "any CPU"),
        ("Common KVM processor", "any CPU"),
    ],
)
def test_a_cpu_is_known_by_its_name(name: str | None, family: str) -> None:
    assert cpu_power(name, 2).family == family


@pytest.mark.parametrize("row", [*FAMILIES, ANY_CPU], ids=lambda row: str(row.name))
def test_every_row_is_a_sensible_power(row: object) -> None:
    assert 0 < row.idle_uw < row.max_uw < 10_000_000  # type: ignore[attr-defined]


def test_power_grows_with_the_number_of_cpus() -> None:
    power = cpu_power(None, 10)

    assert (power.idle_uw, power.max_uw) == (7_400_000, 35_000_000)


def test_the_counter_is_idle_power_and_slope() -> None:
    power = cpu_power(None, 2)  # 1.48 W idle, 7 W full: 2.76 W per busy CPU

    assert cpu_counter_uj(power, 2, 100 * SECOND, 0) == 148_000_000
    assert cpu_counter_uj(power, 2, 100 * SECOND, 30 * SECOND) == 148_000_000 + 82_800_000
    assert cpu_counter_uj(power, 2, 100 * SECOND, 200 * SECOND) == 700_000_000


@given(st.integers(1, 512), st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**12)), max_size=20))
def test_when_the_counter_is_read_makes_no_difference(cpus: int, steps: list[tuple[int, int]]) -> None:
    power = cpu_power(None, cpus)
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
    assert dram_counter_uj(64 << 30, 10 * SECOND) == 250_880_000
    assert dram_idle_table_uw(64 << 30) == 9_600_000


def test_the_rest_of_a_node_is_never_taken_for_nothing() -> None:
    assert other_idle_uw(2) == 40_000_000
