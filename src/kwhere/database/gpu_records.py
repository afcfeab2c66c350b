"""What the read side says of GPUs. Energy in microjoules; "GPU time": a whole device for a second is one second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

_ROUNDING = 1e-6
"""What steps of whole nanoseconds add at most to a ratio of 1."""


@dataclass(frozen=True, slots=True)
class GpuTotals:
    """GPUs of a unit, or of many. None is not known, or no GPU."""

    allocated_ns: int | None = None
    unknown_ns: int | None = None
    """GPU time held of which nobody knows whether it was used: neither idle nor busy."""
    busy_ns: int | None = None
    held_idle_ns: int | None = None
    """GPU time held while nothing of the unit ran there."""
    held_idle_uj: int | None = None
    """What fell to it meanwhile."""
    memory_peak_bytes: int | None = None
    """Most at one moment over all GPUs of a node; only of units."""

    @property
    def utilisation_ratio(self) -> float | None:
        """Return GPU time busy of that held, over the time of which it is known; above 1: more than its share."""
        return _ratio(self.busy_ns, self.allocated_ns, self.unknown_ns)


NO_GPUS = GpuTotals()


@dataclass(frozen=True, slots=True)
class UnitGpu:
    """One GPU or instance that a unit holds or held on a node, with lifetime totals. None is not known."""

    node: str
    device: str
    """UUID."""
    instance: str
    """UUID; empty: the whole device."""
    index: int
    """As the vendor's library counts devices."""
    model: str
    profile: str
    source: str
    """How it is known who held it: `prolog`, `pod_resources`, …"""
    first_at: datetime
    last_at: datetime
    is_held: bool
    """In the newest slot."""
    idle_since: datetime | None
    held_ns: int
    """Time, not GPU time."""
    allocated_ns: int
    place_ns: int
    """As `allocated_ns`, where the place itself, not its device, counts as one."""
    unknown_ns: int
    busy_ns: int | None
    held_idle_ns: int | None
    """Time, not GPU time."""
    energy_uj: int | None
    held_idle_uj: int | None
    memory_peak_bytes: int | None
    memory_total_bytes: int | None

    @property
    def utilisation_ratio(self) -> float | None:
        """Return GPU time busy of that held, over the time of which it is known; above 1: more than its share."""
        return _ratio(self.busy_ns, self.allocated_ns, self.unknown_ns)

    @property
    def kind(self) -> str:
        """Return what a person asks for: the model, with its profile where it is an instance."""
        return " ".join(word for word in (self.model or "GPU", self.profile) if word)


@dataclass(frozen=True, slots=True)
class GpuHold:
    """Who holds a GPU or instance of a node now."""

    manager: str
    unit: str
    run: str
    name: str | None
    user: str | None
    gpu: UnitGpu


def _ratio(busy_ns: int | None, allocated_ns: int | None, unknown_ns: int | None) -> float | None:
    known_ns = (allocated_ns or 0) - (unknown_ns or 0)
    return None if busy_ns is None or known_ns <= 0 else without_rounding(busy_ns / known_ns)


def without_rounding(ratio: float) -> float:
    """Return a ratio of what was held, 1 where rounding alone takes it above.

    More than that stays: who shares a device may use more of it than its share while the others rest (users 5).
    """
    return 1.0 if 1.0 < ratio <= 1.0 + _ROUNDING else ratio


def by_kind(gpus: Sequence[UnitGpu]) -> Mapping[str, float]:
    """Return how many of each kind were held: each place by its mean share while it was held."""
    found: dict[str, float] = {}
    for gpu in gpus:
        if gpu.held_ns:
            found[gpu.kind] = found.get(gpu.kind, 0.0) + gpu.place_ns / gpu.held_ns
    return {kind: round(count, 3) for kind, count in sorted(found.items())}
