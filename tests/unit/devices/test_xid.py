"""XIDs: what a number means, and lines of the kernel's log."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwhere.devices.xid import LARGEST, UNKNOWN, XidLine, parse_xid, xid_meaning


@pytest.mark.parametrize(
    ("xid", "meaning"),
    [
        pytest.param(0, "No Error", id="none"),
        pytest.param(13, "Graphics Engine Exception", id="13"),
        pytest.param(31, "GPU memory page fault", id="31"),
        pytest.param(72, "CE5: Unknown Error", id="72"),
        pytest.param(77, "CE8: Unknown Error", id="77"),
        pytest.param(79, "GPU has fallen off the bus", id="79"),
        pytest.param(98, "NVDEC7 Error", id="98"),
        pytest.param(105, "NVJPG7 Error", id="105"),
        pytest.param(135, "Robust Channel CE19 Error", id="135"),
        pytest.param(150, "NVLINK: MSE Error", id="150"),
        pytest.param(172, "Uncorrectable SRAM Error", id="the last"),
        pytest.param(173, UNKNOWN, id="case_gpu_78"),
        pytest.param(2**31, UNKNOWN, id="case_gpu_78 far above"),
        pytest.param(-1, UNKNOWN, id="below"),
    ],
)
def test_a_number_has_the_catalogues_meaning(xid: int, meaning: str) -> None:
    assert xid_meaning(xid) == meaning


def test_every_number_of_the_catalogue_has_one() -> None:
    assert [xid for xid in range(173) if xid_meaning(xid) == UNKNOWN] == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            XidLine("0000:3b:00.0", 79),
            id="79",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:3B:00): 31, pid=1234, name=python", XidLine("0000:3b:00.0", 31), id="capitals"
        ),
        pytest.param("NVRM: Xid (0000:03:00): 6, PE0001", XidLine("0000:03:00.0", 6), id="an old driver"),
        pytest.param(
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 13, pid=7", XidLine("0000:01:00.0", 13, 5), id="a MIG instance"
        ),
        pytest.param(
            "NVRM: Xid (PCI:0001:c1:00 GPU-I:0e): 94, pid=7", XidLine("0001:c1:00.0", 94, 14), id="its id hexadecimal"
        ),
        pytest.param("[ 12.5] NVRM: Xid (PCI:0000:3b:00): 48, pid=1", XidLine("0000:3b:00.0", 48), id="a time before"),
        pytest.param("NVRM: Xid (PCI:0000:3b:00): 123456, pid=1", None, id="too many digits"),
        pytest.param("NVRM: Xid (PCI:0000:3b:00): 0, pid=1", None, id="none"),
        pytest.param("NVRM: Xid (PCI:0000:3b:00): seven", None, id="no number"),
        pytest.param("NVRM: GPU at PCI:0000:3b:00: GPU-1234", None, id="another line of the driver"),
        pytest.param("NVRM: Xid (PCI:zz:3b:00): 79", None, id="no address"),
        pytest.param("NVRM: Xid (PCI:0000:3b:00", None, id="cut off"),
        pytest.param("NVRM: Xid (PCI:0000:3b:00): ٧٩, pid=1", None, id="other digits"),
        pytest.param("", None, id="empty"),
    ],
)
def test_lines_of_the_kernels_log(line: str, found: XidLine | None) -> None:
    assert parse_xid(line) == found


@given(st.text() | st.from_regex(r"NVRM: Xid \((PCI:)?[0-9a-f:. GPUI-]{0,20}\): [0-9]{0,7}"))
@example("NVRM: Xid (PCI:0000:3b:00): 9999")
def test_any_line_is_an_xid_or_none(line: str) -> None:
    found = parse_xid(line)

    assert found is None or 0 < found.xid <= LARGEST
