"""Units that have a cgroup: found by events and scans, read each step through kept files."""

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush

from kwhere.core.clock import Clock
from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.unit import UnitKey
from kwhere.discovery import libvirt, oar, slurm, systemd
from kwhere.discovery.allocation import AllocationReader
from kwhere.discovery.cgroup_tree import Appeared, CgroupTree, TreeChange
from kwhere.discovery.classify import Classifier, paths_of
from kwhere.discovery.directory_ends import told_by_directories
from kwhere.discovery.fact_finder import FactFinder
from kwhere.discovery.facts import Facts
from kwhere.discovery.folding import FOLDED, Ownership
from kwhere.discovery.kubelet_pods import kubelet_of
from kwhere.discovery.members import LiveUnit, Member
from kwhere.discovery.parents import Parents
from kwhere.discovery.settings import UnitsSettings
from kwhere.discovery.slurm_ends import JobEnds
from kwhere.discovery.unit_book import Sighting, UnitBook, ancestors
from kwhere.discovery.unit_source import CpuReading, StepReading, TrackedUnit, UnitDetail
from kwhere.kernel.cgroups import CgroupLayout, Hierarchy, is_populated
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import read_cgroup_text
from kwhere.kernel.topology import online_cpus

_SECOND_NS = 1_000_000_000
_IDLE_NS = 10 * _SECOND_NS
"""A unit that used no CPU for this long is asked whether anybody is left in it."""
_PENDING_NS = 5 * _SECOND_NS
"""How long a unit without its native id is held back; its CPU time waits in its counter."""
_CHECKS_PER_STEP = 25
_LIFELESS = (".mount", ".automount", ".socket", ".swap")
"""systemd's directories in which nothing runs for long: no parents of units."""
_OPAQUE = (slurm.MANAGER, oar.MANAGER, libvirt.MANAGER)
"""Whatever lies inside units of these managers is theirs: not looked into. A pod may hold a whole SLURM node."""


