"""Which reports are written by themselves, when and where."""

import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from kwhere.database.records import UsageBy
from kwhere.reports.usage_text import UsageStyle


class Weekday(StrEnum):
    """A day of the week by its English name."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"

    @property
    def number(self) -> int:
        """Return 0 for Monday to 6 for Sunday."""
        return list(Weekday).index(self)


def _clock(value: object) -> object:
    """Return `HH:MM` as a time. YAML reads 12:30 without quotes as the number 750: minutes since midnight."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return datetime.time(value // 60, value % 60)
    try:
        found = datetime.time.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, datetime.time) or found.tzinfo is not None or found.microsecond:
        raise ValueError(f'expected a time of day such as "02:30", found {value!r}')
    return found


class WeeklyReportSettings(BaseModel):
    """A report of each ISO week of the site, as `kwhere report --week` prints it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        default="weekly",
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="Name of the report, in file names and metrics; weeks written under another name do not count.",
    )
    day: Weekday = Field(
        default=Weekday.MONDAY, description="Day of the following week on which it is due, in the site's time zone."
    )
    time: Annotated[datetime.time, BeforeValidator(_clock)] = Field(
        default=datetime.time(6),
        description="Time of that day, e.g. `06:00`. One that the clocks skip: the first instant after; one that comes"
        " twice: the first.",
    )
    by: UsageBy = Field(default=UsageBy.PROJECT, description="What a row stands for, as `kwhere report --by`.")
    cluster: str | None = Field(default=None, description="Only units of this cluster.")
    format: UsageStyle = Field(default=UsageStyle.TEXT, description="As `kwhere report` prints it: text, csv or json.")
    directory: Path | None = Field(
        default=None, description="Where files `NAME-2026-W53.txt` are put; None: `reports` in the state directory."
    )
    wait_hours: float = Field(
        default=3.0,
        ge=0,
        le=168,
        description="Hours that a week is waited for while nodes have not been read up to its end; then it is written"
        " as it is, and says how complete it is.",
    )
    catch_up_weeks: int = Field(
        default=8, ge=1, le=520, description="Weeks that are written later when nobody was there to write them."
    )


class ReportSettings(BaseModel):
    """Reports that the server writes by itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weekly: tuple[WeeklyReportSettings, ...] = Field(
        default=(), description="Reports of each week, written once. None: off."
    )

    @field_validator("weekly")
    @classmethod
    def _distinct(cls, value: tuple[WeeklyReportSettings, ...]) -> tuple[WeeklyReportSettings, ...]:
        names = [each.name for each in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected each report to have a name of its own, found {', '.join(twice)} twice")
        return value
