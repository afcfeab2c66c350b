"""The units that live: opened when their directory appears, closed when the last of their directories is gone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from kwhere.core.clock import Clock
from kwhere.core.unit import Allocation, UnitKey
from kwhere.discovery import kubernetes, oar, systemd
from kwhere.discovery.allocation import AllocationReader
from kwhere.discovery.fact_finder import FactFinder, merged, unit_info
from kwhere.discovery.facts import Facts
from kwhere.discovery.match import Match, unit_id
from kwhere.discovery.members import LiveUnit, Member
from kwhere.discovery.run_names import RunNames
from kwhere.discovery.unit_source import TrackedUnit
from kwhere.kernel.cgroups import Hierarchy, process_ids
from kwhere.kernel.hostfs import HostFS

_SECOND_NS = 1_000_000_000
_FACTS_AGAIN_NS = (1, _SECOND_NS, 2 * _SECOND_NS, 4 * _SECOND_NS, 10 * _SECOND_NS, 60 * _SECOND_NS)
"""A unit's directory is made before its first process is in it, and limits and names follow: ask at once again."""
_FACTS_LATER_NS = 600 * _SECOND_NS
_OF_SEVERAL_DIRECTORIES = (kubernetes.MANAGER, oar.MANAGER)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A unit's directory as it was found. `counts_from_ns` None with `from_creation`: since the last agent's scan."""

    hierarchy: Hierarchy
    inode: int | None
    match: Match
    created: bool
    from_creation: bool
    counts_from_ns: int | None
    seen_ns: int


class UnitBook:
    """Keys, runs, names and allocations of live units, by their directories."""

    def __init__(self, fs: HostFS, finder: FactFinder, allocations: AllocationReader, clock: Clock) -> None:
        self._fs = fs
        self._finder = finder
        self._allocations = allocations
        self.runs = RunNames(fs, clock)
        self.units: dict[UnitKey, LiveUnit] = {}
        self.by_path: dict[str, LiveUnit] = {}
        self.started: list[TrackedUnit] = []
        self.ended: list[TrackedUnit] = []
        self._by_unit: dict[tuple[str, str], LiveUnit] = {}

    def facts(self, sighting: Sighting) -> Facts:
        """Return what can be found out about the unit of a directory now."""
        match = sighting.match
        return self._finder.find(match, lambda: process_ids(self._fs, sighting.hierarchy, match.top))

    def open(self, sighting: Sighting, facts: Facts, now_ns: int) -> LiveUnit:
        """Start a run in the directory, or count the directory to the run that it belongs to."""
        match = sighting.match
        member = Member(sighting.hierarchy, match.top, sighting.inode, match)
        saved_run = self.runs.saved(sighting.inode)
        unit = self._unit(match, facts, saved_run)
        together = self._by_unit.get((match.manager, unit))
        if together is not None and _has_several_directories(match):
            together.members.append(member)
            self.by_path[match.top] = together
            given = self._allocation(together.members, facts)
            together.tracked = replace(together.tracked, allocation=given)
            return together
        key = self._key(sighting, unit, saved_run, facts.started_seconds)
        tracked = TrackedUnit(
            key=key,
            cgroup=match.top,
            inode=sighting.inode,
            outer=self.outer(match.top),
            parent_cgroup=match.anchor,
            info=unit_info(match, facts),
            allocation=self._allocation([member], facts),
            from_creation=sighting.from_creation,
            first_seen_ns=sighting.seen_ns if sighting.created else now_ns,
            counts_from_ns=sighting.counts_from_ns if sighting.from_creation else None,
            uid=facts.uid if facts.uid is not None else match.uid,
        )
        live = LiveUnit(tracked, match, [member], changed_ns=now_ns, facts_due_ns=now_ns + _FACTS_AGAIN_NS[0])
        self.runs.keep(sighting.inode, key.run)
        self.units[key] = live
        self.by_path[match.top] = live
        self._by_unit[match.manager, unit] = live
        self.started.append(tracked)
        return live

    def close_directory(self, path: str, hierarchy: Hierarchy, time_ns: int | None = None) -> None:
        """Take note that a directory is gone, since boot time `time_ns` if known; with its last one the unit ended."""
        live = self.by_path.get(path)
        if live is None:
            return
        member = next((m for m in live.members if m.path == path and m.hierarchy == hierarchy), None)
        if member is None:  # it stands on in the hierarchy that is read
            return
        del self.by_path[path]
        self.runs.forget(member.inode)
        live.drop(member)
        if not live.members:
            self._end(live, time_ns)
        elif live.tracked.cgroup == path:
            first = live.members[0]
            live.tracked = replace(live.tracked, cgroup=first.path, inode=first.inode)

    def set_aside(self, live: LiveUnit) -> list[Member]:
        """End a unit whose directories stand empty and return them; the run goes on if work comes back."""
        members = list(live.members)
        for member in members:
            self.by_path.pop(member.path, None)
            member.close()
        live.members.clear()
        self._end(live)
        return members

    def refresh(self, live: LiveUnit, now_ns: int) -> None:
        """Look up names, owner and allocation again; what is known is not lost when nobody is left to ask."""
        first = live.members[0]
        sighting = Sighting(first.hierarchy, first.inode, first.match, False, False, None, now_ns)
        facts = self.facts(sighting)
        tracked = live.tracked
        allocation = self._allocation(live.members, facts)
        if allocation.milli_cpus is None and facts.cpus is None:
            allocation = replace(allocation, milli_cpus=tracked.allocation.milli_cpus)
        found = replace(
            tracked,
            info=merged(tracked.info, unit_info(first.match, facts)),
            allocation=allocation,
            outer=self.outer(first.path),
            uid=facts.uid if facts.uid is not None else tracked.uid,
        )
        if found != tracked:  # the same object says that nothing changed: whoever follows units does no work
            live.tracked = found
        age_ns = now_ns - tracked.first_seen_ns
        later = next((due for due in _FACTS_AGAIN_NS if due > age_ns), None)
        live.facts_due_ns = now_ns + _FACTS_LATER_NS if later is None else tracked.first_seen_ns + later

    def outer(self, path: str) -> UnitKey | None:
        """Return the unit in whose directory `path` lies."""
        for above in ancestors(path):
            live = self.by_path.get(above)
            if live is not None:
                return live.tracked.key
        return None

    def take_changes(self) -> tuple[list[TrackedUnit], list[TrackedUnit]]:
        """Return the units started and ended since the last call."""
        changes = self.started, self.ended
        self.started, self.ended = [], []
        return changes

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        """Return the units that live."""
        return {key: live.tracked for key, live in self.units.items()}

    def close(self) -> None:
        """Give back all descriptors."""
        for live in self.units.values():
            live.close()

    def _end(self, live: LiveUnit, time_ns: int | None = None) -> None:
        key = live.tracked.key
        live.gone = True
        del self.units[key]
        if self._by_unit.get((key.manager, key.unit)) is live:
            del self._by_unit[key.manager, key.unit]
        self.ended.append(replace(live.tracked, ended_ns=time_ns))

    def _allocation(self, members: Sequence[Member], facts: Facts) -> Allocation:
        """Return what the unit was given: where each container of a pod has a directory of its own, all of them."""
        kept = members if members[0].match.manager == kubernetes.MANAGER else members[:1]
        given = [self._allocations.read(member.match, facts, member.path) for member in kept]
        return reduce(_together, given)

    def _unit(self, match: Match, facts: Facts, saved_run: str | None) -> str:
        if match.provisional and saved_run is not None:
            return saved_run.rpartition("@")[0] or saved_run
        return unit_id(facts.native_id) if match.provisional and facts.native_id else match.unit

    def _key(self, sighting: Sighting, unit: str, saved_run: str | None, told_seconds: int | None) -> UnitKey:
        match = sighting.match
        run = saved_run
        if run is None and unit == systemd.SERVICES:
            run = f"{unit}@{self.runs.boot_seconds()}"
        if run is None:
            pids = None if sighting.created else process_ids(self._fs, sighting.hierarchy, match.top)
            run = self.runs.name(match, unit, pids, told_seconds)
        key, times = UnitKey(match.manager, unit, run), 1
        while key in self.units or any(ended.key == key for ended in self.ended):  # again within a second
            times += 1
            key = UnitKey(match.manager, unit, f"{run}.{times}")
        return key


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, nearest first, without the root."""
    above = path.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


def _has_several_directories(match: Match) -> bool:
    return match.manager in _OF_SEVERAL_DIRECTORIES or match.unit == systemd.SERVICES


def _together(one: Allocation, other: Allocation) -> Allocation:
    """Return two containers' allocations as one; a container without a request adds none, one without a limit all."""
    requests = [given for given in (one.milli_cpus, other.milli_cpus) if given is not None]
    limits = (one.memory_bytes, other.memory_bytes)
    confined = one.cpuset is not None and other.cpuset is not None
    return Allocation(
        sum(requests) if requests else None,
        None if None in limits else sum(limit or 0 for limit in limits),
        (one.cpuset or frozenset()) | (other.cpuset or frozenset()) if confined else None,
    )
