"""Pressure stall information: `/proc/pressure/*` and `*.pressure` of a cgroup (Documentation/accounting/psi.rst)."""

from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import counter, excerpt

RESOURCES = ("cpu", "memory", "io", "irq")
"""Files of `/proc/pressure`; `irq` from kernel 6.1 and only with interrupt time accounting."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """Stalled microseconds since boot: `some` task waited, or all of them (`full`). None where there is no line."""

    some_us: int | None = None
    full_us: int | None = None


def parse_pressure(text: str, place: str) -> Pressure:
    """Return the totals of one pressure file. Raises SourceError."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        kind, _, rest = line.partition(" ")
        if kind in ("some", "full"):
            found[f"{kind}_us"] = _total(rest, place)
    if not found:
        raise SourceError(f"{place}: expected a line some or full, found {excerpt(text)}")
    return Pressure(**found)


def _total(text: str, place: str) -> int:
    for word in text.split():
        name, _, value = word.partition("=")
        if name == "total":
            return counter(value, place)
    raise SourceError(f"{place}: expected total=MICROSECONDS, found {excerpt(text)}")
