"""Weeks as ISO 8601 counts them: from Monday on, and each belongs to the year that has its Thursday."""

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from kwhere.core.timespan import Span
from kwhere.core.wall_clock import first_instant

_KEY = re.compile(r"([0-9]{4})-W([0-9]{2})")
DAYS = 7


@dataclass(frozen=True, slots=True, order=True)
class IsoWeek:
    """A week of a year."""

    year: int
    number: int
    """1 to 52, or 53 in years that have so many."""

    @classmethod
    def of(cls, day: date) -> "IsoWeek":
        """Return the week that holds `day`."""
        year, number, _ = day.isocalendar()
        return cls(year, number)

    @classmethod
    def parse(cls, text: str) -> "IsoWeek":
        """Return the week of `2026-W53`. Raises ValueError, also for one that its year does not have."""
        found = _KEY.fullmatch(text)
        if found is None:
            raise ValueError(f"expected a week such as 2026-W53, found {text[:40]!r}")
        year, number = int(found[1]), int(found[2])
        try:
            return cls.of(date.fromisocalendar(year, number, 1))
        except ValueError:
            raise ValueError(f"expected a week that its year has, found {text!r}") from None

    def __str__(self) -> str:
        return f"{self.year:04d}-W{self.number:02d}"

    @property
    def monday(self) -> date:
        """Return its first day."""
        return date.fromisocalendar(self.year, self.number, 1)

    def later(self, weeks: int) -> "IsoWeek":
        """Return the week so many weeks after this one, or before it."""
        return IsoWeek.of(self.monday + timedelta(days=DAYS * weeks))

    def span(self, zone: tzinfo) -> Span:
        """Return it as the clocks of `zone` have it: 168 h, or an hour more or less where they change."""
        return Span(_midnight(self.monday, zone), _midnight(self.monday + timedelta(days=DAYS), zone))

    def instant(self, weekday: int, clock: time, zone: tzinfo) -> datetime:
        """Return, in UTC, when `zone` first shows `clock` on a weekday of this week, 0 for Monday."""
        return first_instant(datetime.combine(self.monday + timedelta(days=weekday), clock), zone)


def _midnight(day: date, zone: tzinfo) -> datetime:
    return first_instant(datetime.combine(day, time()), zone)
