"""What a host tells a guest: there and back, and whatever else is a clear error."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.core.terms import Component
from kwhere.meters.guest_entry import MAX_BYTES, GuestEnergy, GuestEntry, encode_entry, parse_entry

ENTRY = GuestEntry(
    host="hv1",
    manager="libvirt",
    unit="57f2d45e-8ddf-4338-91df-62d0044ff1b5",
    epoch="e1",
    seq=3,
    time_ns=5,
    utc_ns=7,
    energies=(GuestEnergy(Component.CPU, 11, 12, 5), GuestEnergy(Component.OTHER, 0, 2**63 - 1, 4)),
)


def test_an_entry_comes_back() -> None:
    assert parse_entry(encode_entry(ENTRY), "share") == ENTRY


def test_it_is_one_line_of_whole_numbers() -> None:
    text = encode_entry(ENTRY).decode()

    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "." not in text


def test_the_parent_is_host_and_unit() -> None:
    assert ENTRY.parent == "hv1/57f2d45e-8ddf-4338-91df-62d0044ff1b5"


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": None},
        {"host": "a/b"},
        {"host": ""},
        {"host": "a\nb"},
        {"host": 5},
        {"unit": "x" * 256},
        {"epoch": None},
        {"seq": -1},
        {"seq": 1.0},
        {"seq": True},
        {"seq": 2**63},
        {"seq": "3"},
        {"components": []},
        {"components": None},
        {"components": {"cpu": None}},
        {"components": {"cpu": {"dynamic_uj": 1, "time_ns": 1}}},
        {"components": {"cpu": {"dynamic_uj": None, "idle_uj": 1, "time_ns": 1}}},
        {"components": {"cpu": {"dynamic_uj": -1, "idle_uj": 1, "time_ns": 1}}},
    ],
    ids=str,
)
def test_nonsense_says_where_and_what(change: dict[str, object]) -> None:
    record = {**json.loads(encode_entry(ENTRY)), **change}

    with pytest.raises(SourceError, match=r"^share"):
        parse_entry(json.dumps(record).encode(), "share")


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"<html>", b"\xff\xfe", encode_entry(ENTRY)[:-30], b"[" * 60_000, b"x" * (MAX_BYTES + 1)],
    ids=["empty", "null", "list", "html", "bytes", "cut", "deep", "long"],
)
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match=r"^share"):
        parse_entry(data, "share")


def test_a_component_that_we_do_not_know_is_left_out() -> None:
    record = json.loads(encode_entry(ENTRY))
    record["components"]["fan"] = {"watts": "many"}

    assert parse_entry(json.dumps(record).encode(), "share") == ENTRY


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_entry_or_an_error(data: bytes) -> None:
    with contextlib.suppress(SourceError):
        parse_entry(data, "share")


@given(key=st.sampled_from([*json.loads(encode_entry(ENTRY))]), value=JSON)
def test_any_value_anywhere_is_an_entry_or_an_error(key: str, value: object) -> None:
    record = {**json.loads(encode_entry(ENTRY)), key: value}
    with contextlib.suppress(SourceError):
        parse_entry(json.dumps(record).encode(), "share")


@given(part=st.sampled_from(["dynamic_uj", "idle_uj", "time_ns"]), value=JSON)
def test_any_value_in_a_component_is_an_entry_or_an_error(part: str, value: object) -> None:
    record = json.loads(encode_entry(ENTRY))
    record["components"]["cpu"][part] = value
    with contextlib.suppress(SourceError):
        parse_entry(json.dumps(record).encode(), "share")
