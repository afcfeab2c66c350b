import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.exposition.negotiation import accepts_gzip, choose_format
from kwhere.exposition.text import Format

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Format.TEXT),
        (PROMETHEUS_2, Format.OPENMETRICS_1),
        (PROMETHEUS_3, Format.OPENMETRICS_1),
        ("text/plain;version=0.0.4", Format.TEXT),
        ("application/openmetrics-text", Format.OPENMETRICS_1),
        ("Application/OpenMetrics-Text; Version=1.0.0", Format.OPENMETRICS_1),
        ('application/openmetrics-text; version="1.0.0"', Format.OPENMETRICS_1),
        ("application/openmetrics-text;version=0.0.1", Format.OPENMETRICS_0),
        ("application/openmetrics-text;version=2.0.0", Format.TEXT),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.3", Format.TEXT),
        ("text/plain;q=0.3,application/openmetrics-text;q=0.3", Format.TEXT),
        ("application/openmetrics-text;q=0.3,text/plain;q=0.3", Format.OPENMETRICS_1),
        ("application/openmetrics-text;q=0", Format.TEXT),
        ("application/openmetrics-text;q=nan,text/plain;q=0.1", Format.TEXT),
        ("application/openmetrics-text;q=2,text/plain;q=0.1", Format.TEXT),
        ("application/openmetrics-text;q=1.0005,text/plain;q=0.1", Format.TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", Format.TEXT),
        ("application/json", Format.TEXT),
        (";;;,,,=", Format.TEXT),
    ],
)
def test_format_is_the_one_liked_best(accept: str, expected: Format) -> None:
    assert choose_format(accept) is expected


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("", False),
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("identity", False),
        ("*", True),
        ("*;q=0", False),
        ("*;q=1,gzip;q=0", False),
        ("x-gzip", True),
        ("br;q=1.0, gzip;q=junk", False),
    ],
)
def test_gzip_only_where_it_is_accepted(accept_encoding: str, expected: bool) -> None:
    assert accepts_gzip(accept_encoding) is expected


@given(st.text(max_size=200))
def test_any_header_is_understood_somehow(header: str) -> None:
    assert choose_format(header) in Format
    assert accepts_gzip(header) in (True, False)


@given(st.lists(st.sampled_from(["text/plain", "application/openmetrics-text", ";q=0.", "5", ",", "version=1.0.0"])))
def test_any_pieces_are_understood_somehow(pieces: list[str]) -> None:
    assert choose_format("".join(pieces)) in Format


def test_long_header_costs_little() -> None:
    assert choose_format("x/y," * 100_000) is Format.TEXT
