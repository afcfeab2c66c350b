import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ledger.slots import EPOCH, LATER_EPOCH, header, slot

from kwhere.core.errors import IntakeRefused, UnknownFormat, WireError
from kwhere.core.terms import Flag
from kwhere.ledger.decode import check_follows, decode_header, decode_page, decode_slot
from kwhere.ledger.pages import COLUMNS
from kwhere.ledger.wire import digest, encode_header, encode_page, encode_slot


def chained(*seqs: int) -> list[bytes]:
    lines: list[bytes] = []
    for seq in seqs:
        lines.append(encode_slot(slot(seq), digest(lines[-1]) if lines else None))
    return lines


def page_of(lines: list[bytes], **changes: object) -> bytes:
    values: dict[str, object] = {"oldest": 1, "newest": len(lines), "next": f"{EPOCH}:{len(lines)}"}
    return encode_page(header(**(values | changes)), lines)  # type: ignore[arg-type]


def edited(line: bytes, change: Callable[[dict[str, object]], object]) -> bytes:
    record = json.loads(line)
    change(record)
    return json.dumps(record).encode()


def test_page_ends_at_the_following_epoch_once_read_to_its_end() -> None:
    body = page_of(chained(1, 2), next=f"{LATER_EPOCH}:0", epochs=(EPOCH, LATER_EPOCH))

    assert decode_page(body).header.next == f"{LATER_EPOCH}:0"


def test_page_of_nothing_new_has_no_lines() -> None:
    assert decode_page(encode_page(header(next=None), [])).lines == ()


def test_new_journal_holds_nothing() -> None:
    page = decode_page(encode_page(header(oldest=None, newest=None, next=None), []))

    assert (page.header.oldest, page.header.newest) == (None, None)


def test_line_break_in_a_name_does_not_break_the_page() -> None:
    booked = replace(slot(), entries=(replace(slot().entries[0], name="a\nb\r\u2028c"),))

    page = decode_page(page_of([encode_slot(booked, None)]))

    assert page.lines[0].slot.entries[0].name == "a\nb\r\u2028c"


