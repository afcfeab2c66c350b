"""When clocks on the wall first show a time, where they are changed too."""

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from kwhere.core.wall_clock import first_instant

CASES = [
    ("2026-07-01T02:30", "2026-07-01T00:30:00"),
    ("2026-03-29T02:30", "2026-03-29T01:00:00"),
    ("2026-03-29T02:00:00.25", "2026-03-29T01:00:00"),
    ("2026-03-29T03:00", "2026-03-29T01:00:00"),
    ("2026-10-25T02:30", "2026-10-25T00:30:00"),
]


@pytest.mark.parametrize(("local", "instant"), CASES)
def test_a_skipped_time_is_the_change_and_one_that_comes_twice_the_first(local: str, instant: str) -> None:
    found = first_instant(datetime.fromisoformat(local), ZoneInfo("Europe/Paris"))

    assert found == datetime.fromisoformat(instant).replace(tzinfo=UTC)


@pytest.mark.parametrize(("local", "instant"), CASES)
def test_the_system_s_zone_is_a_zone_like_any(monkeypatch: pytest.MonkeyPatch, local: str, instant: str) -> None:
    with monkeypatch.context() as here:
        here.setenv("TZ", "Europe/Paris")
        time.tzset()
        found = first_instant(datetime.fromisoformat(local), None)
    time.tzset()

    assert found == datetime.fromisoformat(instant).replace(tzinfo=UTC)
