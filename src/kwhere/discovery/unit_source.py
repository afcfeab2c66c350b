"""The seam between finding units and booking to them: one `UnitSource` over cgroups, one over /proc."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kwhere.core.unit import Allocation, UnitInfo, UnitKey
from kwhere.kernel.cgroups import CpuTime


@dataclass(frozen=True, slots=True)
class TrackedUnit:
    """A unit run that lives on this node."""

    key: UnitKey
    cgroup: str | None
    """Path of its top cgroup below the hierarchy's root, e.g. `/slurm/uid_1000/job_42`; None for process groups."""
    inode: int | None
    """Inode of that directory in the CPU hierarchy: with the boot id, the run's identity across agent restarts."""
    outer: UnitKey | None
    """The unit it lies in, if any; the outer unit's readings include this one's."""
    parent_cgroup: str | None
    """The directory whose reading keeps what a removed child used (see `StepReading.parents`)."""
    info: UnitInfo
    allocation: Allocation
    from_creation: bool
    """Seen by its creation event: its first reading counts from 0."""
    first_seen_ns: int
    """Boot-time clock."""
    counts_from_ns: int | None = None
    """Boot time since which its reading counts from 0; set with `from_creation`."""
    ended_ns: int | None = None
    """Boot time at which it was seen to be gone; set in `StepReading.ended`."""
    uid: int | None = None
    """Kernel uid of its owner, where known."""


CpuReading = CpuTime
"""Cumulative CPU time of a cgroup or process group, nanoseconds."""


@dataclass(frozen=True, slots=True)
class ParentReading:
    """A directory above units: `reading` minus its live children is what ended units left behind."""

    cgroup: str
    reading: CpuReading
    unit: UnitKey | None
    """Set where the parent is itself a unit."""
    mixed: bool = False
    """Whether other work than its units' runs in it, e.g. in the root: what ended units left cannot be told apart."""


@dataclass(frozen=True, slots=True)
class StepReading:
    """What a source found in one step, children read before parents."""

    cpu: Mapping[UnitKey, CpuReading]
    """Of every live unit, cumulative, inner units included; of ended ones too where a last reading was there."""
    parents: Sequence[ParentReading] = field(default=())
    started: Sequence[TrackedUnit] = field(default=())
    ended: Sequence[TrackedUnit] = field(default=())
    """Units that went since the last step, those created and removed between two steps included (also in `started`)."""
    told: Sequence[TrackedUnit] = field(default=())
    """Units that ended now or some steps ago, with what has become known of them since."""
    window_ns: int = 0
    """From taking events to the last reading: what began or ended meanwhile is told of in the next step."""
    system_ns: int | None = None
    """CPU time that the source itself assigns to `system` (runtimes and daemons on the list), cumulative."""

    def without(self, keys: Collection[UnitKey]) -> "StepReading":
        """Return the reading without these runs, which another source counts."""
        if not any(key in keys for key in self.cpu):
            return self
        kept = {key: cpu for key, cpu in self.cpu.items() if key not in keys}
        lists = ([unit for unit in units if unit.key not in keys] for units in (self.started, self.ended, self.told))
        started, ended, told = lists
        return replace(self, cpu=kept, started=started, ended=ended, told=told)


@dataclass(frozen=True, slots=True)
class UnitDetail:
    """What is read every 15 s, at slot close and on last sight. None: the kernel does not say."""

    memory_current_bytes: int | None = None
    memory_peak_bytes: int | None = None
    memory_anon_bytes: int | None = None
    memory_file_bytes: int | None = None
    memory_shmem_bytes: int | None = None
    memory_swap_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_swap_limit_bytes: int | None = None
    """More than any node has where it may use all there is."""
    oom_kills: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    io_read_operations: int | None = None
    io_write_operations: int | None = None
    throttled_ns: int | None = None
    cpu_user_ns: int | None = None
    cpu_system_ns: int | None = None
    pressure_us: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Stall microseconds by (cpu|memory|io, some|full)."""
    processes: int | None = None
    threads: int | None = None


class UnitSource(Protocol):
    """Finds units and reads their CPU time; owns its file descriptors. Used from the sampler thread alone."""

    def step(self, now_ns: int) -> StepReading:
        """Take in events since the last call, read CPU time of every live unit. `now_ns` is boot time."""
        ...

    def live(self) -> Mapping[UnitKey, TrackedUnit]:
        """Return the units alive at the last step."""
        ...

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return the live unit that a process of this node is accounted to; None: to none of this source's."""
        ...

    def detail(self, key: UnitKey) -> UnitDetail:
        """Return the full reading of one live unit, its inner units included. Raises NoData if it is gone."""
        ...

    def saved(self) -> Mapping[str, int]:
        """Return what identifies the last complete scan across restarts: cgroup path → inode."""
        ...

    def restore(self, saved_inodes: Mapping[str, int], runs: Mapping[int, str]) -> None:
        """Tell the source, before its first step, what the last scan of this boot held and the runs by inode."""
        ...

    def close(self) -> None:
        """Give back file descriptors."""
        ...
