"""What providers write, read: no text whatever makes a figure that is none."""

import json
import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.errors import NoData, SourceError
from kwhere.core.timespan import Span
from kwhere.emission_factors.asking import complaint, describe, excerpt, scrub
from kwhere.emission_factors.electricity_maps import read_zones
from kwhere.emission_factors.entsoe_document import read_generation
from kwhere.emission_factors.file_rows import FileForm, read_rows
from kwhere.emission_factors.generation_mix import mix_rows
from kwhere.emission_factors.neso import parse_slot, read_slots
from kwhere.emission_factors.provider import Quality, Scope
from kwhere.emission_factors.rows import (
    MOST_GRAMS_PER_KWH,
    Row,
    in_order,
    listed,
    parse_grams,
    parse_time,
    pieces,
    utc_text,
)
from kwhere.emission_factors.rte import parse_record

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.sampled_from(["taux_co2", "date_heure", "from", "to", "intensity", "forecast", "actual", "data", "error"])
TIMES = st.sampled_from(["2026-01-01T00:00Z", "2026-01-01T00:30Z", "2026-01-01T00:00:00+00:00", "9999-12-31T23:59Z"])
SHAPED = st.recursive(
    JSON | TIMES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=25
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2018-01-20T12:00Z", datetime(2018, 1, 20, 12, tzinfo=UTC)),
        ("2025-01-15T12:00:00.000Z", datetime(2025, 1, 15, 12, tzinfo=UTC)),
        ("2025-01-15T19:00:00+07:00", datetime(2025, 1, 15, 12, tzinfo=UTC)),
        ("2026-10-25T02:30:00+02:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-10-25T02:30:00+01:00", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        ("2025-01-15T12:00:00", None),
        ("0001-01-01T00:00:00+10:00", None),
        ("9999-12-31T23:59:59-10:00", None),
        ("yesterday", None),
        ("", None),
        (1736942400, None),
        (None, None),
    ],
)
def test_a_time_needs_an_offset(value: object, expected: datetime | None) -> None:
    assert parse_time(value) == expected


FIGURES: list[tuple[object, float]] = [(67, 67.0), (67.4, 67.4), ("67.4", 67.4), (0, 0.0), (0.0, 0.0)]
NO_FIGURES: list[object] = [None, True, "", "n/a", -1, 5000.1, math.nan, math.inf, "nan", 10**400, [67], {}]


@pytest.mark.parametrize(("value", "expected"), [*FIGURES, *((value, None) for value in NO_FIGURES)])
def test_a_figure_is_a_number_within_reason_and_missing_is_not_zero(value: object, expected: float | None) -> None:
    assert parse_grams(value) == expected


@given(JSON)
def test_anything_is_a_figure_or_none(value: object) -> None:
    found = parse_grams(value)

    assert found is None or 0 <= found <= MOST_GRAMS_PER_KWH


@given(SHAPED)
def test_any_json_is_rows_or_an_error_of_ours(document: object) -> None:
    if isinstance(document, dict):
        parse_record(document)
    try:
        slots = list(read_slots(document, "place"))
        read_zones(document, "place")
        listed(document, ["data"], "place")
    except SourceError:
        return
    for slot in slots:
        for alone in (True, False):
            row = parse_slot(slot, forecast_alone=alone)
            assert row is None or row.span.start.utcoffset() == timedelta(0)


XML_PARTS = st.sampled_from(
    [
        *(
            f"<{slash}{name}>"
            for name in ("TimeSeries", "Period", "Point", "timeInterval", "Reason")
            for slash in ("", "/")
        ),
        *(f"<{slash}{name}_MarketDocument>" for name in ("GL", "Acknowledgement") for slash in ("", "/")),
        *("<MktPSRType><psrType>B14</psrType></MktPSRType>", "<curveType>A03</curveType>", "<code>999</code>"),
        *("<position>1</position>", "<position>99999</position>", "<quantity>5</quantity>", "<quantity>nan</quantity>"),
        *("<start>2026-01-01T00:00Z</start>", "<end>2026-01-02T00:00Z</end>"),
        *("<resolution>PT15M</resolution>", "<resolution>PT0M</resolution>"),
        *("&amp;", "&x;", "<!--", "<![CDATA[", "]]>"),
    ]
)


