"""Whether a counter still moves: one that stands still on a running machine measures nothing."""

from kwhere.core.errors import Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND

STUCK_AFTER_NS = 60 * NANOSECONDS_PER_SECOND


class Movement:
    """Remembers when a value last changed."""

    __slots__ = ("_moved_ns", "_patience_ns", "_value")

    def __init__(self, patience_ns: int = STUCK_AFTER_NS) -> None:
        self._patience_ns = patience_ns
        self._value: int | None = None
        self._moved_ns = 0

    def check(self, value: int, now_ns: int, place: str) -> None:
        """Take in a reading. Raises Unavailable (`stuck`) where none differed for longer than the patience."""
        if value != self._value:
            self._value = value
            self._moved_ns = now_ns
        elif now_ns - self._moved_ns > self._patience_ns:
            seconds = self._patience_ns // NANOSECONDS_PER_SECOND
            raise Unavailable("stuck", f"{place}: has not moved for {seconds} s")
