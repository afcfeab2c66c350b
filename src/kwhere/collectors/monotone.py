"""Counters that go on where hardware's begin anew: a driver reload or a reset of a GPU is no fall."""

from collections.abc import Hashable, Mapping


class MonotoneCounters:
    """Running sums by device and place. They begin with what the hardware says."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Hashable], int] = {}
        self._offset: dict[tuple[str, Hashable], int] = {}
        self._fell: set[str] = set()
        self._resets: dict[str, int] = {}

    def take(self, device: str, place: Hashable, raw: int) -> int:
        """Return the sum, which never falls.

        A counter that fell below half of what it was began anew: what it counted since is added. One that fell by
        less lost a part of itself (a link that went down): it goes on from there, and nothing is added twice.
        """
        key = (device, place)
        last = self._last.get(key, raw)
        self._last[key] = raw
        if raw < last:
            self._fell.add(device)
            self._offset[key] = self._offset.get(key, 0) + (last if raw < last - raw else last - raw)
        return raw + self._offset.get(key, 0)

    def end_round(self) -> Mapping[str, int]:
        """Return how many rounds of readings saw a device's counters fall, this one included."""
        for device in self._fell:
            self._resets[device] = self._resets.get(device, 0) + 1
        self._fell.clear()
        return self._resets
