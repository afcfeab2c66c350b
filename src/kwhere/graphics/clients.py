"""How much of each GPU every process used, by the engine time of its DRM clients. One for all GPUs of a vendor."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu import pci_address
from kwhere.kernel.drm_fdinfo import DrmClient, scan_clients
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.processes import list_pids

SEARCH_NS = 10 * NANOSECONDS_PER_SECOND
"""How often every process is looked at; in between, those that had a GPU open."""
_FRESH_NS = 50_000_000
"""Devices that are read in one round share one look at the processes."""
_COMPUTE = ("compute", "ccs")
_DRAW = ("gfx", "render", "rcs")
_WORK = _COMPUTE + _DRAW
_OWN_MEMORY = ("vram", "local0", "vram0", "local1", "vram1")
_SYSTEM = "proc/1/fd"
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class ClientUse:
    """What one process used of one GPU between the last two looks. None is not known yet."""

    pid: int
    memory_bytes: int | None
    engines: Mapping[str, float] = field(default_factory=dict)
    """Share of each class of engines, 0..1 and more where it has several; empty before the second look."""

    @property
    def percent(self) -> int | None:
        """Return its share of the class that it worked most in, of those that compute or draw."""
        known = [share for name, share in self.engines.items() if name in _WORK]
        return min(_WHOLE, round(max(known) * _WHOLE)) if known else None

    @property
    def computes(self) -> bool:
        """Return whether it works on the engines that only compute, more than on those that draw."""
        compute = max((share for name, share in self.engines.items() if name in _COMPUTE), default=0.0)
        return compute > max((share for name, share in self.engines.items() if name in _DRAW), default=0.0)


@dataclass(frozen=True, slots=True)
class NodeUse:
    """All processes at one look."""

    by_pci: Mapping[str, tuple[ClientUse, ...]] = field(default_factory=dict)
    complete: bool = False
    """Whether every process could be looked at."""

    def of(self, pci: str) -> tuple[ClientUse, ...]:
        """Return the processes on one GPU."""
        return self.by_pci.get(pci_address(pci), ())

    def busy_percent(self, pci: str) -> int | None:
        """Return how busy a GPU was: the busiest class of engines; None before there are two looks."""
        sums: dict[str, float] = {}
        uses = self.of(pci)
        for use in uses:
            for name, share in use.engines.items():
                sums[name] = sums.get(name, 0.0) + share
        if not self.complete or (uses and not sums):
            return None
        return min(_WHOLE, round(max(sums.values(), default=0.0) * _WHOLE))


@dataclass(slots=True)
class _Counted:
    """A client's counters, each the largest seen: drivers let them go back for a moment."""

    pid: int
    time_ns: int
    engine_ns: dict[str, int] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)
    total_cycles: dict[str, int] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)

    def take(self, client: DrmClient, now_ns: int) -> None:
        before_ns, self.time_ns = self.time_ns, now_ns
        self.shares = {}
        for name, value in client.engine_ns.items():
            before, now = _larger(self.engine_ns, name, value)
            if before is not None and now_ns > before_ns:
                self.shares[name] = (now - before) / (now_ns - before_ns) / max(1, client.capacity.get(name, 1))
        for name, value in client.cycles.items():
            before, now = _larger(self.cycles, name, value)
            total_before, total = _larger(self.total_cycles, name, client.total_cycles.get(name, 0))
            if before is not None and total_before is not None and total > total_before:
                parts = max(1, client.capacity.get(name, 1))
                self.shares[name] = min(1.0, (now - before) / (total - total_before) / parts)


class Clients:
    """Looks at the processes at most once per round, whoever asks; never waits for a look that another began."""

    def __init__(self, fs: HostFS, driver: str, clock_ns: Callable[[], int]) -> None:
        self._fs = fs
        self._driver = driver
        self._clock_ns = clock_ns
        self._lock = Lock()
        self._last: NodeUse | None = None
        self._looked_ns = 0
        self._searched_ns: int | None = None
        self._pids: set[int] = set()
        self._counted: dict[tuple[str, int], _Counted] = {}

    def look(self) -> NodeUse:
        """Return every process's use; the last look's where another thread is at it."""
        if not self._lock.acquire(blocking=self._last is None):
            return self._last or NodeUse()
        try:
            now_ns = self._clock_ns()
            if self._last is None or now_ns - self._looked_ns >= _FRESH_NS:
                self._last, self._looked_ns = self._scan(now_ns), now_ns
            return self._last
        finally:
            self._lock.release()

    def _scan(self, now_ns: int) -> NodeUse:
        searches = self._searched_ns is None or now_ns - self._searched_ns >= SEARCH_NS
        if searches:
            self._searched_ns = now_ns
        try:
            pids: Iterable[int] = list_pids(self._fs) if searches else sorted(self._pids)
        except Unavailable:
            return NodeUse()
        found: dict[tuple[str, int], tuple[int, DrmClient]] = {}
        self._pids = set()
        for pid in pids:
            for client in scan_clients(self._fs, pid):
                if client.driver in ("", self._driver):
                    self._pids.add(pid)
                    found.setdefault((pci_address(client.pci), client.client), (pid, client))  # each client once
        return NodeUse(self._count(found, now_ns), self._sees_all())

    def _count(
        self, found: Mapping[tuple[str, int], tuple[int, DrmClient]], now_ns: int
    ) -> dict[str, tuple[ClientUse, ...]]:
        uses: dict[tuple[str, int], list[tuple[int | None, Mapping[str, float]]]] = {}
        for key, (pid, client) in found.items():
            counted = self._counted.get(key)
            if counted is None or counted.pid != pid:
                counted = self._counted[key] = _Counted(pid, now_ns)
            counted.take(client, now_ns)
            memory = [client.memory_bytes[name] for name in _OWN_MEMORY if name in client.memory_bytes]
            uses.setdefault((key[0], pid), []).append((sum(memory) if memory else None, counted.shares))
        self._counted = {key: counted for key, counted in self._counted.items() if key in found}
        by_pci: dict[str, list[ClientUse]] = {}
        for (pci, pid), parts in sorted(uses.items()):
            by_pci.setdefault(pci, []).append(_together(pid, parts))
        return {pci: tuple(members) for pci, members in by_pci.items()}

    def _sees_all(self) -> bool:
        """Return whether other users' files can be looked at; the first process is root's."""
        try:
            self._fs.list_dir(_SYSTEM)
        except (Unavailable, SourceError):
            return False
        return True


def _together(pid: int, parts: list[tuple[int | None, Mapping[str, float]]]) -> ClientUse:
    known = [memory for memory, _ in parts if memory is not None]
    engines: dict[str, float] = {}
    for _, shares in parts:
        for name, share in shares.items():
            engines[name] = engines.get(name, 0.0) + share
    return ClientUse(pid, sum(known) if known else None, engines)


def _larger(counters: dict[str, int], name: str, value: int) -> tuple[int | None, int]:
    """Keep the larger of a counter's old and new value; return the old one, None the first time, and what is kept."""
    before = counters.get(name)
    counters[name] = value if before is None else max(before, value)
    return before, counters[name]
