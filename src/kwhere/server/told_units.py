"""What a manager told in one look: a unit is told in each window that it lives in, and written once.

One that lives in a single window is written once as well, so that nothing rests on its being written again.
"""

from collections.abc import Iterable, Iterator

from kwhere.core.managed import ManagerUnit

MOST_KEPT = 25_000
"""So many units of a window are kept, of some 1.5 kB each; others are written again."""


class ToldUnits:
    """The units of the window before and of this one, as they were told last."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most = most_kept
        self._before: dict[tuple[str, str], ManagerUnit] = {}
        self._now: dict[tuple[str, str], ManagerUnit] = {}

    def news(self, units: Iterable[ManagerUnit]) -> Iterator[ManagerUnit]:
        """Yield those of one more window that were not told alike before. All that is yielded must be written."""
        self._before, self._now = self._now, {}
        for unit in units:
            key = (unit.unit, unit.run)
            # What was told of a run last stands, so that it is compared with that alone.
            told = self._now.get(key) or self._before.pop(key, None)
            if key in self._now or len(self._now) < self._most:
                self._now[key] = unit
            if told != unit:
                yield unit
