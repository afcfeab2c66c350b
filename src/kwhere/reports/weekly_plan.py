"""Which weeks of a report are to be written now, which were missed for too long. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, tzinfo

from kwhere.core.iso_week import IsoWeek
from kwhere.reports.settings import WeeklyReportSettings


@dataclass(frozen=True, slots=True)
class WeeklyPlan:
    """Weeks, the oldest first."""

    due: tuple[IsoWeek, ...]
    missed: tuple[IsoWeek, ...]
    """Too many weeks ago; they are not written by themselves any more."""


def plan_weeks(
    settings: WeeklyReportSettings,
    zone: tzinfo,
    now: datetime,
    written: Collection[IsoWeek],
    known: Collection[IsoWeek],
) -> WeeklyPlan:
    """Return what to do at `now`, given the weeks that were `written` and all that were ever looked at.

    A report begins with the newest week that is over when it is first looked at. What was written is asked by week, not
    by "since the last time": clocks that go back, and a site that moves to another zone, write nothing twice.
    """
    newest = newest_due(settings, zone, now)
    first = min((newest, *known))
    oldest = max(first, newest.later(1 - settings.catch_up_weeks))
    return WeeklyPlan(
        due=tuple(week for week in _weeks(oldest, newest) if week not in written),
        missed=tuple(week for week in _weeks(first, oldest.later(-1)) if week not in known),
    )


def newest_due(settings: WeeklyReportSettings, zone: tzinfo, now: datetime) -> IsoWeek:
    """Return the newest week whose report is due at `now`."""
    week = IsoWeek.of(now.astimezone(zone).date())
    while due_at(settings, zone, week) > now:
        week = week.later(-1)
    return week


def due_at(settings: WeeklyReportSettings, zone: tzinfo, week: IsoWeek) -> datetime:
    """Return when the report of `week` is due: at its day and time in the week after, never before it is over."""
    return max(week.span(zone).end, week.later(1).instant(settings.day.number, settings.time, zone))


def _weeks(first: IsoWeek, last: IsoWeek) -> list[IsoWeek]:
    found: list[IsoWeek] = []
    while first <= last:
        found.append(first)
        first = first.later(1)
    return found
