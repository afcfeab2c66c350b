"""Spans as people write them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.core.timespan import Span
from kwhere.reports.spans import parse_duration, parse_moment, parse_span

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15min", 900), ("15 min", 900), ("5m", 300), ("1h", 3600), ("7d", 604800), ("2w", 1209600)],
)
def test_lengths(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "0h", "-1h", "1y", "1.5h", "9999999d", "1h1", "٣h"])
def test_what_is_not_a_length(text: str) -> None:
    with pytest.raises(ValueError, match="length"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("-1h", NOW - timedelta(hours=1)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1795975200.5", datetime(2026, 11, 29, 18, 0, 0, 500000, tzinfo=UTC)),
        ("2026-11-29", datetime(2026, 11, 29, tzinfo=UTC)),
        ("2026-11-29T18:00:00Z", NOW),
        ("2026-11-29T19:00:00+01:00", NOW),
        ("2026-11-29T19:00:00 01:00", NOW),
        ("2026-11-29 18:00", NOW),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert parse_moment(text, NOW) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "nan", "inf", "1e99", "2026-13-01", "9999-12-31T23:59:59-14:00", "-"]
)
def test_what_is_not_a_moment(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_moment(text, NOW)


def test_a_missing_start_is_the_default_before_the_end() -> None:
    span = parse_span(None, "2026-11-29T12:00:00Z", NOW, timedelta(hours=2))

    assert span == Span(datetime(2026, 11, 29, 10, tzinfo=UTC), datetime(2026, 11, 29, 12, tzinfo=UTC))


def test_nothing_asked_and_no_default_is_no_span() -> None:
    assert parse_span(None, None, NOW, None) is None


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="before"):
        parse_span("-1h", "-2h", NOW, None)


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_a_value_error(text: str) -> None:
    try:
        moment = parse_moment(text, NOW)
    except ValueError:
        return
    assert moment.utcoffset() == timedelta(0)
