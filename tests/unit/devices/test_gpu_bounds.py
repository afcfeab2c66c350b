"""What cannot be is not known, in whatever quantity it comes; what can be stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.devices.gpu_bounds import BOUNDS, drop_impossible, possible_bytes
from kwhere.devices.gpu_fields import Absence, GpuField

GIB = 1 << 30
COUNTERS_OF_BYTES = {GpuField.NVLINK_TX_BYTES, GpuField.NVLINK_RX_BYTES, GpuField.CLOCK_EVENT_REASONS}


def sound(values: dict[GpuField, int | float]) -> tuple[dict[GpuField, int | float], dict[GpuField, Absence]]:
    missing: dict[GpuField, Absence] = {}
    drop_impossible(values, missing)
    return values, missing


@pytest.mark.parametrize("word", [2**63 - 16, 2**63 - 14, 2**64 - 1, -1], ids="case_gpu_1-{}".format)
def test_no_quantity_is_a_word_for_not_known(word: int) -> None:
    for name in set(GpuField) - (COUNTERS_OF_BYTES if word > 0 else set()):
        if word == -1 and BOUNDS[name][0] < 0:
            continue
        assert sound({name: word}) == ({}, {name: Absence.BLANK}), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (GpuField.POWER_UW, 1_500_000_000),
        (GpuField.TEMPERATURE_MC, -20_000),
        (GpuField.TEMPERATURE_MARGIN_MC, -5000),
        (GpuField.FAN_PERCENT, 130),
        (GpuField.ENERGY_UJ, 2147483634 * 1000),
        (GpuField.MEMORY_CLOCK_HZ, 14_001_000_000),
        (GpuField.NVLINK_TX_BYTES, 2**63),
        (GpuField.PCIE_LINK_GEN, 7),
        (GpuField.GPU_UTIL_PERCENT, 100),
        (GpuField.VIOLATION_POWER_NS, 2**53 + 1),
        (GpuField.PROF_SM_RATIO, 1.0),
    ],
)
def test_what_boards_say_stays(name: GpuField, value: float) -> None:
    assert sound({name: value}) == ({name: value}, {})


def test_more_used_than_there_is_is_not_known_and_takes_no_other_along() -> None:
    found = sound(
        {
            GpuField.MEMORY_TOTAL_BYTES: 80 * GIB,
            GpuField.MEMORY_USED_BYTES: 81 * GIB,
            GpuField.MEMORY_FREE_BYTES: GIB,
            GpuField.BAR1_USED_BYTES: GIB,
        }
    )

    assert found[1] == {GpuField.MEMORY_USED_BYTES: Absence.BLANK}
    assert found[0].keys() == {GpuField.MEMORY_TOTAL_BYTES, GpuField.MEMORY_FREE_BYTES, GpuField.BAR1_USED_BYTES}


@given(st.dictionaries(st.sampled_from(GpuField), st.integers() | st.floats()))
def test_any_numbers_are_possible_or_missing(values: dict[GpuField, int | float]) -> None:
    names = set(values)

    kept, missing = sound(values)

    assert kept.keys() | missing.keys() == names
    assert all(BOUNDS[name][0] <= value <= BOUNDS[name][1] for name, value in kept.items())


@pytest.mark.parametrize(("number", "found"), [(None, None), (0, 0), (-1, None), (2**64 - 1, None), (GIB, GIB)])
def test_memory_of_a_process(number: int | None, found: int | None) -> None:
    assert possible_bytes(number) == found
