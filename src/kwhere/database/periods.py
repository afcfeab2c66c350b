"""Days, ISO weeks and months of the site: where each begins and ends, and what it is called. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from kwhere.core.iso_week import IsoWeek
from kwhere.database.grid import Grid, from_ns, to_ns
from kwhere.database.records import UsageBy

PERIODS = frozenset({UsageBy.DAY, UsageBy.WEEK, UsageBy.MONTH})


@dataclass(frozen=True, slots=True)
class Period:
    """A day, week or month, UTC ns; where clocks change it is an hour shorter or longer than others."""

    key: str
    """`2026-10-25`, `2026-W43` or `2026-10`."""
    start_ns: int
    end_ns: int


def periods(grid: Grid, by: UsageBy, start_ns: int, end_ns: int) -> Sequence[Period]:
    """Return the periods that hold [start_ns, end_ns), whole, in time order; `by` is one of `PERIODS`."""
    found: list[Period] = []
    day = _first_day(_date_of(grid, start_ns), by)
    while (begin_ns := _midnight(grid, day)) < end_ns:
        after = _following(day, by)
        found.append(Period(_key(day, by), begin_ns, _midnight(grid, after)))
        day = after
    return found


def _date_of(grid: Grid, moment_ns: int) -> date:
    return from_ns(moment_ns).astimezone(grid.zone).date()


def _midnight(grid: Grid, day: date) -> int:
    return to_ns(datetime(day.year, day.month, day.day, tzinfo=grid.zone))


def _first_day(day: date, by: UsageBy) -> date:
    if by is UsageBy.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if by is UsageBy.MONTH else day


def _following(first: date, by: UsageBy) -> date:
    if by is UsageBy.MONTH:
        return (first + timedelta(days=31)).replace(day=1)
    return first + timedelta(days=7 if by is UsageBy.WEEK else 1)


def _key(first: date, by: UsageBy) -> str:
    if by is UsageBy.WEEK:
        return str(IsoWeek.of(first))
    return f"{first:%Y-%m}" if by is UsageBy.MONTH else first.isoformat()
