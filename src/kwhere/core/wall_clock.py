"""What a clock on the wall shows in a time zone, and when: local times that are skipped, or come twice, included."""

from datetime import UTC, datetime, timedelta, tzinfo

_SECOND = timedelta(seconds=1)


def first_instant(local: datetime, zone: tzinfo) -> datetime:
    """Return, in UTC, the first instant at which clocks in `zone` show `local` (naive) or later.

    So a time that a change of clocks skips is the instant of the change, and of one that comes twice it is the first.
    """
    found = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _shown(found, zone) <= local:
        return found
    # Skipped: read with the offset after the change it lies before the change, with the one before behind it.
    before, after = local.replace(tzinfo=zone, fold=1).astimezone(UTC), found
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        if _shown(middle, zone) < local:
            before = middle
        else:
            after = middle
    return after


def _shown(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
