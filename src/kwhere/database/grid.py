"""The grid of hours and days on which usage is summed: the site's.

Hours begin on the site's full hours, which are not UTC's in zones that are off by half an hour; every zone is a
multiple of five minutes from UTC, so 5-minute buckets fit into either.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.energy.emissions import BUCKET_NS

HOUR_NS = 3600 * NANOSECONDS_PER_SECOND
DAY_NS = 24 * HOUR_NS
_LAST_NS = 2**63 - 1
__all__ = ["BUCKET_NS", "DAY_NS", "HOUR_NS", "Grid", "from_ns", "to_ns"]


def to_ns(moment: datetime) -> int:
    """Return UTC nanoseconds of an aware datetime; what is after the year 2262 becomes the last that 64 bits hold."""
    return min(_LAST_NS, ((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)) * 1000)


def from_ns(moment_ns: int) -> datetime:
    """Return an aware UTC datetime, to the microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_ns // 1000)


@dataclass(frozen=True, slots=True)
class Grid:
    """Hours and days in one time zone."""

    zone: ZoneInfo

    def hour_start(self, moment_ns: int) -> int:
        """Return the start of the hour that holds `moment_ns`."""
        local = from_ns(moment_ns).astimezone(self.zone)
        # Without summer time, which is half an hour on one island: hours must never overlap.
        offset = (local.utcoffset() or timedelta()) - (local.dst() or timedelta())
        shift_ns = int(offset.total_seconds()) * NANOSECONDS_PER_SECOND % HOUR_NS
        return (moment_ns + shift_ns) // HOUR_NS * HOUR_NS - shift_ns

    def day_start(self, moment_ns: int) -> int:
        """Return the start of the day that holds `moment_ns`."""
        local = from_ns(moment_ns).astimezone(self.zone)
        return to_ns(datetime(local.year, local.month, local.day, tzinfo=self.zone))

    def day_end(self, moment_ns: int) -> int:
        """Return the end of the day that holds `moment_ns`: 23, 24 or 25 hours after its start."""
        local = from_ns(moment_ns).astimezone(self.zone).date() + timedelta(days=1)
        return to_ns(datetime(local.year, local.month, local.day, tzinfo=self.zone))

    def date_of(self, moment_ns: int) -> str:
        """Return the ISO date of the day that holds `moment_ns`."""
        return from_ns(moment_ns).astimezone(self.zone).date().isoformat()
