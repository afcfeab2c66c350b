"""When jobs ended, as the epilog noted it: it runs just after the job's directory is gone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import UnitKey
from kwhere.discovery import slurm
from kwhere.discovery.slurm_notes import find_note, is_trusted
from kwhere.discovery.unit_source import TrackedUnit

LABEL = "slurm_end"
"""UTC seconds since 1970."""
_PATIENCE_NS = 15 * NANOSECONDS_PER_SECOND
_MOST = 256
"""Jobs looked for at a time; of the rest the slot tells the end."""


class JobEnds:
    """Looks for the epilog's notes of jobs that ended here, for some seconds each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._awaited: dict[UnitKey, tuple[TrackedUnit, int]] = {}

    def told(self, ended: Sequence[TrackedUnit], now_ns: int) -> list[TrackedUnit]:
        """Return units that ended, now or before, and whose end is noted by now, labelled with it."""
        for unit in ended:
            if unit.key.manager == slurm.MANAGER and len(self._awaited) < _MOST:
                self._awaited[unit.key] = (unit, now_ns + _PATIENCE_NS)
        if not self._awaited:
            return []
        if not is_trusted(self._directory):
            self._awaited.clear()
            return []
        return [*filter(None, (self._look(*awaited, now_ns) for awaited in list(self._awaited.values())))]

    def _look(self, unit: TrackedUnit, until_ns: int, now_ns: int) -> TrackedUnit | None:
        note = find_note(self._directory, unit.key.unit, unit.info.node_name)
        seconds = None if note is None else note.ended_seconds
        # Of a run before this one, by the same id, it says nothing.
        if seconds is not None and seconds >= _began(unit.key):
            del self._awaited[unit.key]
            labels = dict(unit.info.labels) | {LABEL: str(seconds)}
            return replace(unit, info=replace(unit.info, labels=tuple(labels.items())))
        if now_ns >= until_ns:
            del self._awaited[unit.key]
        return None


def _began(key: UnitKey) -> int:
    seconds = key.run.removeprefix(f"{key.unit}@").split(".", 1)[0]
    return int(seconds) if seconds.isdecimal() else 0
