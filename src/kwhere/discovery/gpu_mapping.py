"""Who holds which GPU, kept fresh beside the steps: each source has a thread of its own, and none waits for another."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import UnitKey
from kwhere.devices.gpu import DeviceState, GpuSource
from kwhere.devices.gpu_mapping_settings import GpuMappingSettings, ProcessNumbers
from kwhere.discovery.gpu_claims import ClaimSource, GpuClaim
from kwhere.discovery.gpu_finders import HoldFinder
from kwhere.discovery.gpu_holds import GpuNode, Hold, claims_of, equal_part
from kwhere.discovery.gpu_names import GpuNames, NodeFacts, Place, place_of
from kwhere.discovery.unit_source import TrackedUnit, UnitSource

_HUNG_NS = 30 * NANOSECONDS_PER_SECOND
"""A source that has not come back for this long is shown as such; what it said last stands."""
_KEPT_NS = 300 * NANOSECONDS_PER_SECOND
"""A source that fails, as kubelet does while it is started anew, leaves what it said of living units for so long."""
_AFTER_CHANGE_NS = 5 * NANOSECONDS_PER_SECOND
"""A unit's first process, names and files follow its directory: look often for so long."""
_SOON_SECONDS = 1.0
_OWNER_KEPT_NS = 5 * NANOSECONDS_PER_SECOND
_MOST_OWNERS = 10_000
_JOIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClaimSourceState:
    """How one source does. One that is `absent` is not on this node; that is no failure."""

    source: ClaimSource
    up: bool
    reason: str = ""
    """Empty while up, else absent, permission, timeout, unsupported, foreign_pids, error, not_asked, …"""
    message: str = ""
    holds: int = 0
    """How many units' holds it tells of now."""


@dataclass(frozen=True, slots=True)
class MappingParts:
    """What the mapping looks at; `clock_ns` is the boot-time clock."""

    gpus: Sequence[GpuSource]
    units: Sequence[UnitSource]
    facts: Callable[[], NodeFacts]
    sees_host_processes: Callable[[], bool]
    clock_ns: Callable[[], int]
    is_recorded: bool = False
    """A copied host is looked at within the step: its files change when the step turns the page."""


@dataclass(slots=True)
class _Asker:
    """One source and what it said last."""

    finder: HoldFinder
    holds: tuple[Hold, ...] = ()
    failure: Unavailable | SourceError | None = None
    asked: bool = False
    told_ns: int | None = None
    """When it last said something."""
    began_ns: int | None = None
    wake: Event = field(default_factory=Event)
    thread: Thread | None = None

    def look(self, node: GpuNode, now_ns: int) -> None:
        """Ask once. What a source that fails said before stands for a while."""
        self.began_ns = now_ns
        try:
            self.holds, self.failure = tuple(self.finder.find(node)), None
            self.told_ns = now_ns
        except (Unavailable, SourceError) as error:
            self.failure = error
            if self.told_ns is None or now_ns - self.told_ns > _KEPT_NS:
                self.holds = ()
        self.asked = True
        self.began_ns = None

    def state(self, source: ClaimSource, now_ns: int) -> ClaimSourceState:
        began_ns, failure = self.began_ns, self.failure
        mine = sum(hold.source is source for hold in self.holds)
        if began_ns is not None and now_ns - began_ns > _HUNG_NS:
            return ClaimSourceState(source, False, "timeout", f"{source}: has not answered", mine)
        if failure is not None:
            reason = failure.reason if isinstance(failure, Unavailable) else "error"
            return ClaimSourceState(source, False, reason, str(failure), mine)
        return ClaimSourceState(source, self.asked, "" if self.asked else "not_asked", holds=mine)


