"""`/proc/loadavg`: tasks that run or wait (proc(5))."""

from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import excerpt, fraction


@dataclass(frozen=True, slots=True)
class LoadAverage:
    """Mean numbers of tasks over 1, 5 and 15 minutes, in hundredths as the kernel writes them."""

    load1_hundredths: int
    load5_hundredths: int
    load15_hundredths: int


def parse_loadavg(text: str, place: str = "proc/loadavg") -> LoadAverage:
    """Return the three means. Raises SourceError."""
    words = text.split()
    if len(words) < 3:
        raise SourceError(f"{place}: expected three means, found {excerpt(text)}")
    one, five, fifteen = (fraction(word, place, 2) for word in words[:3])
    return LoadAverage(one, five, fifteen)
