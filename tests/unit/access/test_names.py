"""A principal's name is taken as it is or not at all."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.access.names import MOST_BYTES, checked_name, header_name

GOOD = ("alice", "alice@example.org", "ALICE", "alice'--", "../alice", "alice%20", "root", "u1000", "müller", "a.b-c_d")
BAD = (
    *(
        "",
        " ",
        "   ",
        "mine\ttheirs",
        "alice\n",
        "alice ",
        " alice",
        "al ice",
        "al\u00a0ice",
        "al\u200bice",
        "\u202ealice",
    ),
    *("alice\0", "al\u00adice", "1000", "0", "a" * 256, "mu\u0308ller", "\ud800"),
)


@pytest.mark.parametrize("name", GOOD, ids=ascii)
def test_a_name_stays_as_it_is(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_case_users_3_4_what_could_pass_for_another_name_is_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"is|holds"):
        checked_name(name)


@pytest.mark.parametrize(
    "value",
    [b"m\xc4\xb1ne", b"m\xfcller", b"", b"  ", b"mine\ttheirs", b"alice,bob", b"alice;bob", b"alice, alice", b"1000"],
)
def test_case_users_3_4_a_header_names_one_user_in_ascii(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"is|holds"):
        header_name(value)


@given(st.text(max_size=300))
def test_any_text_is_taken_whole_or_refused(text: str) -> None:
    try:
        name = checked_name(text)
    except ValueError:
        return
    assert name == text == unicodedata.normalize("NFC", text) == text.strip()
    assert 0 < len(name.encode()) <= MOST_BYTES


@given(st.binary(max_size=40))
def test_any_bytes_of_a_header_are_a_name_or_refused(value: bytes) -> None:
    try:
        name = header_name(value)
    except ValueError:
        return
    assert name.encode() == value
