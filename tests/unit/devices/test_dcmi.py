"""Bytes of "Get Power Reading", completion codes, and readings that mean no power."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.dcmi import PowerReading, believed_uw, check_completion, parse_power_reading

WATT = 1_000_000
# dc | 164 | 48 | 361 | 157 | 2023-12-29 08:58:00 | 1000 ms | active, little-endian by hand
ANSWER = bytes.fromhex("dc a400 3000 6901 9d00 288b8e65 e8030000 40")


def test_bytes_are_read_as_the_standard_lays_them_out() -> None:
    assert parse_power_reading(ANSWER, "bmc") == PowerReading(
        current_uw=164 * WATT,
        active=True,
        minimum_uw=48 * WATT,
        maximum_uw=361 * WATT,
        average_uw=157 * WATT,
        stamp="1703840552",
        period_ms=1000,
    )


def test_bytes_after_the_reading_do_no_harm() -> None:
    assert parse_power_reading(ANSWER + b"\xff\xff", "bmc") == parse_power_reading(ANSWER, "bmc")


@pytest.mark.parametrize("state", [0x40, 0x41, 0xFF])
def test_bit_six_alone_says_active(state: int) -> None:
    assert parse_power_reading(ANSWER[:-1] + bytes([state]), "bmc").active


@pytest.mark.parametrize("state", [0x00, 0x01, 0x80, 0xBF])
def test_without_bit_six_the_figures_mean_nothing(state: int) -> None:
    """case_energy_m4"""
    reading = parse_power_reading(ANSWER[:-1] + bytes([state]), "bmc")

    with pytest.raises(Unavailable) as caught:
        believed_uw(reading, "bmc")
    assert caught.value.reason == "inactive"


@pytest.mark.parametrize("data", [b"", ANSWER[:-1], b"\x00" + ANSWER[1:], b"\xdc"])
def test_a_short_or_foreign_answer_is_nonsense(data: bytes) -> None:
    with pytest.raises(SourceError, match="bmc: expected 18 bytes that start with dc"):
        parse_power_reading(data, "bmc")


@pytest.mark.parametrize(
    "current_uw",
    [0, 0xFFFF * WATT, 0xFFFFFFFF * WATT, 4_294_967_295_000],
    ids=["zero", "case_energy_m6-ffff", "case_energy_m6-ffffffff", "case_energy_m6-acpi"],
)
def test_what_means_unknown_is_no_power(current_uw: int) -> None:
    """0 W and all bits set are what firmware says that does not know; 4294967295 mW would be 4.29 MW."""
    reading = PowerReading(current_uw, active=True)

    with pytest.raises(Unavailable, match="bmc: expected a power") as caught:
        believed_uw(reading, "bmc")
    assert caught.value.reason == "unsupported"


def test_not_available_is_absent_not_zero() -> None:
    """case_energy_m2"""
    with pytest.raises(Unavailable) as caught:
        believed_uw(PowerReading(None, active=True), "bmc")
    assert caught.value.reason == "inactive"


@pytest.mark.parametrize("watts", [1, 164, 0xFFFE])
def test_a_power_is_believed(watts: int) -> None:
    assert believed_uw(PowerReading(watts * WATT, active=True), "bmc") == watts * WATT


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0xC0, "busy"),
        (0xC1, "unsupported"),
        (0xCC, "unsupported"),
        (0xD4, "permission"),
        (0xD5, "inactive"),
        (0xC3, "timeout"),
        (0xD2, "busy"),
        (0x80, "unsupported"),
        (0x7E, "unsupported"),
    ],
)
def test_completion_codes_have_names(code: int, reason: str) -> None:
    with pytest.raises(Unavailable, match=f"completion code {code:#04x}: ") as caught:
        check_completion(code, "bmc")
    assert caught.value.reason == reason


def test_completion_code_0_is_success() -> None:
    check_completion(0, "bmc")


@given(st.binary(max_size=64))
def test_any_bytes_are_a_reading_or_a_drawn_error(data: bytes) -> None:
    with suppress(SourceError, Unavailable):
        assert 0 < believed_uw(parse_power_reading(data, "bmc"), "bmc") < 0xFFFF * WATT


@given(
    st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.booleans()
)
def test_every_figure_survives_the_wire(current: int, average: int, time_s: int, period_ms: int, active: bool) -> None:
    data = struct.pack("<BHHHHIIB", 0xDC, current, 1, 2, average, time_s, period_ms, 0x40 if active else 0)

    reading = parse_power_reading(data, "bmc")

    assert (reading.current_uw, reading.average_uw) == (current * WATT, average * WATT)
    assert (reading.stamp, reading.period_ms, reading.active) == (str(time_s), period_ms, active)
