"""Why SLURM gives no answer, by its own words: the same ones by its commands and by slurmrestd. Pure."""

from kwhere.core.errors import Unavailable

_OFF = ("accounting storage is disabled", "accounting_storage/none", "supported accounting_storage plugin")
_REFUSED = (
    "access/permission denied",
    "permission denied",
    "not authorized",
    "authentication",
    "insufficient privilege",
)
_TOO_MUCH = ("too wide of a date range", "exceeds size limit")
"""MaxQueryTimeRange and the largest answer of slurmdbd."""


def is_too_much(words: str) -> bool:
    """Return whether slurmdbd would have answered a question about a shorter time."""
    return any(sign in words.lower() for sign in _TOO_MUCH)


def refusal(place: str, words: str) -> Unavailable:
    """Return what `words` say: accounting is off, one may not ask, or else that it went wrong there."""
    lower = words.lower()
    if any(sign in lower for sign in _OFF):
        return Unavailable("unsupported", f"{place}: accounting is off on this cluster: {words}")
    if any(sign in lower for sign in _REFUSED):
        return Unavailable("permission", f"{place}: this user may not ask: {words}")
    return Unavailable("refused", f"{place}: {words}")
