"""CPU time of every unit in one step: inner units taken out, what ended units left behind shared out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kwhere.core.counters import capped_delta, nonnegative_delta, rest
from kwhere.core.unit import UnitKey
from kwhere.discovery.unit_source import CpuReading, StepReading, TrackedUnit
from kwhere.energy.ended import EndedUse, share_ended
from kwhere.sampling.containment import Containment, NodeId, contain

ROOT = "/"


@dataclass(frozen=True, slots=True)
class Roster:
    """Units of a step in the order of their keys: the live ones and those that ended in it."""

    units: tuple[TrackedUnit, ...] = ()
    index: Mapping[UnitKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitTimes:
    """CPU time of one step by index of `roster`; nothing is counted twice."""

    roster: Roster
    own_ns: list[int]
    """Of the unit less its inner units, shares of what ended units left included."""
    lived_ns: list[int]
    """How much of the step the unit existed."""
    readings: list[CpuReading | None]
    """Cumulative, inner units included; None where it was not read in this step."""
    ended: frozenset[int] = frozenset()
    """Units whose figure holds a share of what ended units left behind."""
    per_cpu_ns: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """What a unit added on each CPU, inner units included, where the kernel tells."""


@dataclass(frozen=True, slots=True)
class CpuMark:
    """Where a unit's cumulative reading stood, for the difference to the next one."""

    reading: CpuReading
    time_ns: int
    inode: int | None
    cgroup: str | None = None


@dataclass(slots=True)
class _Track:
    """What is remembered of a unit between steps."""

    unit: TrackedUnit
    reading: CpuReading | None = None
    time_ns: int = 0
    """When `reading` was taken."""
    rate: tuple[int, int] | None = None
    """CPU nanoseconds per nanoseconds of the last step in which both were known."""


@dataclass(frozen=True, slots=True)
class _Container:
    """A directory or unit with units below it, by index of the roster."""

    path: str
    unit: int | None
    inner: tuple[int, ...]
    directories: tuple[str, ...]


