"""The reader of the text format; prometheus_client's is the oracle."""

import contextlib
import math
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kwhere.core.errors import SourceError
from kwhere.series.parse import ExpositionParser, ParsedSample, parse_exposition


def oracle(page: str) -> list[tuple[str, tuple[tuple[str, str], ...], str, int | None]]:
    """Return what prometheus_client reads; values by their text, for NaN's sake."""
    return [
        (
            sample.name,
            tuple(sorted((k, v) for k, v in sample.labels.items() if v)),
            repr(float(sample.value)),
            None if sample.timestamp is None else round(float(sample.timestamp) * 1000),
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]


def ours(samples: list[ParsedSample]) -> list[tuple[str, tuple[tuple[str, str], ...], str, int | None]]:
    return [(s.name, s.labels, repr(s.value), s.time_ms) for s in samples]


def test_a_page_is_read_in_its_order() -> None:
    page = (
        b"# HELP a_total What a is.\n# TYPE a_total counter\n"
        b'a_total{mode="user"} 1.5\n\n'
        b'\ta_total { mode = "sys\\"t\\\\em\\n" , x="}" , } 2e3 1700000000123\n'
        b"b +Inf\r\n"
        b"c{} -0"
    )

    assert parse_exposition(page) == [
        ("a_total", (("mode", "user"),), 1.5, None),
        ("a_total", (("mode", 'sys"t\\em\n'), ("x", "}")), 2000.0, 1_700_000_000_123),
        ("b", (), math.inf, None),
        ("c", (), 0.0, None),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a", "a value"),
        ("a one", "a number"),
        ("a 1_000", "a number"),
        ("a 0x1p3", "a number"),
        ("a 1 2 3", "at most a timestamp"),
        ("a 1 2.5", "timestamp"),
        ("1a 1", "metric name"),
        ("a-b 1", "metric name"),
        ('a{b="c} 1', "labels"),
        ('a{b="c"d="e"} 1', "labels"),
        ('a{b="\\t"} 1', "labels"),
        ('a{1b="c"} 1', "labels"),
        ("a{b=c} 1", "labels"),
        ("a{,} 1", "labels"),
        ('a{b="1",b="2"} 1', "once"),
        ('a{b="1"', "metric name"),
        ('{b="1"} 1', "metric name"),
        ("<html>", "metric name"),
        ("\x0b", "metric name"),
        ("a 1\x0b2", "a number"),
        ("a\u00a01", "metric name"),
    ],
)
def test_a_bad_line_refuses_the_page_and_is_named(line: str, words: str) -> None:
    with pytest.raises(SourceError, match=rf"line 3: expected .*{words}"):
        parse_exposition(f"good 1\n# comment\n{line}\n".encode())


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(SourceError, match="0xff at 2"):
        parse_exposition(b"a \xff")


def test_labels_of_the_scrape_are_added_and_the_pages_own_renamed() -> None:
    parser = ExpositionParser((("cluster", "c"), ("node", "n1")))

    for _ in range(2):  # parsed, then remembered
        assert parser.parse(b'up{node="lies",a="1"} 1') == [
            ("up", (("a", "1"), ("cluster", "c"), ("exported_node", "lies"), ("node", "n1")), 1.0, None)
        ]


def test_series_that_went_are_forgotten() -> None:
    parser = ExpositionParser()
    for number in range(100):
        parser.parse(f'a{{n="{number}"}} 1'.encode())

    assert len(parser._known) == 1


NAME = st.text(string.ascii_letters + "_:", min_size=1, max_size=8)
LABEL = st.text(string.ascii_letters + "_", min_size=1, max_size=5)
LINE_ENDS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters=LINE_ENDS), max_size=8)
ODD = st.sampled_from(["+Inf", "-Inf", "NaN", "1e5", "1.", ".5"])
VALUE = st.one_of(st.floats().map(repr), st.integers().map(str), ODD)


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(LABEL, TEXT, max_size=4))
    inside = ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())
    comma = draw(st.sampled_from(["", ","]))
    time = draw(st.one_of(st.just(""), st.integers(0, 2**41).map(" {}".format)))
    return draw(NAME) + ("{" + inside + comma + "}" if labels else "") + " " + draw(VALUE) + time


@given(st.lists(lines(), max_size=12))
def test_an_honest_page_is_read_as_the_oracle_reads_it(page_lines: list[str]) -> None:
    page = "\n".join(page_lines) + "\n"

    assert ours(parse_exposition(page.encode())) == oracle(page)


@given(st.lists(lines(), max_size=6), st.lists(lines(), max_size=6))
def test_a_parser_that_remembers_reads_the_same(first: list[str], second: list[str]) -> None:
    parser = ExpositionParser()
    parser.parse("\n".join(first).encode())

    page = "\n".join([*first, *second]).encode()

    assert ours(parser.parse(page)) == ours(parse_exposition(page))


@given(lines(), st.integers(0, 200), st.sampled_from(list('{}"\\,= \t#\n1a\x00é')), st.booleans())
@example('a{b="c"} 1', 0, "#", True)
def test_a_mutated_line_is_read_or_refused_and_never_read_otherwise(
    line: str, place: int, letter: str, insert: bool
) -> None:
    place %= len(line) + 1
    page = line[:place] + letter + line[place + (0 if insert else 1) :] + "\n"
    try:
        found = ours(parse_exposition(page.encode()))
    except SourceError:
        return
    try:
        expected = oracle(page)
    except (ValueError, IndexError, KeyError, UnboundLocalError):
        return
    assert found == expected


@given(st.binary(max_size=200))
@example(b"\x0b")
@example(b"a 1\x0b2")
@example("a\u00a01".encode())
def test_any_bytes_are_read_or_refused(page: bytes) -> None:
    with contextlib.suppress(SourceError):
        parse_exposition(page)
