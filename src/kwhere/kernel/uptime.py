"""`/proc/uptime`: how long the host is up (proc(5))."""

from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import excerpt, fraction


@dataclass(frozen=True, slots=True)
class Uptime:
    """Nanoseconds since boot, suspend included, to a hundredth of a second."""

    uptime_ns: int


def parse_uptime(text: str, place: str = "proc/uptime") -> Uptime:
    """Return the first number of the file. Raises SourceError."""
    words = text.split()
    if not words:
        raise SourceError(f"{place}: expected two numbers, found {excerpt(text)}")
    return Uptime(fraction(words[0], place, 9))
