"""What each unit holds, or held, of GPUs since the process began, for collectors; and since when it idles."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.unit import UnitKey
from kwhere.discovery.gpu_claims import ClaimSource
from kwhere.sampling.gpu_holding import UnitHold
from kwhere.sampling.gpu_plan import HeldPlace

LONGEST_UNSEEN_NS = 600 * NANOSECONDS_PER_SECOND
"""After an agent was away for longer, nobody knows whether what idles now idled all the while."""


@dataclass(frozen=True, slots=True)
class UnitGpu:
    """What one unit holds, or held, of one GPU or instance, since the process began. None is not known."""

    device: str
    instance: str
    """Empty: the whole device."""
    index: int
    source: ClaimSource
    share_ratio: float
    """Of the whole device; 0 once it is not held any more."""
    memory_bytes: int | None
    """Now."""
    memory_peak_bytes: int | None
    busy_ns: int | None
    """GPU time: a whole device for a second is one second."""
    held_ns: int
    held_idle_ns: int | None
    """Held while nothing of the unit ran there."""
    idle_since_ns: int | None
    """Monotonic time since which nothing of it runs there; None: something does, or it is not known."""


UnitGpuPlace = tuple[UnitKey, str, str]
"""A unit, a device that it holds, and the instance of it, empty for the whole."""


@dataclass(slots=True)
class _Shown:
    """What one unit holds, or held, of one place; moved in place, for it moves in every step. See `UnitGpu`."""

    place: HeldPlace
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None
    busy_ns: int | None = None
    held_ns: int = 0
    held_idle_ns: int | None = None
    idle_since_ns: int | None = None
    is_held: bool = True

    def add(self, hold: UnitHold, lived_ns: int, now_ns: int, idled_before_ns: int | None) -> None:
        """Add one step. `idled_before_ns`: since when it idled in an earlier process of the agent."""
        self.place, self.is_held, self.memory_bytes = hold.place, True, hold.memory_bytes
        if hold.memory_bytes is not None:
            self.memory_peak_bytes = max(hold.memory_bytes, self.memory_peak_bytes or 0)
        self.busy_ns = sum_of(self.busy_ns, hold.busy, lived_ns)
        self.held_ns += lived_ns
        if hold.idle is not None and lived_ns:
            self.held_idle_ns = (self.held_idle_ns or 0) + lived_ns * hold.idle
        self.idle_since_ns = (self.idle_since_ns or idled_before_ns or now_ns) if hold.idle else None

    def let_go(self) -> None:
        """It is not held any more."""
        self.is_held, self.memory_bytes, self.idle_since_ns = False, None, None

    def frozen(self) -> UnitGpu:
        return UnitGpu(
            device=self.place.device,
            instance=self.place.instance,
            index=self.place.index,
            source=self.place.source,
            share_ratio=self.place.share if self.is_held else 0.0,
            memory_bytes=self.memory_bytes,
            memory_peak_bytes=self.memory_peak_bytes,
            busy_ns=self.busy_ns,
            held_ns=self.held_ns,
            held_idle_ns=self.held_idle_ns,
            idle_since_ns=self.idle_since_ns,
        )


class ShownGpus:
    """Written by the sampler's thread, once per step between `begin` and `end`."""

    def __init__(self) -> None:
        self._units: dict[UnitKey, dict[tuple[str, str], _Shown]] = {}
        self._seen: set[int] = set()
        self._idled_before: dict[UnitGpuPlace, int] = {}
        self._idled_until_ns: int | None = None
        """Monotonic time after which what idled before is forgotten: its unit did not come back."""

    def begin(self) -> None:
        """Begin a step."""
        self._seen.clear()

    def add(self, hold: UnitHold, lived_ns: int, now_ns: int) -> int | None:
        """Add one hold of the step; return since when it idles, monotonic, None where it does not."""
        held = hold.place
        places = self._units.setdefault(held.unit, {})
        place = (held.device, held.instance)
        shown = places.get(place)
        if shown is None:
            shown = places[place] = _Shown(held)
        self._seen.add(id(shown))
        shown.add(hold, lived_ns, now_ns, self._idled_before.get((held.unit, *place)) if self._idled_before else None)
        if hold.idle is not None and self._idled_before:  # it is known how it is now
            self._idled_before.pop((held.unit, *place), None)
        return shown.idle_since_ns

    def end(self, units: Collection[UnitKey], now_ns: int) -> None:
        """End the step: what was not held in it is shown as let go, and who is not among `units` is forgotten."""
        for unit in [unit for unit in self._units if unit not in units]:
            del self._units[unit]
        for places in self._units.values():
            for shown in places.values():
                if shown.is_held and id(shown) not in self._seen:
                    shown.let_go()
        if self._idled_before:
            self._idled_until_ns = self._idled_until_ns or now_ns + LONGEST_UNSEEN_NS
            if now_ns > self._idled_until_ns:
                self._idled_before.clear()

    def of(self, unit: UnitKey) -> tuple[UnitGpu, ...]:
        """Return what a unit holds or held, by device and instance."""
        found = self._units.get(unit, {})
        return tuple(found[place].frozen() for place in sorted(found))

    def saved(self) -> Mapping[UnitGpuPlace, int]:
        """Return since when each place that is held idle is so, monotonic."""
        return self._idled_before | {
            (unit, *place): shown.idle_since_ns
            for unit, places in self._units.items()
            for place, shown in places.items()
            if shown.idle_since_ns is not None
        }

    def restore(self, idle_since_ns: Mapping[UnitGpuPlace, int]) -> None:
        """Go on from an earlier process of this boot: what still idles at the first look has done so all the while."""
        self._idled_before = dict(idle_since_ns)


def sum_of(before: int | None, ratio: float | None, lived_ns: int) -> int | None:
    """Return a sum of times; a step of which nothing is known adds nothing, and makes nothing known."""
    return before if ratio is None or not lived_ns else (before or 0) + round(ratio * lived_ns)