class CgroupUnits:
    """A `UnitSource` over the CPU hierarchies of one host."""

    def __init__(self, fs: HostFS, layout: CgroupLayout, settings: UnitsSettings, clock: Clock) -> None:
        self._fs = fs
        self._layout = layout
        self._clock = clock
        self._per_cpu = settings.per_cpu
        self._rescan_ns = int(settings.rescan_seconds * _SECOND_NS)
        self._ownership = Ownership(Classifier(settings), settings.managers)
        self._opaque = frozenset(_OPAQUE) | {rule.manager for rule in settings.site_rules}
        allocations = AllocationReader(fs, layout, online(fs))
        self._kubelet = kubelet_of(fs, settings, clock)
        self._book = UnitBook(fs, FactFinder(fs, settings, self._kubelet), allocations, clock)
        self._job_ends = JobEnds(settings.slurm_job_dir)
        self._parents = Parents(fs, layout)
        self._tree = CgroupTree(fs, layout.cpu, self._looks_into, settings.max_watches, clock.boottime_ns)
        self._pending: dict[str, Sighting] = {}
        self._empty: dict[str, Sighting] = {}
        self._to_check: deque[UnitKey] = deque()
        self._facts_due: list[tuple[int, UnitKey]] = []
        self._saved: Mapping[str, int] | None = None
        self._generation: int | None = None
        self._scanned_ns = 0
        self._scanned_before_ns = 0
        self._stepped_ns = 0

    def step(self, now_ns: int) -> StepReading:
        """Take in events, read every unit, then the directories above them."""
        began_ns = self._clock.monotonic_ns()
        changes = self._changes(now_ns)
        self._notice_rulers(changes, now_ns)
        for change in changes:
            self._apply(change, now_ns)
        self._resolve_pending(now_ns)
        cpu = self._read_units(now_ns)
        self._check_some(now_ns)
        parents = self._parents.read(self._is_inside_unit)
        self._stepped_ns = now_ns
        started, ended = self._book.take_changes()
        told = [*self._job_ends.told(ended, now_ns), *told_by_directories(ended, self._clock)]
        window_ns = self._clock.monotonic_ns() - began_ns
        return StepReading(cpu, parents, started, ended, told, window_ns)

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        """Return the units alive at the last step."""
        return self._book.live()

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return the unit in whose directory the process is, the deepest over all hierarchies."""
        try:
            paths = paths_of(read_cgroup_text(self._fs, pid))
        except (Unavailable, SourceError):
            return None
        known = (above for path in paths for above in (path, *ancestors(path)) if above in self._book.by_path)
        deepest = max(known, key=len, default=None)
        return None if deepest is None else self._book.by_path[deepest].tracked.key

    def detail(self, key: UnitKey) -> UnitDetail:
        """Return the full reading of a unit. Raises NoData if it is gone."""
        live = self._book.units.get(key)
        if live is None:
            raise NoData(f"{key.run}: the unit is gone")
        return live.detail(self._fs, self._layout, self._stepped_ns)

    def saved(self) -> Mapping[str, int]:
        """Return inode by path of every unit's directory, the empty ones included."""
        known = {m.path: m.inode for live in self._book.units.values() for m in live.members}
        known.update({path: sighting.inode for path, sighting in (self._pending | self._empty).items()})
        return {_storable(path): inode for path, inode in known.items() if inode is not None}

    def restore(self, saved_inodes: Mapping[str, int], runs: Mapping[int, str]) -> None:
        """Take what the last agent of this boot knew; call before the first step."""
        self._saved = dict(saved_inodes)
        self._book.runs.restore(runs)

    def owns(self, path: str) -> bool:
        """Return whether a process in this cgroup is accounted here: to a unit, or as a daemon."""
        return any(above in self._book.by_path or self._parents.is_daemon(above) for above in (path, *ancestors(path)))

    def is_units(self, path: str) -> bool:
        """Return whether a process in this cgroup is accounted to a unit, no daemon's directory in between."""
        for above in (path, *ancestors(path)):
            if above in self._book.by_path or self._parents.is_daemon(above):
                return above in self._book.by_path
        return False

    def close(self) -> None:
        """Give back file descriptors and watches; ask kubelet no more."""
        if self._kubelet is not None:
            self._kubelet.close()
        self._book.close()
        self._parents.close()
        self._tree.close()

    def _changes(self, now_ns: int) -> list[TreeChange]:
        due = now_ns - self._scanned_ns >= self._rescan_ns or self._generation != self._fs.generation
        if not due:
            return self._tree.changes()
        changes = self._tree.scan()
        self._generation = self._fs.generation
        self._scanned_before_ns, self._scanned_ns = self._scanned_ns, now_ns
        return changes

    def _notice_rulers(self, changes: list[TreeChange], now_ns: int) -> None:
        """Fold services and sessions, those followed already too, once a resource manager shows."""
        folded = self._ownership.folds
        for change in changes:
            match = self._ownership.owner(change.path) if isinstance(change, Appeared) else None
            if match is not None:
                self._ownership.notice(match)
        if self._ownership.folds == folded:
            return
        tops: dict[str, Hierarchy] = {}
        for live in [live for live in self._book.units.values() if live.match.manager in FOLDED]:
            for member in self._book.set_aside(live):
                owner = self._ownership.owner(member.path)
                if owner is not None:
                    tops.setdefault(owner.top, member.hierarchy)
        for top, hierarchy in tops.items():
            self._see_again(top, hierarchy, now_ns)

    def _see_again(self, path: str, hierarchy: Hierarchy, now_ns: int) -> None:
        """Take a directory that stands for a unit's that is met there from now on, with its present reading."""
        match = self._ownership.owner(path)
        if match is None or match.is_system or not match.is_top or self._is_known(path):
            return
        try:
            inode = self._fs.inode(hierarchy.directory(path))
        except (Unavailable, SourceError):
            return
        self._see(Sighting(hierarchy, inode, match, False, False, None, now_ns), now_ns)

    def _apply(self, change: TreeChange, now_ns: int) -> None:
        path = change.path
        if not isinstance(change, Appeared):
            self._vanish(change, now_ns)
            return
        match = self._ownership.owner(path)
        if match is None:
            if path.count("/") == 1 and not path.endswith(_LIFELESS):
                self._parents.add(path, change.hierarchy)
        elif match.is_system:
            if match.is_top:
                self._parents.add_daemon(path, change.hierarchy)
        elif match.is_top and not self._is_known(path):
            from_creation = change.new or (self._saved is not None and self._is_unsaved(change))
            since = (self._stepped_ns if change.created else self._scanned_before_ns) if change.new else None
            seen_ns = now_ns if change.time_ns is None else change.time_ns
            sighting = Sighting(change.hierarchy, change.inode, match, change.created, from_creation, since, seen_ns)
            self._see(sighting, now_ns)

    def _see(self, sighting: Sighting, now_ns: int) -> None:
        match = sighting.match
        if not sighting.created and is_populated(self._fs, sighting.hierarchy, match.top) is False:
            self._empty[match.top] = sighting
            return
        facts = self._book.facts(sighting)
        unknown = match.provisional and facts.native_id is None and self._book.runs.saved(sighting.inode) is None
        if unknown and not self._fs.is_recorded:
            self._pending[match.top] = sighting
            return
        self._open(sighting, facts, now_ns)

    def _open(self, sighting: Sighting, facts: Facts, now_ns: int) -> None:
        begun = len(self._book.started)
        live = self._book.open(sighting, facts, now_ns)
        if len(self._book.started) > begun:
            self._to_check.append(live.tracked.key)
            heappush(self._facts_due, (live.facts_due_ns, live.tracked.key))
        anchor = sighting.match.anchor
        if anchor != "/" and not self._is_inside_unit(anchor):
            self._parents.add(anchor, sighting.hierarchy)

    def _vanish(self, change: TreeChange, now_ns: int) -> None:
        path = change.path
        self._empty.pop(path, None)
        pending = self._pending.pop(path, None)
        if pending is not None:
            self._open(pending, self._book.facts(pending), now_ns)
        self._book.close_directory(path, change.hierarchy, change.time_ns)
        for other in self._layout.cpu:
            if other != change.hierarchy:  # it may live on there: a hybrid host has two
                self._see_again(path, other, now_ns)
        if self._parents.follows(path) and not self._fs.exists(change.hierarchy.directory(path)):
            self._parents.drop(path)

    def _resolve_pending(self, now_ns: int) -> None:
        for path, sighting in list(self._pending.items())[:_CHECKS_PER_STEP]:
            facts = self._book.facts(sighting)
            if facts.native_id is not None or now_ns - sighting.seen_ns >= _PENDING_NS:
                del self._pending[path]
                self._open(sighting, facts, now_ns)

    def _read_units(self, now_ns: int) -> dict[UnitKey, CpuReading]:
        cpu: dict[UnitKey, CpuReading] = {}
        several = []
        for key, live in list(self._book.units.items()):
            if len(live.members) == 1:
                self._keep(cpu, key, live, self._read_one(live), now_ns)
            else:
                several.append((key, live))
        for key, live in several:  # last: they want the readings of the units inside them
            self._keep(cpu, key, live, self._read_several(live), now_ns)
        return cpu

    def _keep(
        self, cpu: dict[UnitKey, CpuReading], key: UnitKey, live: LiveUnit, reading: CpuReading | None, now_ns: int
    ) -> None:
        if reading is not None:
            cpu[key] = live.take(reading, now_ns)
        elif live.last is not None and not live.gone:
            cpu[key] = live.last

    def _read_one(self, live: LiveUnit) -> CpuReading | None:
        reading = self._read_member(live, live.members[0])
        return CpuReading(reading.total_ns + live.kept_ns) if reading is not None and live.kept_ns else reading

    def _read_member(self, live: LiveUnit, member: Member) -> CpuReading | None:
        try:
            return member.read(self._fs, per_cpu=self._per_cpu)
        except Unavailable as error:
            if error.reason == "absent" and not self._fs.exists(member.hierarchy.directory(member.path)):
                self._book.close_directory(member.path, member.hierarchy)
            else:
                live.failures += 1
        except SourceError:
            live.failures += 1
        return None

    def _read_several(self, live: LiveUnit) -> CpuReading | None:
        total_ns = live.kept_ns
        for member in list(live.members):
            self._read_member(live, member)
        for position, member in enumerate(live.members):
            if member.last is None:
                continue
            if position > 0:
                self._count_inner(member)
            total_ns += member.last.total_ns - member.inner_ns
        return CpuReading(total_ns) if any(m.last is not None for m in live.members) else None

    def _count_inner(self, member: Member) -> None:
        """Add to `member.inner_ns` what units and daemons right below it used since the last step.

        A reader subtracts inner units below a unit's first directory only, so further ones come without them.
        """
        prefix = f"{member.path}/"
        below = {
            path: (live.last.total_ns, live.tracked.from_creation)
            for path, live in self._book.by_path.items()
            if path.startswith(prefix) and live.last is not None
        }
        below.update((path, (total_ns, False)) for path, total_ns in self._parents.daemons_below(member.path))
        for path, (total_ns, from_creation) in below.items():
            if any(above in below for above in ancestors(path)):
                continue
            before = member.inner_seen.get(path, 0 if from_creation else total_ns)
            member.inner_ns += max(0, total_ns - before)
        member.inner_seen = {path: total_ns for path, (total_ns, _) in below.items()}

    def _check_some(self, now_ns: int) -> None:
        for key in self._due(now_ns):
            live = self._book.units.get(key)
            if live is not None:
                self._book.refresh(live, now_ns)
                heappush(self._facts_due, (live.facts_due_ns, key))
        if self._fs.is_recorded:
            return
        for _ in range(min(_CHECKS_PER_STEP, len(self._to_check))):
            key = self._to_check.popleft()
            live = self._book.units.get(key)
            if live is None:
                continue
            if self._is_deserted(live, now_ns):
                for member in self._book.set_aside(live):
                    self._empty[member.path] = Sighting(
                        member.hierarchy, member.inode, member.match, False, False, None, now_ns
                    )
            else:
                self._to_check.append(key)
        self._look_at_empty(now_ns)

    def _due(self, now_ns: int) -> list[UnitKey]:
        due: list[UnitKey] = []
        while self._facts_due and self._facts_due[0][0] <= now_ns and len(due) < _CHECKS_PER_STEP:
            due.append(heappop(self._facts_due)[1])
        return due

    def _is_deserted(self, live: LiveUnit, now_ns: int) -> bool:
        """Return whether a unit has been idle for a while and nobody lives in it: left over, not running."""
        if live.tracked.key.unit == systemd.SERVICES or now_ns - live.changed_ns < _IDLE_NS:
            return False
        return all(is_populated(self._fs, m.hierarchy, m.path) is False for m in live.members)

    def _look_at_empty(self, now_ns: int) -> None:
        for path in list(self._empty)[:_CHECKS_PER_STEP]:
            sighting = self._empty.pop(path)
            if is_populated(self._fs, sighting.hierarchy, path):
                self._open(sighting, self._book.facts(sighting), now_ns)
            else:
                self._empty[path] = sighting  # to the end of the row

    def _looks_into(self, path: str) -> bool:
        match = self._ownership.owner(path)
        return match is None or match.manager not in self._opaque

    def _is_known(self, path: str) -> bool:
        return path in self._book.by_path or path in self._pending or path in self._empty

    def _is_unsaved(self, found: Appeared) -> bool:
        assert self._saved is not None
        inode = self._saved.get(_storable(found.path))
        return inode is None or (inode != found.inode and not self._fs.is_recorded)

    def _is_inside_unit(self, path: str) -> bool:
        return path in self._book.by_path or any(above in self._book.by_path for above in ancestors(path))


def _storable(path: str) -> str:
    """Return a path as text that any store takes; names in it may hold bytes that are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def online(fs: HostFS) -> frozenset[int]:
    """Return the online CPUs, none where the host does not tell."""
    try:
        return frozenset(online_cpus(fs))
    except (Unavailable, SourceError):
        return frozenset()
