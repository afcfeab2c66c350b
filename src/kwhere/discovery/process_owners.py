"""Whose a process is by `/proc/PID/cgroup` alone: for units whose own directories are absent or count no CPU time."""

from dataclasses import dataclass, field, replace

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.unit import Allocation, UnitInfo
from kwhere.discovery import libvirt
from kwhere.discovery.allocation import AllocationReader
from kwhere.discovery.classify import Classifier
from kwhere.discovery.fact_finder import FactFinder, merged, unit_info
from kwhere.discovery.facts import Facts
from kwhere.discovery.folding import FOLDED
from kwhere.discovery.match import Match, unit_id
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_cgroup_text


@dataclass(frozen=True, slots=True)
class NamedUnit:
    """The unit of a process, as that process tells it."""

    manager: str
    unit: str
    info: UnitInfo
    allocation: Allocation = field(default_factory=Allocation)
    uid: int | None = None
    permanent: bool = False
    """The id is unique for ever, so it is the run too."""

    def added_to(self, known: TrackedUnit) -> TrackedUnit:
        """Return the unit with what this process tells of it besides: a job's first one is root's and knows little."""
        allocation = self.allocation if known.allocation.milli_cpus is None else known.allocation
        uid = known.uid if self.uid is None else self.uid
        return replace(known, info=merged(known.info, self.info), allocation=allocation, uid=uid)

    def run(self, started_s: int) -> str:
        """Return the run that began at this UTC second."""
        if self.permanent:
            return self.unit
        run = f"{self.unit}@{started_s}"
        return f"{run}.{unit_id(self.info.node_name)}" if self.info.node_name else run


class ProcessOwners:
    """Reads owners out of cgroup texts. Services and sessions are left to the processes' own names."""

    def __init__(
        self,
        fs: HostFS,
        settings: UnitsSettings,
        accounted: frozenset[str] = frozenset(),
        allocations: AllocationReader | None = None,
    ) -> None:
        """`accounted` are the controllers whose directories another source reads: a unit that these name is its own.

        `allocations` reads what the hierarchies that count no CPU time hold: CPU sets and memory limits.
        """
        self._accounted = accounted
        self._allocations = allocations
        self._classifier = Classifier(settings)
        self._finder = FactFinder(fs, settings)
        self._managers = settings.managers
        self._home = self._match_of(fs, 1)
        """The unit around the whole host as it is seen here: an agent in a container is no news to itself."""

    def owner(self, text: str) -> Match | None:
        """Return the unit or daemon that a `/proc/PID/cgroup` names, the deepest over all hierarchies."""
        match = self._classifier.cgroup_text(text)
        if match is None or match.is_system:
            return match
        if self._home is not None and match.top == self._home.top:
            return None
        if not self._shows(match) or self._shows(self._classifier.cgroup_text(text, self._accounted)):
            return None
        return match

    def is_units(self, text: str) -> bool:
        """Return whether a `/proc/PID/cgroup` names a unit."""
        match = self.owner(text)
        return match is not None and not match.is_system

    def _match_of(self, fs: HostFS, pid: int) -> Match | None:
        try:
            return self._classifier.cgroup_text(read_cgroup_text(fs, pid))
        except (Unavailable, SourceError):
            return None

    def _allocation(self, match: Match, facts: Facts) -> Allocation:
        if self._allocations is not None:
            return self._allocations.read(match, facts, match.top)
        vcpus = (facts.cpus or facts.starting_cpus) if match.manager == libvirt.MANAGER else None
        return Allocation(vcpus * 1000 if vcpus else None, facts.memory_bytes)

    def _shows(self, match: Match | None) -> bool:
        if match is None or match.is_system or match.manager in FOLDED:
            return False
        return self._managers is None or match.manager in self._managers

    def unit(self, match: Match, pid: int) -> NamedUnit:
        """Return what `pid`, one of its processes, tells of the unit."""
        facts = self._finder.find(match, lambda: [pid])
        return NamedUnit(
            manager=match.manager,
            unit=unit_id(facts.native_id) if match.provisional and facts.native_id else match.unit,
            info=unit_info(match, facts),
            allocation=self._allocation(match, facts),
            uid=facts.uid if facts.uid is not None else match.uid,
            permanent=match.permanent,
        )
