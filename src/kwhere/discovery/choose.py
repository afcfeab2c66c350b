"""Which sources of units serve on this host."""

from kwhere.core.clock import Clock
from kwhere.core.errors import SourceError, Unavailable
from kwhere.discovery import slurm
from kwhere.discovery.allocation import AllocationReader
from kwhere.discovery.cgroup_units import CgroupUnits, online
from kwhere.discovery.classify import Classifier, paths_of
from kwhere.discovery.match import Match
from kwhere.discovery.process_owners import ProcessOwners
from kwhere.discovery.process_units import MANAGER, ProcessUnits
from kwhere.discovery.settings import ProcessMode, UnitsSettings
from kwhere.discovery.unit_source import UnitSource
from kwhere.kernel.cgroups import CgroupLayout, CgroupVersion, Hierarchy, child_directories, detect_layout
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import list_pids, read_cgroup_text, read_stat

_PROCESSES_ASKED = 2000


def open_unit_sources(
    fs: HostFS, settings: UnitsSettings, clock: Clock, *, cgroups_version: CgroupVersion = CgroupVersion.AUTO
) -> tuple[UnitSource, ...]:
    """Return the sources in the order in which they are to step: cgroups, then processes that no cgroup unit owns.

    With neither there is an empty tuple: all work of the node is `system`.
    """
    try:
        layout = detect_layout(fs, cgroups_version)
    except Unavailable:
        if not wants_processes(fs, settings, None):
            return ()
        return (ProcessUnits(fs, clock, owners=ProcessOwners(fs, settings)),)
    cgroups = CgroupUnits(fs, layout, settings, clock)
    groups = wants_processes(fs, settings, layout)
    if not groups and not _hides_jobs(fs, settings, layout):
        return (cgroups,)
    accounted = _accounted(layout)
    owners = ProcessOwners(fs, settings, accounted, AllocationReader(fs, layout, online(fs)))

    def is_owned(text: str) -> bool:
        paths = paths_of(text, accounted)
        if any(cgroups.owns(path) for path in paths):
            return any(cgroups.is_units(path) for path in paths) or not owners.is_units(text)
        return False

    def is_counted(match: Match) -> bool:
        root = match.top.strip("/").split("/", 1)[0]
        return any(root in _names(fs, hierarchy) for hierarchy in layout.cpu)

    return cgroups, ProcessUnits(fs, clock, is_owned, owners, is_counted=is_counted, groups=groups)


def _names(fs: HostFS, hierarchy: Hierarchy) -> set[str]:
    """Return the names of the directories below a hierarchy's root; none where it cannot be read."""
    try:
        return {name for name, _ in child_directories(fs, hierarchy, "/")}
    except (Unavailable, SourceError):
        return set()


def wants_processes(fs: HostFS, settings: UnitsSettings, layout: CgroupLayout | None) -> bool:
    """Return whether process groups are of use: asked for, or most processes lie in no unit's cgroup."""
    if settings.managers is not None and MANAGER not in settings.managers:
        return False
    if settings.processes is not ProcessMode.AUTO:
        return settings.processes is ProcessMode.ON
    return layout is None or _mostly_outside(fs, Classifier(settings), _accounted(layout))


def _accounted(layout: CgroupLayout) -> frozenset[str]:
    """Return the controllers of the lines of `/proc/PID/cgroup` in whose hierarchies CPU time is read.

    A v1 host may keep services in its systemd hierarchy alone, where nothing is counted.
    """
    return frozenset("" if hierarchy.is_v2 else "cpuacct" for hierarchy in layout.cpu)


def _hides_jobs(fs: HostFS, settings: UnitsSettings, layout: CgroupLayout) -> bool:
    """Return whether a v1 host keeps jobs in hierarchies that count no CPU time, and nowhere else.

    SLURM does without jobacct_gather/cgroup, OAR with CPU sets alone: their processes must be asked one by one.
    """
    known: set[str] = set()
    hidden: set[str] = set()
    for hierarchy in {*layout.controllers.values(), *layout.cpu}:
        jobs = {name for name in _names(fs, hierarchy) if slurm.is_root(name) or name == settings.oar_prefix}
        (known if hierarchy in layout.cpu else hidden).update(jobs)
    return bool(hidden - known)


def _mostly_outside(fs: HostFS, classifier: Classifier, accounted: frozenset[str]) -> bool:
    inside = outside = 0
    try:
        pids = list_pids(fs)
    except (Unavailable, SourceError):
        return False
    for pid in pids[:_PROCESSES_ASKED]:
        try:
            if pid == 1 or read_stat(fs, pid).is_kernel_thread:
                continue
            owner = classifier.cgroup_text(read_cgroup_text(fs, pid), accounted)
        except (Unavailable, SourceError):
            continue
        if owner is None:
            outside += 1
        else:
            inside += 1
    return outside > inside or inside == 0  # alone in a fresh container: whatever comes will lie outside too
