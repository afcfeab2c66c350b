"""Sources of several zones: one that fails is left out, and which of several failures to show."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kwhere.core.errors import SourceError, Unavailable
from kwhere.meters.meter import Reading

ZoneT = TypeVar("ZoneT")

_WORST_FIRST = ("permission", "unsupported", "stuck", "absent")


def worst(failures: Sequence[Unavailable]) -> Unavailable:
    """Return the failure of several that a person can mend, else the one that says most. Not for an empty list."""
    rank = {reason: index for index, reason in enumerate(_WORST_FIRST)}
    return min(failures, key=lambda failure: rank.get(failure.reason, len(rank)))


def as_unavailable(error: Unavailable | SourceError) -> Unavailable:
    """Return `error`; nonsense from one zone is a zone that is not supported."""
    return error if isinstance(error, Unavailable) else Unavailable("unsupported", str(error))


def read_each(zones: Iterable[ZoneT], read: Callable[[ZoneT], Reading], failures: list[Unavailable]) -> list[Reading]:
    """Return the readings of the zones that answer; why the others do not is added to `failures`."""
    readings: list[Reading] = []
    for zone in zones:
        try:
            readings.append(read(zone))
        except (Unavailable, SourceError) as error:
            failures.append(as_unavailable(error))
    return readings


def read_all(zones: Iterable[ZoneT], read: Callable[[ZoneT], Reading]) -> list[Reading]:
    """Return the readings of the zones that answer. Raises Unavailable where none does."""
    failures: list[Unavailable] = []
    readings = read_each(zones, read, failures)
    if not readings:
        raise worst(failures)
    return readings
