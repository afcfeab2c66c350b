import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ledger.slots import EPOCH, any_slots, header, slot

from kwhere.core.errors import WireError
from kwhere.core.terms import Component, EntryKind, Method
from kwhere.ledger.closure import residuals
from kwhere.ledger.decode import decode_page, decode_slot
from kwhere.ledger.pages import COLUMNS, Cursor
from kwhere.ledger.rows import Control, Entry, Figures, Slot
from kwhere.ledger.wire import clean_text, digest, encode_page, encode_slot, parse_cursor

MINIMAL = Slot(
    seq=3,
    start_ns=1_000,
    end_ns=2_000,
    monotonic_ns=1_000,
    controls=(Control(Component.CPU, 5, 900, Method.MODELLED, "model"),),
    entries=(Entry(EntryKind.SYSTEM, None, Figures()),),
)


def test_slot_line_is_canonical() -> None:
    line = encode_slot(MINIMAL, None)

    nulls = ",".join(["null"] * (len(COLUMNS) - 10))
    assert line.decode() == (
        '{"seq":3,"prev":null,"start":1000,"end":2000,"monotonic_ns":1000,"flags":[],'
        '"control":{"cpu":{"uj":5,"span_ns":900,"method":"modelled","source":"model"},"node_busy_ns":null},'
        f'"entries":[["system",null,null,null,null,null,null,null,{{}},[],{nulls}]]}}'
    )


def test_digest_is_the_sha256_of_the_line_as_served() -> None:
    line = encode_slot(slot(), None)

    assert digest(line) == hashlib.sha256(line).hexdigest()


@given(any_slots())
def test_every_slot_survives_the_wire(booked: Slot) -> None:
    line = encode_slot(booked, None)

    read = decode_slot(line, COLUMNS)

    assert read.slot == booked
    assert read.digest == digest(line)
    assert read.raw == line
    assert read.unknown == {}


@given(st.lists(any_slots(), min_size=1, max_size=3), st.integers(1, 9))
def test_every_page_survives_the_wire(slots: list[Slot], first: int) -> None:
    booked = [Slot(first + i, s.start_ns, s.end_ns, s.monotonic_ns, s.controls, s.entries) for i, s in enumerate(slots)]
    lines: list[bytes] = []
    for item in booked:
        lines.append(encode_slot(item, digest(lines[-1]) if lines else "0" * 64))
    last = booked[-1].seq

    page = decode_page(encode_page(header(oldest=1, newest=last, next=f"{EPOCH}:{last}"), lines))

    assert [line.slot for line in page.lines] == booked
    assert page.lines[0].prev == "0" * 64
    assert page.header.next == f"{EPOCH}:{last}"


@pytest.mark.parametrize("value", [True, 1.5, -1, 2**63], ids=["bool", "float", "negative", "huge"])
def test_what_is_no_integer_is_not_written(value: int) -> None:
    wrong = Slot(1, 0, 1, 1, (), (Entry(EntryKind.SYSTEM, None, Figures(cpu_user_ns=value)),))

    with pytest.raises(WireError, match=r"entry system: expected an integer"):
        encode_slot(wrong, None)


@pytest.mark.parametrize(
    ("text", "clean"),
    [("plain", "plain"), ("é 日本", "é 日本"), ("a\0b", "a�b"), ("bad\udcff", "bad�"), ("", "")],
)
def test_text_is_cleaned_for_every_store(text: str, clean: str) -> None:
    assert clean_text(text) == clean


def test_name_that_is_no_unicode_is_written_and_read() -> None:
    odd = Slot(1, 0, 1, 1, (), (Entry(EntryKind.SYSTEM, None, Figures(), name="x\udc80\0y"),))

    assert decode_slot(encode_slot(odd, None), COLUMNS).slot.entries[0].name == "x��y"


def test_cursor_is_written_and_read() -> None:
    assert parse_cursor(f"{EPOCH}:12") == Cursor(EPOCH, 12)
    assert str(Cursor(EPOCH, 12)) == f"{EPOCH}:12"


@pytest.mark.parametrize(
    "text",
    ["", ":", "1", EPOCH, f"{EPOCH}:", f"{EPOCH}:-1", f"{EPOCH}:01", f"{EPOCH}:1 ", f"{EPOCH}:1\n",
     f"{EPOCH.upper()}:1", f"{EPOCH}:{'9' * 19}", "x" * 100_000, f"{EPOCH}:٣"],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="expected EPOCH:SEQ"):
        parse_cursor(text)


@given(st.text(max_size=80))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        cursor = parse_cursor(text)
    except WireError:
        return

    assert str(cursor) == text


def test_balanced_slot_has_no_residual() -> None:
    assert residuals(slot()) == {}


def test_residual_is_control_less_entries() -> None:
    entries = (Entry(EntryKind.SYSTEM, None, Figures({(Component.GPU, "idle"): 3})),)  # type: ignore[dict-item]
    unbalanced = Slot(1, 0, 1, 1, MINIMAL.controls, entries)

    assert residuals(unbalanced) == {Component.CPU: 5, Component.GPU: -3}


def test_line_is_json_that_anyone_reads() -> None:
    record = json.loads(encode_slot(slot(), None))

    assert record["control"]["cpu"] == {
        "uj": 160_000_030,
        "span_ns": 60_000_000_000,
        "method": "counter",
        "source": "powercap",
    }
    assert dict(zip(COLUMNS, record["entries"][0], strict=True))["cpu_dynamic_uj"] == 160_000_000
