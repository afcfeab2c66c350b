"""`gpu_metrics` tables, packed by hand at the offsets of kgd_pp_interface.h."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_trees import CLOCKS, SIZES, table

from kwhere.core.errors import SourceError, Unavailable
from kwhere.kernel.amdgpu_metrics import GpuMetrics, parse_gpu_metrics


@pytest.mark.parametrize("revision", SIZES)
def test_every_revision_has_its_own_places(revision: int) -> None:
    found = parse_gpu_metrics(table(revision), "gpu_metrics")

    assert (found.socket_power_w, found.energy_accumulator, found.system_clock_ns) == (250, 65628, 10**12)
    assert (found.gfx_activity_percent, found.umc_activity_percent) == (73, 21)
    assert found.is_average is (revision <= 3)
    assert found.temperature_memory_c is None


@pytest.mark.parametrize("revision", SIZES)
def test_clocks_and_links(revision: int) -> None:
    data = bytearray(table(revision))
    for place, value in zip(CLOCKS[revision], (1700, 1600), strict=True):
        struct.pack_into("<H", data, place, value)
    link = {4: 48, 5: 112, 6: 60, 7: 68, 8: 68}.get(revision, 74)
    struct.pack_into("<HH", data, link, 16, 160)

    found = parse_gpu_metrics(bytes(data), "gpu_metrics")

    assert (found.gfx_clock_mhz, found.memory_clock_mhz) == (1700, 1600)
    assert (found.pcie_width, found.pcie_speed_tenth_gts) == (16, 160)


@pytest.mark.parametrize(("revision", "start", "length"), [(6, 312, 168), (7, 344, 232), (8, 344, 440)])
def test_partitions_tell_how_busy_each_is(revision: int, start: int, length: int) -> None:
    data = bytearray(table(revision))
    struct.pack_into("<H", data, CLOCKS[revision][1] + 2, 2)
    struct.pack_into("<II", data, start, 100, 50)
    struct.pack_into("<I", data, start + length, 0)

    assert parse_gpu_metrics(bytes(data), "gpu_metrics").partition_activity_percent == (75, 0)


def test_all_bits_set_is_not_known() -> None:
    data = bytearray(b"\xff" * SIZES[3])
    struct.pack_into("<HBB", data, 0, SIZES[3], 1, 3)

    assert parse_gpu_metrics(bytes(data), "gpu_metrics") == GpuMetrics(3, is_average=True)


@pytest.mark.parametrize("format_", [2, 3])
def test_graphics_inside_a_processor_says_so(format_: int) -> None:
    with pytest.raises(Unavailable, match="processor with graphics") as raised:
        parse_gpu_metrics(table(3, format_=format_), "gpu_metrics")
    assert raised.value.reason == "processor"


@pytest.mark.parametrize(("format_", "revision"), [(1, 0), (1, 9), (4, 1), (0, 0)])
def test_formats_that_nobody_documented_are_not_guessed(format_: int, revision: int) -> None:
    data = bytearray(4000)
    struct.pack_into("<HBB", data, 0, 4000, format_, revision)
    with pytest.raises(Unavailable) as raised:
        parse_gpu_metrics(bytes(data), "gpu_metrics")
    assert raised.value.reason == "unsupported"


@pytest.mark.parametrize("revision", SIZES)
def test_a_table_that_is_cut_off_is_no_table(revision: int) -> None:
    with pytest.raises(SourceError, match=r"gpu_metrics: expected \d+ bytes of format"):
        parse_gpu_metrics(table(revision)[:90], "gpu_metrics")
    short = bytearray(table(revision))
    struct.pack_into("<H", short, 0, 40)
    with pytest.raises(SourceError, match="found 40"):
        parse_gpu_metrics(bytes(short), "gpu_metrics")


@given(st.binary(max_size=4000) | st.builds(lambda head, rest: struct.pack("<HBB", 4000, 1, head) + rest,
                                            st.integers(0, 12), st.binary(max_size=4000)))  # fmt: skip
def test_any_bytes_are_a_table_or_a_clear_error(data: bytes) -> None:
    try:
        found = parse_gpu_metrics(data, "gpu_metrics")
    except (SourceError, Unavailable):
        return
    assert all(percent is None or percent <= 100 for percent in found.partition_activity_percent)
    assert found.socket_power_w is None or found.socket_power_w < 0xFFFF
