"""Times as people type them."""

import time
from collections.abc import Iterator
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
        ("30s", timedelta(seconds=30)),
        ("-30s", timedelta(seconds=30)),
        ("45secs", timedelta(seconds=45)),
        ("now-30s", timedelta(seconds=30)),
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


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# The present is Sunday, 2026-11-29 19:00 in Zurich, an hour before UTC.
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("14:30", "2026-11-29T13:30:00Z"),
        ("23:15:30", "2026-11-29T22:15:30Z"),
        ("2:05pm", "2026-11-29T13:05:00Z"),
        ("12:00 AM", "2026-11-28T23:00:00Z"),
        ("noon", "2026-11-29T11:00:00Z"),
        ("teatime", "2026-11-29T15:00:00Z"),
        ("midnight", "2026-11-28T23:00:00Z"),
        ("yesterday", "2026-11-27T23:00:00Z"),
        ("tomorrow", "2026-11-29T23:00:00Z"),
        ("10/25", "2026-10-24T22:00:00Z"),
        ("10.25.26", "2026-10-24T22:00:00Z"),
        ("1025", "2026-10-24T22:00:00Z"),
        ("102526", "2026-10-24T22:00:00Z"),
        ("10/25/26-14:00", "2026-10-25T13:00:00Z"),
        ("2026-11-01", "2026-10-31T23:00:00Z"),
        ("2026-11-01T06:00", "2026-11-01T05:00:00Z"),
        ("2026-11-01 06:00:00", "2026-11-01T05:00:00Z"),
        ("now+1hour", "2026-11-29T19:00:00Z"),
        ("now-90", "2026-11-29T17:58:30Z"),
        ("now - 5 minutes", "2026-11-29T17:55:00Z"),
        ("-1h", "2026-11-29T17:00:00Z"),
        ("@1764000000", "2025-11-24T16:00:00Z"),
        ("1764000000", "2025-11-24T16:00:00Z"),
        # twice in the night the clocks go back: the first of them
        pytest.param("2026-10-25T02:30:00", "2026-10-25T00:30:00Z", id="case_users_49_twice"),
        pytest.param("2026-10-25T02:30:00+01:00", "2026-10-25T01:30:00Z", id="case_users_49_second"),
    ],
)
@pytest.mark.usefixtures("zurich")
def test_times_are_read_as_sacct_reads_them(text: str, moment: str) -> None:
    assert parse_moment(text, NOW) == moment


@pytest.mark.usefixtures("zurich")
def test_a_time_that_the_spring_leaves_out_is_one_beside_it_case_users_49() -> None:
    assert parse_moment("2026-03-29T02:30:00", NOW) in ("2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z")


@pytest.mark.usefixtures("zurich")
def test_today_begins_at_the_midnight_of_its_own_offset() -> None:
    after_the_change = datetime.fromisoformat("2026-10-25T12:00:00+00:00")

    assert parse_moment("today", after_the_change) == "2026-10-24T22:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "25:00",
        "13:00pm",
        "13/45",
        "0230",
        "7 fortnights",
        "now-",
        "now-1x",
        "2026-13-01",
        "now+9999999 weeks",
    ],
)
def test_what_is_no_time_says_what_is(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected .* today, now-7days"):
        parse_moment(text, NOW)


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_a_clear_error(text: str) -> None:
    try:
        parsed = parse_moment(text, NOW)
    except ConfigError:
        return

    assert datetime.fromisoformat(parsed).utcoffset() == timedelta()
