"""Embodied carbon and water: by hand, and linear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.energy.embodied import SECONDS_PER_YEAR, NodeType, Range, embodied_grams
from kwhere.energy.water import WaterUse, litres_per_kwh

SERVER = NodeType(Range(1_200_000.0, 800_000.0, 2_000_000.0), 4 * SECONDS_PER_YEAR)


def test_share_of_a_life_by_hand() -> None:
    # 1200 kg over 4 x 8760 h = 34.2466 g/h; half of 64 CPUs for 10 h = 171.233 g.
    found = embodied_grams(SERVER, allocated_cpu_seconds=32 * 36_000, cpus=64)

    assert found.value == pytest.approx(171.2329, rel=1e-6)
    assert [found.low / found.value, found.high / found.value] == pytest.approx([2 / 3, 5 / 3])


def test_a_whole_node_for_its_whole_life_is_all_of_it() -> None:
    assert embodied_grams(SERVER, 64 * SERVER.life_seconds, 64).value == pytest.approx(1_200_000.0)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(1, 512))
def test_shares_add_up(one: float, other: float, cpus: int) -> None:
    both = embodied_grams(SERVER, one, cpus).plus(embodied_grams(SERVER, other, cpus))

    assert both.value == pytest.approx(embodied_grams(SERVER, one + other, cpus).value)
    assert both.low <= both.value <= both.high


def test_a_node_without_cpus_is_refused() -> None:
    with pytest.raises(ValueError, match="embodied: expected CPUs"):
        embodied_grams(SERVER, 1.0, 0)


@given(st.floats(0, 100), st.floats(0, 100), st.floats(1, 5))
def test_water_on_site_and_at_the_plants(wue: float, ewif: float, pue: float) -> None:
    assert litres_per_kwh(WaterUse(1.8, 3.1), 1.2) == pytest.approx(5.52)  # 1.8 + 3.72
    assert litres_per_kwh(WaterUse(wue, ewif), pue) == pytest.approx(wue + ewif * pue)
