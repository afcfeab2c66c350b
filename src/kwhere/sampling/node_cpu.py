"""Busy time of the node in one step, by socket, from two readings of /proc/stat."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kwhere.core.counters import nonnegative_delta
from kwhere.core.quantities import USER_HZ_NANOSECONDS
from kwhere.energy.placement import Topology
from kwhere.kernel.stat import CpuStat, CpuTimes

BusyTicks = tuple[int, int, int, int, int]
"""user, nice, system, irq, softirq."""


@dataclass(frozen=True, slots=True)
class BusyStep:
    """Busy CPU time of one step, nanoseconds."""

    by_socket: list[int]
    user_ns: int
    system_ns: int
    """system, irq and softirq."""

    @property
    def busy_ns(self) -> int:
        """Return both modes together."""
        return self.user_ns + self.system_ns


def busy_ticks(times: CpuTimes) -> BusyTicks:
    """Return the modes that are work of this host (guest lies inside user)."""
    return times.user, times.nice, times.system, times.irq, times.softirq


class NodeCpu:
    """Remembers each CPU's counters; one that goes offline adds what it did when it is back."""

    def __init__(self, topology: Topology, reread: Callable[[], Topology] | None = None) -> None:
        """`reread` gives the topology anew when CPUs come or go."""
        self.topology = topology
        self._reread = reread
        self._online: frozenset[int] = frozenset()
        self._last: dict[int, BusyTicks] = {}
        self._busy_ns: dict[int, int] = {}

    def step(self, stat: CpuStat) -> BusyStep:
        """Return what was added since the last step; a CPU's first reading is a baseline."""
        self._follow_hotplug(frozenset(stat.cpus))
        user = system = 0
        busy: list[tuple[int, int]] = []
        for cpu, times in stat.cpus.items():
            ticks = busy_ticks(times)
            before = self._last.get(cpu, ticks)
            deltas = [nonnegative_delta(then, now) for then, now in zip(before, ticks, strict=True)]
            user += deltas[0] + deltas[1]
            system += sum(deltas[2:])
            busy.append((cpu, sum(deltas) * USER_HZ_NANOSECONDS))
            self._last[cpu] = ticks
            self._busy_ns[cpu] = sum(ticks) * USER_HZ_NANOSECONDS
        return BusyStep(self.topology.by_socket(busy), user * USER_HZ_NANOSECONDS, system * USER_HZ_NANOSECONDS)

    def busy_ns(self) -> Mapping[int, int]:
        """Return cumulative busy time by CPU as last read: what the model meter counts with."""
        return self._busy_ns

    def saved(self) -> Mapping[int, BusyTicks]:
        """Return every CPU's counters, ticks."""
        return dict(self._last)

    def restore(self, ticks: Mapping[int, BusyTicks]) -> None:
        """Go on from counters saved in this boot."""
        self._last = dict(ticks)

    def _follow_hotplug(self, online: frozenset[int]) -> None:
        if online == self._online:
            return
        if self._online and self._reread is not None:
            self.topology = self._reread()
        self._online = online
