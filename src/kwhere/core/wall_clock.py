"""What a clock on the wall shows in a time zone, and when: local times that are skipped, or come twice, included."""

from datetime import UTC, datetime, timedelta, tzinfo

_SECOND = timedelta(seconds=1)


def first_instant(local: datetime, zone: tzinfo | None) -> datetime:
    """Return, in UTC, the first instant at which clocks in `zone` (None: the system's) show `local` (naive) or later.

    So a time that a change of clocks skips is the instant of the change, and of one that comes twice it is the first.
    """
    # Sorted: of a skipped time the system's zone has them the other way round.
    early, late = sorted(local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if _shown(early, zone) == local:
        return early
    # Skipped: between the two clocks change, at a whole second.
    before, after = early.replace(microsecond=0), late.replace(microsecond=0)
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        if _shown(middle, zone) < local:
            before = middle
        else:
            after = middle
    return after


def _shown(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
