"""When a device's figure was new: an old answer told again must not count as a new sample."""

from dataclasses import dataclass

from kwhere.core.errors import Unavailable


@dataclass(frozen=True, slots=True)
class _Seen:
    stamp: str
    figure: int
    time_ns: int


class SampleClock:
    """Gives each figure the time at which it was first seen, on the clock of the steps.

    The device's own stamp only tells a new figure from an old one: its clock may be years off, or step. A stamp
    beside which the figure has changed is not moved by the device and is not looked at again. Without a stamp each
    answer is a new sample.
    """

    def __init__(self, name: str, stuck_seconds: float) -> None:
        """A figure that is told again for longer than `stuck_seconds` is no figure any more."""
        self._name = name
        self._stuck_ns = int(stuck_seconds * 1e9)
        self._last: _Seen | None = None
        self._is_frozen = False

    def time_of(self, figure: int, stamp: str, now_ns: int) -> int:
        """Return when this figure was first seen. Raises Unavailable(`stuck`)."""
        last = self._last
        if last is not None and stamp == last.stamp and figure != last.figure:
            self._is_frozen = True
        if last is None or not stamp or self._is_frozen or stamp != last.stamp:
            self._last = _Seen(stamp, figure, now_ns)
            return now_ns
        if now_ns - last.time_ns > self._stuck_ns:
            raise Unavailable("stuck", f"{self._name}: the time of its reading stands still")
        return last.time_ns


class CounterClock:
    """Gives a counter the time at which it last moved: one that moves in coarse steps is not new at each answer."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None

    def time_of(self, counter: int, now_ns: int) -> int:
        """Return when this count was first seen, on the clock of the steps."""
        if self._last is None or self._last[0] != counter:
            self._last = (counter, now_ns)
        return self._last[1]
