import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.transport.protobuf import fields, messages, texts


def test_all_kinds_of_fields_are_read() -> None:
    data = b"\x08\x96\x01" + b"\x12\x02hi" + b"\x1d\x01\x00\x00\x00" + b"\x21\x02" + bytes(7)  # 150, "hi", 1, 2

    assert list(fields(data, "x")) == [(1, 150), (2, b"hi"), (3, 1), (4, 2)]


def test_text_that_is_not_utf8_is_shown_as_such() -> None:
    assert list(texts(b"\x0a\x02\xffa\x10\x01", "x")) == [(1, "\ufffda")]


def test_messages_of_one_field_come_in_order() -> None:
    assert list(messages(b"\x0a\x01a\x12\x01b\x0a\x00", 1, "x")) == [b"a", b""]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x08", id="number-missing"),
        pytest.param(b"\x0a\x05ab", id="text-ends-early"),
        pytest.param(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="length-beyond-everything"),
        pytest.param(b"\x08" + b"\xff" * 11, id="number-without-end"),
        pytest.param(b"\x02\x00", id="field-zero"),
        pytest.param(b"\x0b\x0c", id="group"),
        pytest.param(b"\x0d\x01", id="fixed-ends-early"),
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"^here: expected "):
        list(fields(data, "here"))


@given(st.binary(max_size=200))
def test_any_bytes_give_fields_or_a_source_error(data: bytes) -> None:
    try:
        found = list(fields(data, "x"))
    except SourceError:
        return

    assert all(number > 0 for number, _ in found)