class GpuMapping:
    """`GpuHolders` of a node. `claims` and `owner_of` are the sampler's; the rest may be called from any thread."""

    def __init__(
        self, parts: MappingParts, finders: Iterable[HoldFinder], settings: GpuMappingSettings | None = None
    ) -> None:
        self._parts = parts
        self._settings = settings or GpuMappingSettings()
        self._askers = [_Asker(finder) for finder in finders if not _is_off(finder, self._settings)]
        self._processes = ClaimSource.PROCESSES.value not in self._settings.off
        self._foreign: bool | None = None
        self._stop = Event()
        self._lock = Lock()
        self._units: Mapping[UnitKey, TrackedUnit] = {}
        self._before: frozenset[UnitKey] = frozenset()
        self._changed_ns = 0
        self._owners: dict[int, tuple[int, UnitKey | None]] = {}
        self._by_processes = 0
        self._said: list[tuple[Hold, ...]] = []
        self._claims: list[GpuClaim] = []
        self._merged_stale = True

    def claims(self) -> Sequence[GpuClaim]:
        """Return every claim of units that live, or lived at the last call. Never waits; starts the threads."""
        changed = self._look_at_units()
        if not self._parts.is_recorded:
            self._start()
        elif changed:
            self._ask_all()
        claims = self._merged()
        return [*claims, *self._of_processes(claims)]

    def owner_of(self, pid: int) -> UnitKey | None:
        """Return the unit that a process on a GPU is accounted to; None where it is not known whose the numbers are."""
        if self._is_foreign():
            return None
        now_ns = self._parts.clock_ns()
        known = self._owners.get(pid)
        if known is not None and known[1] in self._units and now_ns < known[0]:
            return known[1]
        found = next((key for source in self._parts.units if (key := source.owner_of(pid)) is not None), None)
        self._owners[pid] = now_ns + _OWNER_KEPT_NS, found
        return found

    def refresh(self) -> None:
        """Ask every source once, here and now: before the first step, for `doctor`, in tests."""
        self._look_at_units()
        self._ask_all()

    def states(self) -> tuple[ClaimSourceState, ...]:
        """Return how each source does, in the order in which they are believed; those turned off are left out."""
        now_ns = self._parts.clock_ns()
        found = [asker.state(source, now_ns) for asker in self._askers for source in asker.finder.sources]
        found = [state for state in found if state.source.value not in self._settings.off]
        if self._processes:
            foreign = self._is_foreign()
            message = (
                "the process numbers that GPUs show are the host's, those of this /proc are not" if foreign else ""
            )
            found.append(
                ClaimSourceState(
                    ClaimSource.PROCESSES, not foreign, "foreign_pids" if foreign else "", message, self._by_processes
                )
            )
        return tuple(sorted(found, key=lambda state: tuple(ClaimSource).index(state.source)))

    def close(self) -> None:
        """End the threads; one that hangs in its source is left to it."""
        self._stop.set()
        for asker in self._askers:
            asker.wake.set()
        for asker in self._askers:
            if asker.thread is not None:
                asker.thread.join(_JOIN_SECONDS)

    def _look_at_units(self) -> bool:
        """Take down who lives, and return whether that changed; then the sources are asked at once."""
        live = {key: unit for source in self._parts.units for key, unit in source.live().items()}
        with self._lock:
            self._before = frozenset(self._units)
            self._units = live
            changed = live.keys() != self._before
            if changed:
                self._changed_ns = self._parts.clock_ns()
                self._merged_stale = True
        if changed or len(self._owners) > _MOST_OWNERS:
            self._owners = {pid: known for pid, known in self._owners.items() if known[1] in live}
        if changed:
            for asker in self._askers:
                asker.wake.set()
        return changed

    def _ask_all(self) -> None:
        node = self._node()
        for asker in self._askers:
            asker.look(node, self._parts.clock_ns())

    def _start(self) -> None:
        for asker in self._askers:
            if asker.thread is None and not self._stop.is_set():
                asker.thread = Thread(
                    target=self._run, args=(asker,), name=f"gpu-{asker.finder.sources[0].value}", daemon=True
                )
                asker.thread.start()

    def _run(self, asker: _Asker) -> None:
        while not self._stop.is_set():
            asker.wake.clear()
            asker.look(self._node(), self._parts.clock_ns())
            recent = self._parts.clock_ns() - self._changed_ns < _AFTER_CHANGE_NS
            if recent:  # not at every single one of many changes
                self._stop.wait(_SOON_SECONDS)
            else:
                asker.wake.wait(self._settings.refresh_seconds)

    def _node(self) -> GpuNode:
        devices = [state.device for source in self._parts.gpus for state in source.snapshot().devices]
        with self._lock:
            units = self._units
        return GpuNode(GpuNames(devices, self._parts.facts()), units)

    def _merged(self) -> list[GpuClaim]:
        """Return the claims of what the sources said last; worked out anew only when they or the units changed."""
        said = [asker.holds for asker in self._askers]
        same = len(said) == len(self._said) and all(map(operator.is_, said, self._said))
        if not same or self._merged_stale:
            known = self._units.keys() | self._before
            self._claims = claims_of(hold for hold in self._holds() if hold.unit in known)
            self._said = said
            self._merged_stale = self._units.keys() != self._before
        return self._claims

    def _holds(self) -> list[Hold]:
        off = self._settings.off
        return [hold for asker in self._askers for hold in asker.holds if hold.source.value not in off]

    def _of_processes(self, claims: Sequence[GpuClaim]) -> list[GpuClaim]:
        """Return claims by the processes that run where nobody holds anything; several units share equally."""
        if not self._processes or self._is_foreign():
            return []
        held = {Place(claim.device, claim.instance) for claim in claims}
        found: list[GpuClaim] = []
        for source in self._parts.gpus:
            for state in source.snapshot().devices:
                for place, units in self._running(state).items():
                    if place in held or Place(place.device) in held:
                        continue
                    found += (
                        GpuClaim(
                            unit,
                            place.device,
                            place.instance,
                            equal_part(position, len(units)),
                            exclusive=False,
                            source=ClaimSource.PROCESSES,
                        )
                        for position, unit in enumerate(units)
                    )
        self._by_processes = len(found)
        return found

    def _running(self, state: DeviceState) -> dict[Place, list[UnitKey]]:
        found: dict[Place, set[UnitKey]] = {}
        for process in state.processes or ():
            place = place_of(state.device, process.gpu_instance, process.compute_instance)
            unit = self.owner_of(process.pid)
            if place is not None and unit is not None:
                found.setdefault(place, set()).add(unit)
        return {place: sorted(units) for place, units in sorted(found.items())}

    def _is_foreign(self) -> bool:
        if self._foreign is None:
            chosen = self._settings.process_numbers
            foreign = chosen is ProcessNumbers.FOREIGN
            if chosen is ProcessNumbers.AUTO:
                foreign = not self._parts.sees_host_processes()
            self._foreign = foreign
        return self._foreign


def _is_off(finder: HoldFinder, settings: GpuMappingSettings) -> bool:
    return all(source.value in settings.off for source in finder.sources)
