"""The kernel's log, record by record."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.kernel.kmsg import KernelMessage, messages_of, parse_record, read_kernel_log


def reader(*records: bytes | OSError) -> Callable[[], bytes]:
    left = list(records)

    def read() -> bytes:
        record = left.pop(0) if left else BlockingIOError(errno.EAGAIN, "no more")
        if isinstance(record, OSError):
            raise record
        return record

    return read


@pytest.mark.parametrize(
    ("record", "found"),
    [
        pytest.param(b"4,812,5140900,-;NVRM: Xid\n", KernelMessage(5140900, "NVRM: Xid"), id="plain"),
        pytest.param(b"6,1,0,-;a;b\n SUBSYSTEM=pci\n", KernelMessage(0, "a;b"), id="with a dictionary"),
        pytest.param(b"6,1,7,c,caller=T1;x\n", KernelMessage(7, "x"), id="with a caller"),
        pytest.param(b"6,1,7,-;\\x1b[0m \\xc3\\xa4\n", KernelMessage(7, "\x1b[0m ä"), id="escaped bytes"),
        pytest.param(b"6,1,7,-;\xff\n", KernelMessage(7, "�"), id="no UTF-8"),
        pytest.param(b"6,1,7,-;", KernelMessage(7, ""), id="empty"),
        pytest.param(b"6,1,7", None, id="cut off"),
        pytest.param(b"6,1,-7,-;x\n", None, id="no time"),
        pytest.param(b"<6>[ 1.0] x\n", None, id="another format"),
        pytest.param(b"", None, id="nothing"),
    ],
)
def test_records(record: bytes, found: KernelMessage | None) -> None:
    assert parse_record(record) == found


def test_what_was_overwritten_is_passed_over() -> None:
    read = reader(b"6,1,1,-;a\n", BrokenPipeError(), b"garbage", b"6,9,9,-;b\n")

    assert [message.text for message in messages_of(read)] == ["a", "b"]


def test_a_log_that_ends_is_over() -> None:
    assert list(messages_of(reader(b"6,1,1,-;a\n", b"", b"6,2,2,-;b\n"))) == [KernelMessage(1, "a")]


def test_a_log_that_may_not_be_read_is_empty(tmp_path: Path) -> None:
    assert list(read_kernel_log(str(tmp_path / "kmsg"))) == []


@given(st.binary())
def test_any_bytes_are_a_message_or_none(record: bytes) -> None:
    found = parse_record(record)

    assert found is None or found.time_us >= 0
