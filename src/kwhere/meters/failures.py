"""Which of several failures of one source to show."""

from collections.abc import Sequence

from kwhere.core.errors import SourceError, Unavailable

_WORST_FIRST = ("permission", "unsupported", "stuck", "absent")


def worst(failures: Sequence[Unavailable]) -> Unavailable:
    """Return the failure of several that a person can mend, else the one that says most. Not for an empty list."""
    rank = {reason: index for index, reason in enumerate(_WORST_FIRST)}
    return min(failures, key=lambda failure: rank.get(failure.reason, len(rank)))


def as_unavailable(error: Unavailable | SourceError) -> Unavailable:
    """Return `error`; nonsense from one zone is a zone that is not supported."""
    return error if isinstance(error, Unavailable) else Unavailable("unsupported", str(error))