class CpuBook:
    """Turns cumulative readings into CPU time per step. One writer; remembers marks and signed carries."""

    def __init__(self) -> None:
        self._tracks: dict[UnitKey, _Track] = {}
        self._restored: dict[UnitKey, CpuMark] = {}
        self._directories: dict[str, int] = {}
        self._carries: dict[str, int] = {}
        self._roster = Roster()
        self._containment = Containment({}, {})
        self._containers: tuple[_Container, ...] = ()
        self._bare: tuple[int, ...] = ()
        self._parents: tuple[str, ...] = ()
        self._mixed: frozenset[str] = frozenset()
        self._windows: dict[str, int] = {}
        self._stale = True

    def step(
        self,
        readings: Sequence[StepReading],
        live: Mapping[UnitKey, TrackedUnit],
        *,
        now_ns: int,
        elapsed_ns: int,
        cpus: int,
    ) -> UnitTimes:
        """Return what each unit used since the last step; `elapsed_ns` 0 takes baselines alone."""
        ended = {unit.key: unit for reading in readings for unit in reading.ended}
        above = [parent for reading in readings for parent in reading.parents]
        parents = {parent.cgroup: parent.reading.total_ns for parent in above}
        self._mixed = frozenset(parent.cgroup for parent in above if parent.mixed)
        self._windows = {parent.cgroup: reading.window_ns for reading in readings for parent in reading.parents}
        self._follow(live, ended, tuple(parents))
        roster = self._roster
        deltas = [0] * len(roster.units)
        lived = [elapsed_ns] * len(roster.units)
        found: list[CpuReading | None] = [None] * len(roster.units)
        per_cpu: dict[int, tuple[int, ...]] = {}
        ended_uses = {roster.index[key]: self._ended_use(unit, now_ns, elapsed_ns) for key, unit in ended.items()}
        for reading in readings:
            for key, cpu in reading.cpu.items():
                track = self._tracks.get(key)
                if track is None:
                    continue
                i = roster.index[key]
                found[i] = cpu
                if track.reading is None:
                    lived[i] = min(elapsed_ns, max(0, now_ns - track.unit.first_seen_ns))
                elif cpu.per_cpu_ns is not None and track.reading.per_cpu_ns is not None:
                    per_cpu[i] = tuple(map(nonnegative_delta, track.reading.per_cpu_ns, cpu.per_cpu_ns))
                deltas[i] = self._advance(track, cpu, now_ns, elapsed_ns, cpus)
        for i, use in ended_uses.items():
            lived[i] = min(elapsed_ns, use.lived_ns)
        own, shared = self._settle(deltas, parents, ended_uses, cpus if elapsed_ns else 0)
        for key in ended:
            self._tracks.pop(key, None)
        self._stale = bool(ended)
        return UnitTimes(roster, own, lived, found, frozenset(shared), per_cpu)

    def marks(self) -> Mapping[UnitKey, CpuMark]:
        """Return the last reading of every live unit, for the journal."""
        return {
            key: CpuMark(track.reading, track.time_ns, track.unit.inode, track.unit.cgroup)
            for key, track in self._tracks.items()
            if track.reading is not None
        }

    def directories(self) -> Mapping[str, int]:
        """Return the last reading of every directory above units, nanoseconds."""
        return dict(self._directories)

    def carries(self) -> Mapping[str, int]:
        """Return the signed carry of every container that has one, nanoseconds."""
        return dict(self._carries)

    def restore(
        self, marks: Mapping[UnitKey, CpuMark], directories: Mapping[str, int], carries: Mapping[str, int]
    ) -> None:
        """Go on from what was saved in this boot; a mark counts only for the unit with the same inode."""
        self._restored = dict(marks)
        self._directories = dict(directories)
        self._carries = dict(carries)

    def _follow(
        self, live: Mapping[UnitKey, TrackedUnit], ended: Mapping[UnitKey, TrackedUnit], parents: tuple[str, ...]
    ) -> None:
        changed = self._stale or bool(ended) or parents != self._parents or len(live) != len(self._tracks)
        for key, unit in live.items():
            track = self._tracks.get(key)
            if track is None:
                self._tracks[key] = self._new_track(unit)
                changed = True
            elif track.unit is not unit:
                track.unit = unit
                changed = True
        if not changed:
            return
        for key in [key for key in self._tracks if key not in live and key not in ended]:
            del self._tracks[key]
        for key, unit in ended.items():
            self._tracks.setdefault(key, _Track(unit))
        self._rebuild(live, parents)

    def _new_track(self, unit: TrackedUnit) -> _Track:
        mark = self._restored.pop(unit.key, None)
        if mark is None or mark.inode != unit.inode:
            return _Track(unit)
        return _Track(unit, mark.reading, mark.time_ns)

    def _rebuild(self, live: Mapping[UnitKey, TrackedUnit], parents: tuple[str, ...]) -> None:
        keys = sorted(self._tracks)
        self._roster = Roster(tuple(self._tracks[key].unit for key in keys), {key: i for i, key in enumerate(keys)})
        self._parents = parents
        self._containment = contain(live, parents)
        index = self._roster.index
        path_of = {node: path for path, node in self._containment.by_path.items()}
        # A directory without units still has what began in it since events were taken.
        below: dict[NodeId, tuple[NodeId, ...]] = dict.fromkeys(
            (path for path in parents if path not in self._containment.children), ()
        )
        below |= self._containment.children
        self._containers = tuple(
            _Container(
                path=path_of.get(node, str(node)),
                unit=index[node] if isinstance(node, UnitKey) else None,
                inner=tuple(index[child] for child in children if isinstance(child, UnitKey)),
                directories=tuple(child for child in children if isinstance(child, str)),
            )
            for node, children in below.items()
        )
        self._bare = tuple(i for i, unit in enumerate(self._roster.units) if unit.cgroup is None)
        known = {container.path for container in self._containers} | set(parents)
        self._carries = {path: carry for path, carry in self._carries.items() if path in known}

    def _advance(self, track: _Track, cpu: CpuReading, now_ns: int, elapsed_ns: int, cpus: int) -> int:
        """Return the unit's difference and move its mark."""
        before, before_ns = track.reading, track.time_ns
        track.reading, track.time_ns = cpu, now_ns
        if elapsed_ns == 0:
            return 0
        if before is not None:
            delta = max(0, cpu.total_ns - before.total_ns)
            track.rate = (delta, max(1, now_ns - before_ns))
            return delta
        if not track.unit.from_creation:
            return 0
        since = track.unit.counts_from_ns
        window_ns = elapsed_ns if since is None else max(elapsed_ns, now_ns - since)
        delta = capped_delta(cpu.total_ns, window_ns, cpus)
        track.rate = (delta, window_ns)
        return delta

    def _ended_use(self, unit: TrackedUnit, now_ns: int, elapsed_ns: int) -> EndedUse:
        """Return how long an ended unit lived after its last reading, and how fast it had been using CPUs."""
        end_ns = now_ns if unit.ended_ns is None else unit.ended_ns
        track = self._tracks[unit.key]
        if track.reading is not None:
            cpu_ns, span_ns = track.rate or (None, 0)
            return EndedUse(max(0, end_ns - track.time_ns), cpu_ns, span_ns)
        seen_ns = end_ns - unit.first_seen_ns
        return EndedUse(min(elapsed_ns, seen_ns) if seen_ns > 0 else elapsed_ns)

    def _settle(
        self, deltas: list[int], parents: Mapping[str, int], ended: Mapping[int, EndedUse], cpus: int
    ) -> tuple[list[int], set[int]]:
        """Return each unit's own time and who got a share of what ended units left; `cpus` 0 takes baselines alone."""
        before, self._directories = self._directories, dict(parents)
        own = list(deltas)
        shared: set[int] = set()
        if cpus == 0:
            return own, shared
        moved = {path: max(0, total - before[path]) for path, total in parents.items() if path in before}
        homes: dict[str, list[int]] = {}
        for i in ended:
            homes.setdefault(self._container_path(i), []).append(i)
        for container in (*self._containers, *self._childless(homes)):
            here = homes.get(container.path, [])
            inner_ns = sum(deltas[i] for i in (*container.inner, *here))
            inner_ns += sum(moved.get(path, 0) for path in container.directories)
            if container.path == ROOT:  # process groups run in no unit's cgroup, so what they used is in the root's
                inner_ns += sum(deltas[i] for i in self._bare)
            whole_ns = moved.get(container.path) if container.unit is None else deltas[container.unit]
            if whole_ns is None:  # first sight of a directory: nothing is known but what its units did
                moved[container.path] = inner_ns
                continue
            left_ns = self._left(container.path, whole_ns, inner_ns)
            shared_with_others = container.unit is not None or container.path in self._mixed
            shares = share_ended(left_ns, [ended[i] for i in here], cpus=cpus, parent_is_unit=shared_with_others)
            for i, share_ns in zip(here, shares.units, strict=True):
                own[i] += share_ns
                if share_ns:
                    shared.add(i)
            if container.unit is not None:
                own[container.unit] = shares.left
            elif not shared_with_others and shares.left:
                # Nobody but its units works in it: one that began or ended within the step claims this in the next.
                self._carries[container.path] = min(shares.left, self._windows[container.path] * cpus)
        return own, shared

    def _left(self, path: str, whole_ns: int, inner_ns: int) -> int:
        """Return what a container used beyond its live children, with the carry; a negative rest is carried on."""
        left = rest(whole_ns, inner_ns, self._carries.pop(path, 0))
        if left.carry:
            self._carries[path] = left.carry
        return left.amount

    def _container_path(self, i: int) -> str:
        """Return the directory that keeps what an ended unit used; empty where none is read."""
        unit = self._roster.units[i]
        node = self._containment.container_of(unit.cgroup or unit.parent_cgroup)
        if isinstance(node, UnitKey):
            return self._roster.units[self._roster.index[node]].cgroup or ""
        return node or ""

    def _childless(self, homes: Iterable[str]) -> list[_Container]:
        """Return containers that have no live unit left below them and yet an ended one."""
        known = {container.path for container in self._containers}
        index = self._roster.index
        found = []
        for path in homes:
            node = self._containment.by_path.get(path)
            if path not in known and node is not None:
                found.append(_Container(path, index[node] if isinstance(node, UnitKey) else None, (), ()))
        return found
