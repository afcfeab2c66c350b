"""Times as people type them."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.cli.moments import parse_moment
from kwhere.core.errors import ConfigError

NOW = datetime.fromisoformat("2026-11-29T18:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("now", timedelta()),
        ("now-7days", timedelta(days=7)),
        ("7d", timedelta(days=7)),
        ("90min", timedelta(minutes=90)),
        ("now-2hours", timedelta(hours=2)),
        ("1w", timedelta(weeks=1)),
    ],
)
def test_relative_times(text: str, ago: timedelta) -> None:
    assert datetime.fromisoformat(parse_moment(text, NOW)) == NOW - ago


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00Z"),
        ("2026-10-25T02:30:00Z", "2026-10-25T02:30:00Z"),
    ],
)
def test_absolute_times_keep_their_offset(text: str, moment: str) -> None:
    assert parse_moment(text, NOW) == moment


@pytest.mark.parametrize("text", ["today", "2026-10-25", "10/25/26", "10/25/2026"])
def test_a_date_is_a_midnight_of_the_system_zone(text: str) -> None:
    local = datetime.fromisoformat(parse_moment(text, NOW)).astimezone()

    assert (local.hour, local.minute, local.second) == (0, 0, 0)


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_a_clear_error(text: str) -> None:
    try:
        parsed = parse_moment(text, NOW)
    except (ConfigError, OverflowError):
        return

    assert datetime.fromisoformat(parsed).utcoffset() == timedelta()
