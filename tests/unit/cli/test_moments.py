"""Times as people type them."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwhere.cli.moments import parse_moment, read_moment, read_window
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
        ("1h30m", timedelta(minutes=90)),
        ("-1h30m", timedelta(minutes=90)),
        ("now-1h30m", timedelta(minutes=90)),
        ("1d 12h", timedelta(hours=36)),
        ("2weeks3days", timedelta(days=17)),
        ("3hrs", timedelta(hours=3)),
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
        ("uts1764000000", "2025-11-24T16:00:00Z"),
        ("@0", "1970-01-01T00:00:00Z"),
        ("noon tomorrow", "2026-11-30T11:00:00Z"),
        ("Tomorrow Noon", "2026-11-30T11:00:00Z"),
        ("today 14:00", "2026-11-29T13:00:00Z"),
        ("teatime 10/26", "2026-10-26T15:00:00Z"),
        ("2026-10-26-elevenses", "2026-10-26T10:00:00Z"),
        ("fika", "2026-11-29T14:00:00Z"),
        ("10/26-2:30 PM", "2026-10-26T13:30:00Z"),
        ("2:30pm 10/26", "2026-10-26T13:30:00Z"),
        ("1026-14:30:15", "2026-10-26T13:30:15Z"),
        ("102625-14:30", "2025-10-26T13:30:00Z"),
        ("10.26.25T14:30", "2025-10-26T13:30:00Z"),
        ("2026-1-5", "2026-01-04T23:00:00Z"),
        ("2026-10-26T02", "2026-10-26T01:00:00Z"),
        ("20261026", "2026-10-25T23:00:00Z"),
        # of a month that is ahead, that of the year before
        ("12/25", "2025-12-24T23:00:00Z"),
        ("1225-12:00", "2025-12-25T11:00:00Z"),
        ("11/30", "2026-11-29T23:00:00Z"),
        ("2024-02-29", "2024-02-28T23:00:00Z"),
        pytest.param("2026-10-25T02:30:00+01:00", "2026-10-25T01:30:00Z", id="case_users_49_second"),
    ],
)
@pytest.mark.usefixtures("zurich")
def test_times_are_read_as_sacct_reads_them(text: str, moment: str) -> None:
    assert parse_moment(text, NOW) == moment


def zone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let this machine be in a zone until the test's end."""
    monkeypatch.setenv("TZ", name)
    time.tzset()


@pytest.fixture
def other_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


# Half an hour on one island, at midnight in some countries, a whole day once.
@pytest.mark.parametrize(
    ("name", "text", "first", "second"),
    [
        ("Europe/Zurich", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ("Europe/Zurich", "10/25-2:30 am", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ("Europe/Zurich", "2026-10-25T02", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"),
        ("America/New_York", "2026-11-01T01:30", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
        ("America/Santiago", "2026-04-04T23:30", "2026-04-05T02:30:00Z", "2026-04-05T03:30:00Z"),
        ("Australia/Lord_Howe", "2026-04-05T01:45", "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"),
    ],
)
def test_case_users_49_of_a_time_that_comes_twice_a_span_holds_both(
    other_zones: pytest.MonkeyPatch, name: str, text: str, first: str, second: str
) -> None:
    zone(other_zones, name)

    start, end = (read_moment(text, NOW, is_end=is_end) for is_end in (False, True))

    assert (start.iso, end.iso) == (first, second)
    assert "comes twice here: taken is the first, " in (start.note or "")
    assert "comes twice here: taken is the second, " in (end.note or "")


@pytest.mark.parametrize(
    ("name", "text", "change"),
    [
        ("Europe/Zurich", "2026-03-29T02:30:00", "2026-03-29T01:00:00Z"),
        ("Europe/Zurich", "2026-03-29T02:59:59", "2026-03-29T01:00:00Z"),
        ("America/New_York", "03/08-02:15", "2026-03-08T07:00:00Z"),
        ("America/Santiago", "2026-09-06T00:30", "2026-09-06T04:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:30:00Z"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00:00Z"),
    ],
)
@pytest.mark.parametrize("is_end", [False, True])
def test_case_users_49_a_time_that_the_clocks_leave_out_is_their_change(
    other_zones: pytest.MonkeyPatch, name: str, text: str, change: str, is_end: bool
) -> None:
    zone(other_zones, name)

    moment = read_moment(text, NOW, is_end=is_end)

    assert moment.iso == change
    assert "is left out by the clocks here: taken is their change, " in (moment.note or "")


@pytest.mark.parametrize(
    ("name", "text", "begins"),
    [
        ("America/Santiago", "2026-09-06", "2026-09-06T04:00:00Z"),
        ("America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"),
        ("America/Havana", "midnight 11/01", "2026-11-01T04:00:00Z"),
        ("Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00Z"),
        ("Asia/Kolkata", "2026-04-24", "2026-04-23T18:30:00Z"),
    ],
)
@pytest.mark.parametrize("is_end", [False, True])
def test_a_day_begins_with_its_first_instant(
    other_zones: pytest.MonkeyPatch, name: str, text: str, begins: str, is_end: bool
) -> None:
    zone(other_zones, name)

    moment = read_moment(text, NOW, is_end=is_end)

    assert (moment.iso, moment.note) == (begins, None)


@pytest.mark.usefixtures("zurich")
def test_a_window_says_how_its_times_were_read(capsys: pytest.CaptureFixture[str]) -> None:
    window = read_window("2026-10-25T02:30", "2026-10-25T02:30", NOW)

    assert window == {"from": "2026-10-25T00:30:00Z", "to": "2026-10-25T01:30:00Z"}
    assert capsys.readouterr().err.count("comes twice here") == 2
    assert read_window(None, None, NOW) == {"from": None, "to": None}


@pytest.mark.parametrize(
    ("start", "end"), [("today", "yesterday"), ("12:00", "12:00"), ("tomorrow", None), ("now", "now-1hour")]
)
def test_a_window_that_ends_before_it_starts_is_refused(start: str, end: str | None) -> None:
    with pytest.raises(ConfigError, match=r"^--endtime: expected one after --starttime, found \d{4}-"):
        read_window(start, end, NOW)


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
        "1h30",
        "2mo",
        "1year",
        "24:00",
        "12:60",
        "14:30:61",
        "13:00 am",
        "0:30 pm",
        "2023-02-29",
        "10/25 11/01",
        "12:00 noon",
        "today tomorrow",
        "today-1",
        "2026-10-25T",
        "-2026-10-25",
        "@-5",
        "uts",
        "1764000000123",
        "1969-12-31",
        "now+",
        "now now",
        "2026-10-25T02:30+25:00",
        "14:30\0",
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


ZONES = (
    *("Europe/Zurich", "America/Santiago", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Africa/Cairo"),
    *("Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca", "Antarctica/Troll", "UTC"),
)


@given(st.sampled_from(ZONES), st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)))  # noqa: DTZ001 - local times
def test_any_local_time_is_its_instant_or_is_told(name: str, local: datetime) -> None:
    with pytest.MonkeyPatch.context() as patch:
        zone(patch, name)
        local = local.replace(microsecond=0)

        start, end = (read_moment(local.isoformat(), NOW, is_end=is_end) for is_end in (False, True))

        shown = [moment.at.astimezone().replace(tzinfo=None) for moment in (start, end)]
        assert start.at <= end.at
        assert (shown == [local, local] and (start.at < end.at) == (start.note is not None)) or (
            start.at == end.at and start.note is not None and "left out" in start.note
        )
        day = read_moment(local.date().isoformat(), NOW)
        assert day.at <= start.at
        assert day.note is None
    time.tzset()
