"""A unit as it is followed: its member cgroups, what they read last, when it was seen to work."""

from dataclasses import dataclass, field

from kwhere.core.errors import NoData, Unavailable
from kwhere.discovery.detail import UnitFiles, add_up
from kwhere.discovery.match import Match
from kwhere.discovery.unit_source import CpuReading, TrackedUnit, UnitDetail
from kwhere.kernel.cgroups import CgroupLayout, CpuFile, Hierarchy
from kwhere.kernel.hostfs import HostFS


@dataclass(slots=True)
class Member:
    """One cgroup of a unit. Nearly every unit has one; `services` and some pods have several."""

    hierarchy: Hierarchy
    path: str
    inode: int | None
    match: Match
    cpu: CpuFile | None = None
    files: UnitFiles | None = None
    last: CpuReading | None = None
    inner_ns: int = 0
    """CPU time in it that belongs to inner units, so far; counted for further members only."""
    inner_seen: dict[str, int] = field(default_factory=dict)
    """CPU time of the units and daemons right below it when last looked at."""

    def read(self, fs: HostFS, *, per_cpu: bool) -> CpuReading:
        """Return and remember its CPU time. Raises Unavailable (absent) if it is gone, SourceError for nonsense."""
        if self.cpu is None:
            self.cpu = CpuFile(fs, self.hierarchy, self.path, per_cpu=per_cpu)
        self.last = self.cpu.read()
        return self.last

    def close(self) -> None:
        """Give back its descriptors."""
        if self.cpu is not None:
            self.cpu.close()
        if self.files is not None:
            self.files.close()


@dataclass(slots=True)
class LiveUnit:
    """One run of a unit that is alive."""

    tracked: TrackedUnit
    match: Match
    members: list[Member]
    kept_ns: int = 0
    """What members that are gone had read last."""
    last: CpuReading | None = None
    changed_ns: int = 0
    """Boot time at which its CPU time was last seen to move."""
    facts_due_ns: int = 0
    gone: bool = False
    failures: int = 0
    """Readings that were nonsense, so far."""

    def take(self, reading: CpuReading, now_ns: int) -> CpuReading:
        """Return the unit's reading, never below the last; note whether it moved."""
        last = self.last
        if last is not None and reading.total_ns < last.total_ns:
            reading = last
        if last is None or reading.total_ns != last.total_ns:
            self.changed_ns = now_ns
        self.last = reading
        return reading

    def drop(self, member: Member) -> None:
        """Forget a member that is gone; what it had read stays with the unit."""
        self.members.remove(member)
        if member.last is not None:
            self.kept_ns += member.last.total_ns - member.inner_ns
        member.close()

    def detail(self, fs: HostFS, layout: CgroupLayout, now_ns: int) -> UnitDetail:
        """Return the full reading, summed over members. Raises NoData if all are gone."""
        found = []
        for member in self.members:
            if member.files is None:
                member.files = UnitFiles(fs, layout, member.hierarchy, member.path)
            try:
                found.append(member.files.read(now_ns))
            except (NoData, Unavailable):
                continue
        if not found:
            raise NoData(f"{self.tracked.key.run}: the unit is gone")
        return add_up(found)

    def close(self) -> None:
        """Give back all descriptors."""
        for member in self.members:
            member.close()