@given(st.lists(XML_PARTS | st.text(max_size=5), max_size=40).map("".join))
def test_any_xml_is_a_mix_or_an_error_of_ours(text: str) -> None:
    try:
        generation = read_generation(text, "place")
    except (SourceError, NoData):
        return
    for row in mix_rows(generation, Scope.LIFECYCLE):
        assert 0 <= row.grams_per_kwh <= 1300


CELLS = st.sampled_from(
    ["2026-01-01T00:00Z", "2026-01-02T00:00Z", "2026-01-01", "5", "-1", "", "x", '"', "FR", "measured"]
)
LINES = st.lists(st.lists(CELLS | st.text(max_size=6), max_size=4).map(",".join), max_size=6)


@given(LINES, st.booleans())
def test_any_file_is_rows_in_order_or_an_error_that_names_the_line(lines: list[str], as_json: bool) -> None:
    form = FileForm({}, "", 1.0, None, Quality.ESTIMATED)
    text = json.dumps(lines) if as_json else "\n".join(["start,grams_per_kwh,end,zone", *lines])
    try:
        rows = read_rows(text, form, "factors.csv", "FR", is_json=as_json)
    except SourceError as error:
        if not str(error).startswith("factors.csv"):
            raise
        return
    assert all(one.span.end <= other.span.start for one, other in pairwise(rows))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30), st.integers(0, 500)), max_size=20))
def test_rows_come_in_order_without_overlap_and_only_where_asked(parts: list[tuple[int, int, int]]) -> None:
    rows = [
        Row(Span(NOON + timedelta(minutes=at), NOON + timedelta(minutes=at + length)), float(grams), Quality.MEASURED)
        for at, length, grams in parts
    ]
    span = Span(NOON + timedelta(minutes=20), NOON + timedelta(minutes=60))

    found = in_order(rows, span)

    assert all(row.span.overlaps(span) for row in found)
    assert all(one.span.end <= other.span.start for one, other in pairwise(found))
    assert {row.span.start for row in found} <= {row.span.start for row in rows}
    assert bool(found) == any(row.span.overlaps(span) for row in rows)


def test_pieces_are_the_whole() -> None:
    span = Span(NOON, NOON + timedelta(days=30))

    found = list(pieces(span, timedelta(days=13)))

    assert [piece.seconds / 86400 for piece in found] == [13, 13, 4]
    assert (found[0].start, found[-1].end) == (span.start, span.end)
    assert all(one.end == other.start for one, other in pairwise(found))


def test_a_time_of_another_zone_is_written_in_utc() -> None:
    assert utc_text(datetime.fromisoformat("2026-11-29T19:00:00+07:00")) == "2026-11-29T12:00:00Z"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"status":"error","message":"Zone not found"}', "Zone not found"),
        (b'{"error":"bad key"}', "bad key"),
        (b'{"error":{"code":"400 Bad Request","message":"Please enter a valid date"}}', "Please enter a valid date"),
        (b'{"error":{"code":"500 Internal"}}', "500 Internal"),
        (b"<!DOCTYPE html><html><body><h1>502 Bad gateway</h1></body></html>", "HTML '502 Bad gateway'"),
        (b"", "nothing"),
        (b"\x1b[31mred\x00\n\nline", "text '[31mred line'"),
        (b"[1, 2]", "[1, 2]"),
    ],
)
def test_a_complaint_is_short_and_on_one_line(body: bytes, words: str) -> None:
    assert complaint(body) == words


@given(st.binary(max_size=500))
def test_any_body_can_be_described(body: bytes) -> None:
    for text in (describe(body), complaint(body)):
        assert text.isprintable()
        assert len(text) < 300


def test_secrets_are_scrubbed_and_nothing_else() -> None:
    assert scrub("key k1 and k2", ["k1", ""]) == "key … and k2"
    assert len(excerpt("x" * 500)) == 120
