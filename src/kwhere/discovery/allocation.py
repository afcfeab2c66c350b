"""What a unit was given: CPUs, memory, cpuset, each only where its manager means it as an allocation."""

import math

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.unit import Allocation
from kwhere.discovery import kubernetes, libvirt, oar, slurm
from kwhere.discovery.facts import Facts
from kwhere.discovery.match import Match
from kwhere.kernel.cgroup_detail import parse_limit
from kwhere.kernel.cgroups import CgroupLayout, child_directories, parse_number
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import counter, cpu_list

_MILLI = 1000
_SHARES_PER_CPU = 1024
_LEAST_SHARES = 2
_LEAST_WEIGHT = 1


class AllocationReader:
    """Reads allocations; the online CPUs tell a confining cpuset from one that holds them all."""

    def __init__(self, fs: HostFS, layout: CgroupLayout, online_cpus: frozenset[int]) -> None:
        self._fs = fs
        self._layout = layout
        self._online = online_cpus

    def read(self, match: Match, facts: Facts, path: str) -> Allocation:
        """Return the allocation of the unit whose cgroup is `path`; unknown parts are None."""
        cpus = self._cpuset(path)
        confined = frozenset(cpus) if cpus and frozenset(cpus) < self._online else None
        match match.manager:
            case slurm.MANAGER:
                # A node may run without ConstrainCores: the cpuset counts only if the job's own number agrees.
                given = len(cpus) if cpus and facts.cpus == len(cpus) else None
                return Allocation(_milli(given), self._memory_limit(path), confined)
            case oar.MANAGER:
                given = len(cpus) if cpus and not self._inherits_cpus(path) else None
                return Allocation(_milli(given), self._memory_limit(path), confined)
            case kubernetes.MANAGER:
                request = self._pod_request(match, path)
                return Allocation(self._quota(path) if request is None else request, self._memory_limit(path), confined)
            case libvirt.MANAGER:
                vcpus = facts.cpus or self._vcpu_directories(path) or facts.starting_cpus
                return Allocation(_milli(vcpus), facts.memory_bytes, confined)
        return Allocation(cpuset=confined)

    def _cpuset(self, path: str) -> tuple[int, ...] | None:
        for controller, name in (
            ("cpuset", "cpuset.effective_cpus"),
            ("cpuset", "cpuset.cpus"),
            ("unified", "cpuset.cpus.effective"),
            ("unified", "cpuset.cpus"),
        ):
            data = self._read(controller, path, name)
            if data is None:
                continue
            try:
                cpus = cpu_list(data.decode(errors="replace"), name)
            except SourceError:
                continue
            if cpus:
                return cpus
        return None

    def _inherits_cpus(self, path: str) -> bool:
        """Return whether a v2 cgroup was given no CPUs of its own: it may run wherever those above it may."""
        own = self._read("unified", path, "cpuset.cpus")
        return own is not None and not own.strip() and self._read("cpuset", path, "cpuset.cpus") is None

    def _memory_limit(self, path: str) -> int | None:
        for controller, name in (("memory", "memory.limit_in_bytes"), ("unified", "memory.max")):
            data = self._read(controller, path, name)
            if data is not None:
                try:
                    return parse_limit(data, name)
                except SourceError:
                    return None
        return None

    def _pod_request(self, match: Match, path: str) -> int | None:
        """Return the pod's CPU request in milli-CPUs as kubelet wrote it; the least weight means none."""
        shares = self._number("cpu", path, "cpu.shares")
        if shares is not None:
            return None if shares <= _LEAST_SHARES else round(shares * _MILLI / _SHARES_PER_CPU)
        weight = self._number("unified", path, "cpu.weight")
        if weight is None or weight <= _LEAST_WEIGHT:
            return None
        root = self._number("unified", match.anchor, "cpu.weight")
        newer = root is not None and self._is_newer_scale(root)
        return max(1, round(_shares(weight, newer=newer) * _MILLI / _SHARES_PER_CPU))

    def _is_newer_scale(self, root_weight: int) -> bool:
        """Return whether kubelet uses the conversion of 2025: the weight of all pods is then the node's CPUs."""
        cpus = max(1, len(self._online))
        older, newer = (_shares(root_weight, newer=flag) / _SHARES_PER_CPU for flag in (False, True))
        return abs(math.log2(max(newer, 1e-3) / cpus)) < abs(math.log2(max(older, 1e-3) / cpus))

    def _quota(self, path: str) -> int | None:
        data = self._read("unified", path, "cpu.max")
        if data is not None:
            quota, _, period = data.decode(errors="replace").strip().partition(" ")
        else:
            v1 = (self._number("cpu", path, name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
            quota, period = (str(value) if value is not None else "" for value in v1)
        try:
            limit, length = counter(quota, "cpu.max"), counter(period, "cpu.max")
        except SourceError:  # `max`, or -1 in v1: no limit
            return None
        return limit * _MILLI // length if length else None

    def _vcpu_directories(self, path: str) -> int | None:
        for hierarchy in (self._layout.controllers.get("cpu"), *self._layout.cpu):
            if hierarchy is None:
                continue
            for below in (f"{path}/libvirt", path):
                try:
                    names = [name for name, _ in child_directories(self._fs, hierarchy, below)]
                except (Unavailable, SourceError):
                    continue
                count = sum(name.startswith("vcpu") and name[4:].isdigit() for name in names)
                if count:
                    return count
        return None

    def _number(self, controller: str, path: str, name: str) -> int | None:
        data = self._read(controller, path, name)
        try:
            return None if data is None else parse_number(data, name)
        except SourceError:
            return None

    def _read(self, controller: str, path: str, name: str) -> bytes | None:
        hierarchy = self._layout.unified if controller == "unified" else self._layout.controllers.get(controller)
        if hierarchy is None:
            return None
        try:
            return self._fs.read(hierarchy.file(path, name))
        except (Unavailable, SourceError):
            return None


def _milli(cpus: int | None) -> int | None:
    return cpus * _MILLI if cpus else None


def _shares(weight: int, *, newer: bool) -> float:
    """Return the v1 shares that a v2 weight was made from (KEP-2254; opencontainers/cgroups since 2025)."""
    if not newer:
        return (weight - 1) * 262142 / 9999 + _LEAST_SHARES
    # weight = 10 ^ ((l^2 + 125 l) / 612 - 7 / 34) with l = log2(shares)
    exponent = (math.log10(weight) + 7 / 34) * 612
    return float(2 ** ((-125 + math.sqrt(125**2 + 4 * exponent)) / 2))
