"""`/proc/net/dev`: what network interfaces carried since they came up (proc_pid_net(5))."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import counter, excerpt

_FEWEST_NUMBERS = 16


@dataclass(frozen=True, slots=True)
class InterfaceReading:
    """Totals of one interface."""

    interface: str
    receive_bytes: int
    receive_errors: int
    transmit_bytes: int
    transmit_errors: int


def parse_net_dev(text: str, place: str = "proc/net/dev") -> Sequence[InterfaceReading]:
    """Return one reading per interface. Raises SourceError."""
    return [_reading(line, place) for line in text.split("\n") if line.strip() and "|" not in line]


def _reading(line: str, place: str) -> InterfaceReading:
    name, colon, rest = line.rpartition(":")  # an alias such as eth0:1 holds a colon itself
    words = rest.split()
    if not colon or len(words) < _FEWEST_NUMBERS:
        raise SourceError(f"{place}: expected an interface and {_FEWEST_NUMBERS} numbers, found {excerpt(line)}")
    numbers = [counter(word, place) for word in words[:_FEWEST_NUMBERS]]
    return InterfaceReading(name.strip(), numbers[0], numbers[2], numbers[8], numbers[10])
