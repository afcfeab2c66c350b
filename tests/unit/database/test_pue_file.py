"""A site's PUE series: every line that is wrong is named, whatever the bytes."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import SourceError
from kwhere.database.pue_file import parse_pue, read_pue_file

PARIS = ZoneInfo("Europe/Paris")
JANUARY_NS = 1_767_222_000_000_000_000
"""2026-01-01T00:00 in Paris."""


@pytest.mark.parametrize(
    "text",
    [
        "start,pue\n2026-01-01T00:00,1.25\n2026-01-01T01:00,1.3\n",
        "\ufeffstart;pue\r\n2026-01-01 00:00;1.25\r\n\r\n# noted\r\n2026-01-01 01:00;1.3\r\n",
        "note\tpue\tstart\nx\t1.3\t2026-01-01T01:00+01:00\ny\t1.25\t2025-12-31T23:00Z",
    ],
)
def test_a_series_in_the_ways_it_is_written(text: str) -> None:
    found = parse_pue(text.encode(), PARIS, "pue.csv")

    assert list(found.pairs()) == [(JANUARY_NS, 1.25), (JANUARY_NS + 3600 * 10**9, 1.3)]


def test_a_date_alone_is_midnight() -> None:
    assert list(parse_pue(b"start,pue\n2026-01-01,1.5", PARIS, "f").pairs()) == [(JANUARY_NS, 1.5)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a line with names of columns"),
        ("start,pue\n", "expected rows, found none"),
        ("when,pue\n2026-01-01,1.2", "line 1: expected a column start"),
        ("start,pue\n2026-01-01", "line 2: expected 2 cells, found 1"),
        ("start,pue\n\n2026-01-01,", "line 3: pue: expected a ratio from 1 to 5, found ''"),
        ("start,pue\n2026-01-01,125", "found '125'"),
        ("start,pue\n2026-01-01,0.9", "found '0.9'"),
        ("start,pue\n2026-01-01,nan", "found 'nan'"),
        ("start,pue\n2026-01-01,inf", "found 'inf'"),
        ("start,pue\nyesterday,1.2", "start: expected a time"),
        ("start,pue\n1026-01-01,1.2", "between 1990 and 2100"),
        ("start,pue\n2026-01-01,1.2\n2026-01-01,1.3", "line 3: expected each start once"),
        ("start,pue\n2026-03-29T02:30,1.2", "is skipped by the change of clocks in Europe/Paris"),
        ("start,pue\n2026-10-25T02:30,1.2", "comes twice with the change of clocks"),
        ("<!doctype html><html>", "expected a column start"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        parse_pue(text.encode(), PARIS, "pue.csv")

    assert str(caught.value).startswith("pue.csv")


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_a_series_or_an_error(content: bytes) -> None:
    for prefix in (b"", b"start,pue\n"):
        try:
            found = parse_pue(prefix + content, PARIS, "f")
        except SourceError:
            continue
        assert all(1.0 <= ratio <= 5.0 for ratio in found.values)


CELLS = st.sampled_from(
    ['"', ",", "2026-01-01", "1.2", "\n", "\x00", "T", "-25T02:30", "9999-12-31", "0001-01-01", ";"]
)


@given(st.lists(CELLS, max_size=20).map("".join))
def test_pieces_of_rows_are_a_series_or_an_error(text: str) -> None:
    try:
        found = parse_pue(b"start,pue\n" + text.encode(), PARIS, "f")
    except SourceError:
        return
    assert all(1.0 <= ratio <= 5.0 for ratio in found.values)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read_pue_file(tmp_path / "none.csv", PARIS)