LINES = chained(1, 2, 3)
BAD_PAGES = {
    "nothing": (b"", "truncated"),
    "no_newline": (page_of(LINES)[:-1], "truncated"),
    "cut_in_a_line": (page_of(LINES)[:-40] + b"\n", "line 4"),
    "cut_between_lines": (page_of(LINES[:2], newest=3, next=f"{EPOCH}:3"), "truncated"),
    "duplicated": (page_of([*LINES, LINES[2]], newest=3, next=f"{EPOCH}:3"), "expected slot 4"),
    "reordered": (page_of([LINES[0], LINES[2], LINES[1]]), "line 3: slot 3: expected slot 2"),
    "hole": (page_of([LINES[0], LINES[2]], newest=3, next=f"{EPOCH}:3"), "expected slot 2"),
    "forged": (page_of([LINES[0], encode_slot(slot(2), "a" * 64), LINES[2]]), "line 3: slot 2 prev"),
    "older_than_held": (page_of(LINES, oldest=2), "2 to 3 are held"),
    "newer_than_held": (page_of(LINES, newest=2), "1 to 2 are held"),
    "lines_but_nothing_held": (page_of(LINES, oldest=None, newest=None), "None to None"),
    "wrong_next": (page_of(LINES, next=f"{EPOCH}:2"), "truncated or padded"),
    "no_next": (page_of(LINES, next=None), "truncated or padded"),
    "skips_to_the_end": (
        page_of(LINES[:2], newest=3, next=f"{LATER_EPOCH}:0", epochs=(EPOCH, LATER_EPOCH)),
        "truncated",
    ),
    "foreign_next": (page_of(LINES, next=f"{LATER_EPOCH}:0"), "cursor of a listed epoch"),
    "no_cursor": (page_of(LINES, next="x"), "EPOCH:SEQ"),
    "foreign_epoch": (page_of(LINES, epochs=(LATER_EPOCH,)), "expected epoch"),
    "repeated_epoch": (page_of(LINES, epochs=(EPOCH, EPOCH)), "once"),
    "empty_line": (page_of(LINES).replace(b"\n", b"\n\n", 1), "line 2: slot: expected a line of JSON"),
    "binary": (b"\x1f\x8b\x00\xff\n", "header: expected a line of JSON"),
    "array": (b"[]\n", "expected a JSON object"),
    "nested": (b"[" * 100_000 + b"\n", "header: expected"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_PAGES)
def test_bad_page_is_refused_with_its_place(kind: str) -> None:
    body, message = BAD_PAGES[kind]

    with pytest.raises(WireError, match=message):
        decode_page(body)


BAD_SLOTS: dict[str, tuple[Callable[[dict[str, object]], object], str]] = {
    "key_missing": (lambda r: r.pop("flags"), "expected the keys"),
    "key_unknown": (lambda r: r.update(more=1), "expected the keys"),
    "seq_zero": (lambda r: r.update(seq=0), "expected seq from 1"),
    "seq_float": (lambda r: r.update(seq=1.0), "expected integers only"),
    "seq_bool": (lambda r: r.update(seq=True), "slot seq: expected an integer"),
    "seq_huge": (lambda r: r.update(seq=2**63), "2\\^63"),
    "seq_enormous": (lambda r: r.update(seq=10**4000), "integer of 13288 bits"),
    "seq_text": (lambda r: r.update(seq="1"), "expected an integer"),
    "nan": (lambda r: r.update(monotonic_ns=float("nan")), "NaN"),
    "infinity": (lambda r: r.update(monotonic_ns=float("inf")), "Infinity"),
    "time_backward": (lambda r: r.update(end=r["start"]), "start before end"),
    "negative": (lambda r: r.update(start=-1), "expected an integer from 0"),
    "prev_short": (lambda r: r.update(prev="ab"), "SHA-256"),
    "prev_upper": (lambda r: r.update(prev="A" * 64), "SHA-256"),
    "flags_object": (lambda r: r.update(flags={}), "expected a list"),
    "flags_number": (lambda r: r.update(flags=[1]), "expected a string"),
    "control_list": (lambda r: r.update(control=[]), "node_busy_ns"),
    "control_component": (lambda r: r["control"].update(npu=r["control"]["cpu"]), "'npu' is not a valid Component"),  # type: ignore[attr-defined, index]
    "control_method": (lambda r: r["control"]["cpu"].update(method="guess"), "'guess' is not a valid Method"),  # type: ignore[index]
    "control_key": (lambda r: r["control"]["cpu"].pop("uj"), "expected the keys"),  # type: ignore[index]
    "control_energy": (lambda r: r["control"]["cpu"].update(uj=None), "control cpu uj"),  # type: ignore[index]
    "entries_object": (lambda r: r.update(entries={}), "entries: expected a list"),
    "row_object": (lambda r: r["entries"].append({}), "entry 3: expected 39 columns"),  # type: ignore[attr-defined]
    "row_short": (lambda r: r["entries"][0].pop(), "expected 39 columns, found 38"),  # type: ignore[index]
    "row_long": (lambda r: r["entries"][0].append(None), "expected 39 columns, found 40"),  # type: ignore[index]
    "row_twice": (lambda r: r["entries"].append(r["entries"][1]), "once"),  # type: ignore[attr-defined, index]
    "kind_unknown": (lambda r: r["entries"][0].__setitem__(0, "pod"), "expected one of unit, system"),  # type: ignore[index]
    "kind_list": (lambda r: r["entries"][0].__setitem__(0, []), "expected one of unit, system"),  # type: ignore[index]
    "unit_without_run": (lambda r: r["entries"][0].__setitem__(3, None), "expected manager, unit and run"),  # type: ignore[index]
    "unit_empty": (lambda r: r["entries"][0].__setitem__(2, ""), "expected manager, unit and run"),  # type: ignore[index]
    "unit_number": (lambda r: r["entries"][0].__setitem__(2, 4242), "expected a string"),  # type: ignore[index]
    "system_with_unit": (lambda r: r["entries"][1].__setitem__(2, "x"), "expected no unit"),  # type: ignore[index]
    "name_number": (lambda r: r["entries"][0].__setitem__(4, 7), "name: expected a string"),  # type: ignore[index]
    "name_nul": (lambda r: r["entries"][0].__setitem__(4, "a\0b"), "without NUL"),  # type: ignore[index]
    "name_surrogate": (lambda r: r["entries"][0].__setitem__(4, "\ud800"), "Unicode"),  # type: ignore[index]
    "labels_list": (lambda r: r["entries"][0].__setitem__(8, [1]), "labels: expected an object"),  # type: ignore[index]
    "labels_number": (lambda r: r["entries"][0].__setitem__(8, {"a": 1}), "labels: expected a string"),  # type: ignore[index]
    "energy_bool": (lambda r: r["entries"][0].__setitem__(10, True), "cpu_dynamic_uj: expected an integer"),  # type: ignore[index]
    "energy_negative": (lambda r: r["entries"][0].__setitem__(10, -1), "cpu_dynamic_uj"),  # type: ignore[index]
    "energy_text": (lambda r: r["entries"][0].__setitem__(10, "1"), "cpu_dynamic_uj"),  # type: ignore[index]
    "number_list": (lambda r: r["entries"][0].__setitem__(33, []), "throttled_ns"),  # type: ignore[index]
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_SLOTS)
def test_bad_slot_is_refused_with_its_place(kind: str) -> None:
    change, message = BAD_SLOTS[kind]
    line = edited(encode_slot(slot(), None), change)

    with pytest.raises(WireError, match=message):
        decode_slot(line, COLUMNS)


def test_repeated_key_is_refused() -> None:
    line = encode_slot(slot(), None).replace(b'"seq":1,', b'"seq":1,"seq":2,')

    with pytest.raises(WireError, match="each key once"):
        decode_slot(line, COLUMNS)


def test_unknown_format_names_both_versions() -> None:
    line = encode_header(replace(header(), format=2, version="9.9.9"))

    with pytest.raises(
        UnknownFormat, match=r"expected ledger format 1 \(this is version .*found format 2 of version 9\.9\.9"
    ):
        decode_header(line)


@pytest.mark.parametrize("key", sorted(json.loads(encode_header(header()))))
def test_header_without_a_key_is_refused(key: str) -> None:
    line = edited(encode_header(header()), lambda record: record.pop(key))

    if key in {"parent", "next"}:
        decode_header(line)
    elif key in {"oldest", "newest"}:
        with pytest.raises(WireError, match="oldest up to newest"):
            decode_header(line)
    else:
        with pytest.raises(WireError, match=key):
            decode_header(line)


def test_header_of_a_later_version_may_say_more() -> None:
    line = edited(encode_header(header()), lambda record: record.update(more=[1]))

    assert decode_header(line) == header()


@pytest.mark.parametrize("columns", [("entry",), (*COLUMNS, "entry"), ("entry", "manager", "unit")])
def test_columns_that_cannot_be_are_refused(columns: tuple[str, ...]) -> None:
    with pytest.raises(WireError, match="columns: expected each once"):
        decode_header(encode_header(header(columns=columns)))


def test_unknown_columns_are_kept() -> None:
    line = edited(encode_slot(slot(), None), lambda r: [row.append(index) for index, row in enumerate(r["entries"])])  # type: ignore[arg-type, var-annotated]

    read = decode_slot(line, (*COLUMNS, "npu_busy_ns"))

    assert read.unknown == {"npu_busy_ns": [0, 1, 2]}
    assert read.slot == slot()


def test_columns_of_an_older_agent_are_not_measured() -> None:
    line = edited(encode_slot(slot(), None), lambda r: [row.pop() for row in r["entries"]])  # type: ignore[attr-defined]

    assert decode_slot(line, COLUMNS[:-1]).slot == slot()


def test_columns_may_come_in_any_order() -> None:
    line = edited(encode_slot(slot(), None), lambda r: [row.reverse() for row in r["entries"]])  # type: ignore[attr-defined]

    assert decode_slot(line, tuple(reversed(COLUMNS))).slot == slot()


def test_unknown_flags_are_kept_apart() -> None:
    line = edited(encode_slot(slot(), None), lambda r: r["entries"][1].__setitem__(9, ["gap", "novel"]))  # type: ignore[index]

    read = decode_slot(line, COLUMNS)

    assert read.slot.entries[1].flags == {Flag.GAP}
    assert read.unknown == {"flags": [[], ["novel"], []]}


def test_page_follows_the_digest_that_its_reader_holds() -> None:
    lines = chained(1, 2)
    second = decode_page(encode_page(header(newest=2, next=f"{EPOCH}:2"), lines[1:]))

    check_follows(second, digest(lines[0]))

    with pytest.raises(IntakeRefused, match="another journal"):
        check_follows(second, "f" * 64)


@given(st.data())
def test_damaged_page_is_refused_or_means_what_it_says(data: st.DataObject) -> None:
    body = bytearray(page_of(LINES))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        action = data.draw(st.sampled_from(["set", "cut", "repeat"]))
        if action == "set":
            body[at] = data.draw(st.integers(0, 255))
        elif action == "cut":
            del body[at : at + data.draw(st.integers(1, 300))]
        else:
            body[at:at] = body[at : at + 50]
        if not body:
            break

    try:
        page = decode_page(bytes(body))
    except WireError:
        return

    before = None
    for line in page.lines:
        assert before is None or line.prev == before
        before = line.digest


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_page(body + b"\n")


def refusal(read: Callable[[], object]) -> str:
    """Return the error's text, empty where there is none; any other exception passes on."""
    try:
        read()
    except WireError as error:
        return str(error)
    return ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(LINES[0]))), json_values)
def test_any_value_in_a_slot_is_read_or_refused(key: str, value: object) -> None:
    line = edited(LINES[0], lambda record: record.update({key: value}))

    assert len(refusal(lambda: decode_slot(line, COLUMNS))) < 2_000


@given(st.integers(0, len(COLUMNS) - 1), json_values)
def test_any_value_in_an_entry_is_read_or_refused(position: int, value: object) -> None:
    line = edited(LINES[0], lambda r: r["entries"][0].__setitem__(position, value))  # type: ignore[index]

    assert len(refusal(lambda: decode_slot(line, COLUMNS))) < 2_000


@given(st.sampled_from(sorted(json.loads(encode_header(header())))), json_values)
def test_any_value_in_a_header_is_read_or_refused(key: str, value: object) -> None:
    line = edited(encode_header(header()), lambda record: record.update({key: value}))

    assert len(refusal(lambda: decode_header(line))) < 2_000
