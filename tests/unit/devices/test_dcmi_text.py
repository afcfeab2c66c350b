"""What FreeIPMI, ipmitool, ipmiutil and capmc print, in every state and many spellings."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.devices.dcmi_texts import ACTIVE, CAPMC, INACTIVE, TEXTS, printed

from kwhere.core.errors import SourceError, Unavailable
from kwhere.devices.dcmi import PowerReading, believed_uw
from kwhere.devices.dcmi_text import parse_capmc, parse_program_text

WATT = 1_000_000
STATISTICS = {
    "freeipmi": (48, 361, 157, "12/29/2023 - 08:58:00", 1_473_439_000),
    "ipmitool": (3, 900, 345, "11/30/26 00:01:10 UTC", 5000),
    "ipmitool_old": (6, 304, 49, "Thu Feb 15 08:36:01 2024", 1000),
    "ipmiutil": (6, 304, 49, "Thu Feb 15 09:37:32 2024", 1000),
}


@pytest.mark.parametrize("program", TEXTS)
def test_every_program_is_understood(program: str) -> None:
    minimum, maximum, average, stamp, period_ms = STATISTICS[program]

    reading = parse_program_text(printed(program, "164 Watts"), program)

    assert reading == PowerReading(164 * WATT, True, minimum * WATT, maximum * WATT, average * WATT, stamp, period_ms)


@pytest.mark.parametrize("program", TEXTS, ids=lambda name: f"case_energy_m4-{name}")
@pytest.mark.parametrize("state", ["Not Available", "not active", "deactivated", "Inactive", "disabled", "", "0"])
def test_an_inactive_measurement_is_never_used(program: str, state: str) -> None:
    reading = parse_program_text(printed(program, "164 Watts", state), program)

    with pytest.raises(Unavailable) as caught:
        believed_uw(reading, program)
    assert caught.value.reason == "inactive"


@pytest.mark.parametrize("program", TEXTS)
def test_an_inactive_measurement_may_say_anything_for_a_power(program: str) -> None:
    assert not parse_program_text(printed(program, "?!", INACTIVE[program]), program).active


@pytest.mark.parametrize("program", TEXTS)
def test_the_programs_own_words_for_inactive(program: str) -> None:
    assert not parse_program_text(printed(program, "164 Watts", INACTIVE[program]), program).active


@pytest.mark.parametrize("program", TEXTS, ids=lambda name: f"case_energy_m2-{name}")
@pytest.mark.parametrize(
    "watts",
    [
        "N/A",
        "n/a",
        "NA",
        "not available",
        "Not Available",
        "unavailable",
        "-",
        "",
        "nan",
        "None",
        "Unknown",
        "N/A Watts",
    ],
)
def test_a_power_that_is_not_available_is_absent(program: str, watts: str) -> None:
    reading = parse_program_text(printed(program, watts), program)

    assert reading.current_uw is None
    with pytest.raises(Unavailable):
        believed_uw(reading, program)


@pytest.mark.parametrize(
    "watts",
    ["0 Watts", "65535 Watts", "4294967295 Watts"],
    ids=["zero", "case_energy_m6-ffff", "case_energy_m6-ffffffff"],
)
@pytest.mark.parametrize("program", TEXTS)
def test_what_means_unknown_is_absent(program: str, watts: str) -> None:
    with pytest.raises(Unavailable) as caught:
        believed_uw(parse_program_text(printed(program, watts), program), program)
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize(
    ("watts", "power_uw"),
    [
        ("164", 164 * WATT),
        ("164W", 164 * WATT),
        ("164 WATTS", 164 * WATT),
        ("164.5 Watts", 164_500_000),
        ("164,5 Watts", 164_500_000),
        ("1,164 Watts", 1164 * WATT),
        ("1\u202f164 Watts", 1164 * WATT),
        ("1'164.25 Watts", 1_164_250_000),
        ("00000164 Watts", 164 * WATT),
        ("1.164 kW", 1164 * WATT),
        ("164\u00a0Watts", 164 * WATT),
    ],
)
def test_numbers_of_any_locale_are_read(watts: str, power_uw: int) -> None:
    assert parse_program_text(printed("freeipmi", watts), "ipmi-dcmi").current_uw == power_uw


@pytest.mark.parametrize(
    "watts",
    [
        "-5 Watts",
        "164 mW",
        "164 Joules",
        "12 34 Watts",
        "1e3 Watts",
        "0x10 W",
        "١٦٤ Watts",
        "9" * 40,
        "1.2.3 W",
        "1" + "\u00a0" * 60_000 + "!",
    ],
)
def test_what_is_no_power_in_watts_is_refused(watts: str) -> None:
    with pytest.raises(SourceError, match="ipmi-dcmi: expected a power in watts, found "):
        parse_program_text(printed("freeipmi", watts), "ipmi-dcmi")


@pytest.mark.parametrize("program", TEXTS)
def test_case_spacing_and_line_ends_do_not_matter(program: str) -> None:
    text = printed(program, "164 Watts")
    expected = parse_program_text(text, program)

    for odd in (text.upper(), text.replace("\n", "\r\n"), text.replace(" ", "  "), text.replace(":", "\t:\t")):
        reading = parse_program_text(odd, program)
        assert (reading.current_uw, reading.active, reading.period_ms) == (164 * WATT, True, expected.period_ms)


def test_a_host_name_before_each_line_does_not_matter() -> None:
    text = "".join(f"node1: {line}\n" for line in printed("freeipmi", "164 Watts").splitlines())

    assert parse_program_text(text, "ipmi-dcmi").current_uw == 164 * WATT


def test_two_machines_are_not_one() -> None:
    text = printed("freeipmi", "164 Watts") + printed("freeipmi", "170 Watts")

    with pytest.raises(SourceError, match="the reading of one machine, found 164 Watts and 170 Watts"):
        parse_program_text(text, "ipmi-dcmi")


def test_the_same_reading_twice_is_one_reading() -> None:
    assert parse_program_text(printed("freeipmi", "164 Watts") * 2, "ipmi-dcmi").current_uw == 164 * WATT


@pytest.mark.parametrize("program", TEXTS)
def test_a_text_cut_off_anywhere_never_gives_another_power(program: str) -> None:
    text = printed(program, "164 Watts")

    for length in range(len(text)):
        try:
            power_uw = believed_uw(parse_program_text(text[:length], program), program)
        except (SourceError, Unavailable):
            continue
        assert power_uw == 164 * WATT


@pytest.mark.parametrize("text", ["", "<html><body>502 Bad Gateway</body></html>", "Power Limit: 896 Watts", "\0\0"])
def test_a_text_without_a_reading_is_nonsense(text: str) -> None:
    with pytest.raises(SourceError, match="ipmitool: expected a power reading with its state, found "):
        parse_program_text(text, "ipmitool")


def test_a_power_without_a_state_is_not_believed() -> None:
    with pytest.raises(SourceError, match="with its state"):
        parse_program_text("Current Power : 164 Watts\n", "ipmi-dcmi")


def test_capmc_gives_its_average() -> None:
    reading = parse_capmc(CAPMC.format(avg="5942", code=0), "capmc")

    assert (reading.current_uw, reading.active, reading.period_ms) == (5942 * WATT, True, 600_000)
    assert reading.stamp == "2015-04-01 17:02:10"


def test_capmc_without_an_average_is_absent() -> None:
    assert parse_capmc(CAPMC.format(avg="null", code=0), "capmc").current_uw is None


@pytest.mark.parametrize("avg", ['"5942"', "-1", "true", "1e400", "NaN", "[]", "1" * 5000])
def test_capmc_nonsense_is_refused(avg: str) -> None:
    with pytest.raises(SourceError, match=r"^capmc: expected "):
        parse_capmc(CAPMC.format(avg=avg, code=0), "capmc")


@pytest.mark.parametrize(
    "text", ["", "[", "[1]", "null", '{"avg": 5}', "<html>", "[" * 100_000, CAPMC.format(avg=5, code=22)]
)
def test_capmc_errors_are_refused(text: str) -> None:
    with pytest.raises(SourceError, match=r"^capmc: expected "):
        parse_capmc(text, "capmc")


PIECES = st.sampled_from(
    [
        "Current Power",
        "Power Measurement",
        "Instantaneous power reading",
        "Sampling period",
        " : ",
        ":",
        "Active",
        "not active",
        "N/A",
        "164",
        " Watts",
        "\n",
        "\r",
        "\t",
        "e",
        '{"e":0',
        ',"avg":',
        "}",
        "\0",
        "٣",
        "1e999",
        "\u2028",
        "9" * 30,
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_is_a_reading_or_a_drawn_error(text: str) -> None:
    for parse in (parse_program_text, parse_capmc):
        with suppress(SourceError, Unavailable):
            assert 0 < believed_uw(parse(text, "x"), "x") < 0xFFFF * WATT


@given(st.sampled_from(list(TEXTS)), st.integers(1, 0xFFFE), st.text(max_size=80), st.text(max_size=80))
def test_words_around_a_reading_do_not_change_it(program: str, watts: int, before: str, after: str) -> None:
    text = f"{before}\n{printed(program, f'{watts} Watts')}\n{after}"

    assert parse_program_text(text, program).current_uw == watts * WATT
    assert ACTIVE[program] in text
