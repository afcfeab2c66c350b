"""Times of the settings and of site files: with an offset, or on the site's wall clock."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo


def to_utc(moment: date | datetime, zone: ZoneInfo) -> datetime:
    """Return a date (its first moment), a local time or a time with an offset as UTC.

    Raises ValueError for a local time that a change of clocks skips or repeats: that is nobody's to guess.
    """
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=zone).astimezone(UTC)
    if moment.utcoffset() is not None:
        return moment.astimezone(UTC)
    first, second = moment.replace(tzinfo=zone, fold=0), moment.replace(tzinfo=zone, fold=1)
    if first.utcoffset() != second.utcoffset():
        why = "is skipped by" if first.astimezone(UTC) > second.astimezone(UTC) else "comes twice with"
        raise ValueError(f"{moment} {why} the change of clocks in {zone.key}; write its offset")
    return first.astimezone(UTC)
