"""Which processes are in a unit, for looks that are seldom and not part of the steps."""

from collections.abc import Callable, Sequence

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.discovery.classify import Classifier
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.cgroups import CgroupLayout, process_ids
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import list_pids, read_cgroup_text

_KEPT_NS = 5 * NANOSECONDS_PER_SECOND


class UnitPids:
    """Lists a unit's processes by its cgroup; where it has none that is followed, by what all processes say of theirs.

    A v1 host may keep jobs in hierarchies that count no CPU time. For one thread.
    """

    def __init__(
        self, fs: HostFS, layout: CgroupLayout | None, settings: UnitsSettings, clock_ns: Callable[[], int]
    ) -> None:
        self._fs = fs
        self._layout = layout
        self._classifier = Classifier(settings)
        self._clock_ns = clock_ns
        self._walked: dict[tuple[str, str], list[int]] = {}
        self._walked_ns: int | None = None

    def __call__(self, unit: TrackedUnit) -> Sequence[int]:
        """Return the unit's processes, in no order that means anything."""
        if unit.cgroup is None:
            return self._walk().get((unit.key.manager, unit.key.unit), ())
        for hierarchy in self._layout.cpu if self._layout is not None else ():
            found = process_ids(self._fs, hierarchy, unit.cgroup)
            if found:
                return found
        return ()

    def _walk(self) -> dict[tuple[str, str], list[int]]:
        now_ns = self._clock_ns()
        if self._walked_ns is not None and now_ns - self._walked_ns < _KEPT_NS:
            return self._walked
        self._walked, self._walked_ns = {}, now_ns
        try:
            pids = list_pids(self._fs)
        except (Unavailable, SourceError):
            return self._walked
        for pid in pids:
            try:
                match = self._classifier.cgroup_text(read_cgroup_text(self._fs, pid))
            except (Unavailable, SourceError):
                continue
            if match is not None:
                self._walked.setdefault((match.manager, match.unit), []).append(pid)
        return self._walked
