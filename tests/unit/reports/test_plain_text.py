"""Names of people's making, by kind: what a terminal would obey, what a spreadsheet would run."""

import csv
import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.reports.plain_text import escaped_signs, spreadsheet_cell, visible, visible_lines

CONTROLS = [chr(code) for code in (*range(32), *range(127, 160))]
MARKS = [
    "\u200e",
    "\u200f",
    "\u202a",
    "\u202e",
    "\u2066",
    "\u2069",
    "\ufeff",
    "\u2028",
    "\u2029",
    "\ud800",
    "\U000e0041",
]


@pytest.mark.parametrize("sign", [*CONTROLS, *MARKS], ids=lambda sign: f"u{ord(sign):04x}")
def test_case_users_40_no_sign_drives_a_terminal(sign: str) -> None:
    assert visible(f"a{sign}b") == "a\ufffdb"
    assert visible_lines(f"a{sign}b") in ("a\ufffdb", "a\nb", "a\tb")
    assert json.loads(escaped_signs(json.dumps({"name": sign}, ensure_ascii=False))) == {"name": sign}


@pytest.mark.parametrize("text", ["aàb", "domänen-benutzer", "日本", "שלום", "🚀", "a|b", "=1+1", ""])
def test_case_users_40_what_people_write_stays(text: str) -> None:
    assert visible(text) == visible_lines(text) == escaped_signs(text) == text


@given(st.text())
def test_json_says_the_same_and_is_plain(text: str) -> None:
    shown = escaped_signs(json.dumps([text], ensure_ascii=False))

    assert json.loads(shown) == [text]
    assert not any(unicodedata.category(sign) in ("Cc", "Cf", "Cs") for sign in shown)


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1+1",
        "-x",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        '=HYPERLINK("http://x")',
        "＝1",
        "=cmd|'/c calc'!A0",
    ],
)
def test_no_cell_is_a_formula(text: str) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerow([spreadsheet_cell(text)])

    assert next(csv.reader(io.StringIO(stream.getvalue(), newline=""))) == [f"'{text}"]


@pytest.mark.parametrize("text", ["", "a=1", "alice", "1+1", "n1-n2", "–", "-5", "-0.25"])
def test_a_plain_cell_stays(text: str) -> None:
    assert spreadsheet_cell(text) == text
