"""The counters file: what is accepted, what is refused, and in which words."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import ConfigError
from kwhere.dcgm.counters import CounterSet, CounterType, parse_counters, read_counters
from kwhere.dcgm.fields import FIELDS, LEGACY
from kwhere.dcgm.known_names import BINARY, WITHOUT_SOURCE


def parse(text: str) -> CounterSet:
    return parse_counters(text.encode(), "f.csv")


def refusal(content: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_counters(content, "f.csv")
    return str(caught.value)


def counters_or_refusal(content: bytes) -> CounterSet | str:
    try:
        return parse_counters(content, "f.csv")
    except ConfigError as error:
        return str(error)


def test_default_file_has_the_26_rows_of_the_original() -> None:
    found = read_counters(None)

    assert len(found.counters) == 25
    assert [one.name for one in found.labels] == ["DCGM_FI_DRIVER_VERSION"]
    assert not found.absent
    assert {one.name for one in found.counters if one.kind is CounterType.COUNTER} == {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# a, comment, with, commas\nDCGM_FI_DEV_GPU_TEMP, gauge, t", id="case_gpu_81"),
        pytest.param("  # indented, comment\n\nDCGM_FI_DEV_GPU_TEMP ,gauge , t ", id="blanks around columns"),
        pytest.param('DCGM_FI_DEV_GPU_TEMP, gauge, "t"', id="quoted after a blank"),
        pytest.param("\ufeffDCGM_FI_DEV_GPU_TEMP,gauge,t\r\n", id="byte order mark and CRLF"),
        pytest.param('#"unbalanced\nDCGM_FI_DEV_GPU_TEMP,gauge,t', id="quote in a comment"),
    ],
)
def test_spellings_of_a_row(text: str) -> None:
    [counter] = parse(text).counters

    assert (counter.name, counter.kind, counter.help) == ("DCGM_FI_DEV_GPU_TEMP", CounterType.GAUGE, "t")


def test_help_with_a_comma_in_quotes() -> None:
    assert parse('DCGM_FI_DEV_GPU_TEMP, gauge, "a, ""b"""').counters[0].help == 'a, "b"'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"DCGM_FI_DEV_VGPU_INSTANCE_IDS, gauge, x", "line 1: DCGM_FI_DEV_VGPU_IN", id="case_gpu_4-ids"),
        pytest.param(b"\nDCGM_FI_DEV_CUDA_VISIBLE_DEVICES_STR,label,x", "line 2: DCGM_FI_DEV_CUDA", id="case_gpu_4"),
        pytest.param(b"#\nDCGM_FI_DEV_GPU_TMP, gauge, x", "line 2: could not find DCGM field", id="misspelt"),
        pytest.param(b"DCGM_FI_DEV_GPU_TMP, gauge, x", "near: DCGM_FI_DEV_GPU_TEMP", id="near names"),
        pytest.param(b"DCGM_FI_DEV_GPU_TEMP, gauge, a, b", "expected three columns", id="comma without quotes"),
        pytest.param(b"DCGM_FI_DEV_GPU_TEMP, gauge", "found 2", id="two columns"),
        pytest.param(b"DCGM_FI_DEV_GPU_TEMP, guage, x", "expected a type of gauge, counter", id="type"),
        pytest.param(b'DCGM_FI_DEV_GPU_TEMP, gauge, "x', "line 1: malformed CSV record", id="open quote"),
        pytest.param(b"DCGM_FI_DRIVER_VERSION, gauge, x", "is a text", id="text as a number"),
        pytest.param(b"DCGM_EXP_XID_ERRORS_COUNT, label, x", "cannot be a label", id="computed as a label"),
        pytest.param(b"DCGM_FI_DEV_GPU_TEMP, gauge, \xff", "line 1: expected UTF-8, found byte 0xff", id="bytes"),
        pytest.param(b"# nothing\n", "expected at least one row", id="empty"),
        pytest.param(b"x" * (1 << 21), "expected at most", id="long"),
    ],
)
def test_what_is_wrong_is_named(content: bytes, words: str) -> None:
    assert words in refusal(content)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("DCGM_FI_DEV_VGPU_INSTANCE_IDS, gauge, x", id="case_gpu_4-ids"),
        pytest.param("DCGM_FI_DEV_CUDA_VISIBLE_DEVICES_STR, label, x", id="case_gpu_4"),
        pytest.param("DCGM_FI_DRIVER_VERSION, gauge, x", id="case_gpu_4-text-as-a-number"),
    ],
)
def test_a_row_that_would_break_the_page_is_left_out_and_the_others_count(row: str) -> None:
    found = parse_counters(f"{row}\nDCGM_FI_DEV_GPU_TEMP, gauge, t\n".encode(), "f.csv")

    assert [one.name for one in found.counters] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert found.labels == ()
    assert found.refused[0].startswith("f.csv: line 1: DCGM_FI_")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.csv: cannot be read"):
        read_counters(tmp_path / "no.csv")


@pytest.mark.parametrize(("old", "new"), LEGACY.items())
def test_names_of_1x_are_those_fields(old: str, new: str) -> None:
    [counter] = parse(f"{old}, gauge, x").counters

    assert counter.name == old
    assert counter.field is FIELDS[new]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"),
        ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS"),
        ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"),
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"),
        ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL"),
        ("DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_FB_USED_RATIO"),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
        ("DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL"),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),
        ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"),
    ],
)
def test_names_of_dcgm_4_6_are_the_same_fields(old: str, new: str) -> None:
    assert FIELDS[old].number == FIELDS[new].number


def test_a_field_without_a_source_is_accepted_and_told() -> None:
    found = parse("DCGM_FI_DEV_GPU_TEMP,gauge,x\nDCGM_FI_DEV_CPU_UTIL_TOTAL,gauge,x\nDCGM_EXP_P2P_STATUS,counter,x")

    assert found.absent == ("DCGM_FI_DEV_CPU_UTIL_TOTAL", "DCGM_EXP_P2P_STATUS")


def test_a_row_twice_counts_once_case_gpu_85() -> None:
    found = parse("DCGM_FI_DEV_GPU_TEMP,gauge,first\nDCGM_FI_DEV_GPU_TEMP,counter,second")

    assert [one.help for one in found.counters] == ["first"]
    assert found.repeated == ("DCGM_FI_DEV_GPU_TEMP",)


def test_no_name_is_of_two_kinds() -> None:
    assert not BINARY & WITHOUT_SOURCE
    assert not (BINARY | WITHOUT_SOURCE) & FIELDS.keys()


@given(st.binary(max_size=400))
def test_any_bytes_are_counters_or_a_refusal(content: bytes) -> None:
    found = counters_or_refusal(content)

    assert found.startswith("f.csv: ") if isinstance(found, str) else found.counters or found.labels


@given(st.lists(st.text("DCGM_FI_,#\" \t\rgaueconterlbEVPU_TMx\\'", max_size=60), max_size=5))
def test_any_text_like_a_file_is_counters_or_a_refusal(lines: list[str]) -> None:
    found = counters_or_refusal("\n".join(lines).encode())

    assert found.startswith("f.csv: ") if isinstance(found, str) else found.counters or found.labels
