"""What a site may say of its reports, and what it is told when it is wrong."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kwhere.reports.settings import ReportSettings, WeeklyReportSettings


@pytest.mark.parametrize(
    ("written", "clock"),
    [
        pytest.param("02:30", datetime.time(2, 30), id="text"),
        pytest.param("23:59:59", datetime.time(23, 59, 59), id="with-seconds"),
        pytest.param(750, datetime.time(12, 30), id="12:30-without-quotes-as-yaml-reads-it"),
        pytest.param(600, datetime.time(10, 0), id="10:00-without-quotes"),
    ],
)
def test_a_time_of_day_is_what_was_written_case_users_51(written: object, clock: datetime.time) -> None:
    assert WeeklyReportSettings.model_validate({"time": written}).time == clock


@pytest.mark.parametrize("written", ["24:30", "2:30", "02:30+01:00", "half past two", "", 1440, -1, True, None, 2.5])
def test_what_is_no_time_of_day_is_refused(written: object) -> None:
    with pytest.raises(ValidationError, match="expected a time of day such as"):
        WeeklyReportSettings.model_validate({"time": written})


@given(written=st.text(max_size=10) | st.integers() | st.floats() | st.binary(max_size=5))
def test_anything_is_a_time_of_day_or_refused(written: object) -> None:
    try:
        found = WeeklyReportSettings.model_validate({"time": written}).time
    except ValidationError:
        return
    assert found.tzinfo is None


@pytest.mark.parametrize("name", ["../week", "Weekly", "", "a b", "-x", "n" * 64])
def test_a_name_is_one_of_a_file(name: str) -> None:
    with pytest.raises(ValidationError):
        WeeklyReportSettings.model_validate({"name": name})


def test_two_reports_have_two_names() -> None:
    with pytest.raises(ValidationError, match="name of its own, found weekly twice"):
        ReportSettings.model_validate({"weekly": [{}, {"by": "user"}]})
