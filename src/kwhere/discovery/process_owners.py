"""Whose a process is by `/proc/PID/cgroup` alone: for units whose own directories are absent or count no CPU time."""

from dataclasses import dataclass, field

from kwhere.core.unit import Allocation, UnitInfo
from kwhere.discovery import libvirt
from kwhere.discovery.classify import Classifier
from kwhere.discovery.fact_finder import FactFinder, unit_info
from kwhere.discovery.folding import FOLDED
from kwhere.discovery.match import Match, unit_id
from kwhere.discovery.settings import UnitsSettings
from kwhere.kernel.hostfs import HostFS


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

    def run(self, started_s: int) -> str:
        """Return the run that began at this UTC second."""
        if self.permanent:
            return self.unit
        run = f"{self.unit}@{started_s}"
        return f"{run}.{unit_id(self.info.node_name)}" if self.info.node_name else run


class ProcessOwners:
    """Reads owners out of cgroup texts. Services and sessions are left to the processes' own names."""

    def __init__(self, fs: HostFS, settings: UnitsSettings, accounted: frozenset[str] = frozenset()) -> None:
        """`accounted` are the controllers whose directories another source reads: a unit that these name is its own."""
        self._accounted = accounted
        self._classifier = Classifier(settings)
        self._finder = FactFinder(fs, settings)
        self._managers = settings.managers

    def owner(self, text: str) -> Match | None:
        """Return the unit or daemon that a `/proc/PID/cgroup` names, the deepest over all hierarchies."""
        match = self._classifier.cgroup_text(text)
        if match is None or match.is_system:
            return match
        if not self._shows(match) or self._shows(self._classifier.cgroup_text(text, self._accounted)):
            return None
        return match

    def is_units(self, text: str) -> bool:
        """Return whether a `/proc/PID/cgroup` names a unit."""
        match = self.owner(text)
        return match is not None and not match.is_system

    def _shows(self, match: Match | None) -> bool:
        if match is None or match.is_system or match.manager in FOLDED:
            return False
        return self._managers is None or match.manager in self._managers

    def unit(self, match: Match, pid: int) -> NamedUnit:
        """Return what `pid`, one of its processes, tells of the unit."""
        facts = self._finder.find(match, lambda: [pid])
        vcpus = (facts.cpus or facts.starting_cpus) if match.manager == libvirt.MANAGER else None
        return NamedUnit(
            manager=match.manager,
            unit=unit_id(facts.native_id) if match.provisional and facts.native_id else match.unit,
            info=unit_info(match, facts),
            allocation=Allocation(vcpus * 1000 if vcpus else None, facts.memory_bytes),
            uid=facts.uid if facts.uid is not None else match.uid,
            permanent=match.permanent,
        )
