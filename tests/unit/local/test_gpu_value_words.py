"""Numbers of NVIDIA's library in words; the tables are those of its own binding."""

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.devices.gpu_fields import GpuField
from kwhere.local.gpu_value_words import fact_words, value_words

PREFIXES = {"brand": "NVML_BRAND_", "architecture": "NVML_DEVICE_ARCH_"}


@pytest.mark.parametrize("fact", PREFIXES)
def test_every_number_of_the_binding_has_a_word(fact: str) -> None:
    prefix = PREFIXES[fact]
    numbers = {v for n, v in vars(pynvml).items() if n.startswith(prefix) and not n.endswith(("UNKNOWN", "COUNT"))}

    assert [number for number in numbers if fact_words(fact, str(number)) == str(number)] == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (GpuField.PSTATE, 0, "P0, fastest"),
        (GpuField.PSTATE, 8, "P8"),
        (GpuField.PSTATE, 32, ""),
        (GpuField.CLOCK_EVENT_REASONS, 0, "none"),
        (GpuField.CLOCK_EVENT_REASONS, 0x24, "power cap, heat"),
        (GpuField.RECOVERY_ACTION, 1, "reset the GPU"),
        (GpuField.MIG_MODE, 1, "on"),
        (GpuField.POWER_UW, 1, ""),
    ],
)
def test_a_number_that_is_no_amount_has_words(name: GpuField, value: int, words: str) -> None:
    assert value_words(name, value) == words


def test_facts_without_a_word_stay() -> None:
    assert fact_words("architecture", "9") == "Hopper (9)"
    assert fact_words("architecture", "99") == "99"
    assert fact_words("vbios", "9") == "9"


@given(st.sampled_from(GpuField), st.integers(-(2**64), 2**64))
def test_any_number_has_words_or_none(name: GpuField, value: int) -> None:
    assert "\n" not in value_words(name, value)
