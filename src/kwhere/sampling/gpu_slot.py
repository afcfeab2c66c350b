"""What one unit used of one GPU or instance in the open slot; moved in place, for it moves in every step."""

from dataclasses import dataclass

from kwhere.ledger.gpu_uses import GpuUse
from kwhere.sampling.gpu_holding import UnitHold


@dataclass(slots=True)
class GpuSlot:
    """Sums of the open slot; see `GpuUse`. None is not known."""

    hold: UnitHold
    """Its newest step."""
    held_ns: int = 0
    allocated_ns: int = 0
    place_ns: int = 0
    unknown_ns: int = 0
    busy_ns: int | None = None
    held_idle_ns: int | None = None
    energy_uj: int | None = None
    held_idle_uj: int | None = None
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    idle_since_ns: int | None = None
    """Monotonic."""

    def add(self, hold: UnitHold, lived_ns: int, idle_since_ns: int | None) -> None:
        """Add one step."""
        allocated_ns = round(hold.place.share * lived_ns)
        self.hold = hold
        self.held_ns += lived_ns
        self.allocated_ns += allocated_ns
        self.place_ns += round(hold.place.place_share * lived_ns)
        if hold.busy is None:
            self.unknown_ns += allocated_ns
        else:
            self.busy_ns = (self.busy_ns or 0) + round(hold.busy * lived_ns)
        if hold.idle is not None:
            self.held_idle_ns = (self.held_idle_ns or 0) + lived_ns * hold.idle
        if hold.memory_bytes is not None:
            self.memory_peak_bytes = max(hold.memory_bytes, self.memory_peak_bytes or 0)
        if hold.memory_total_bytes is not None:
            self.memory_total_bytes = hold.memory_total_bytes
        self.idle_since_ns = idle_since_ns

    def book(self, energy_uj: int, held_idle_uj: int) -> None:
        """Add what fell to it of the GPU's energy, and what of that fell to idle holding."""
        self.energy_uj = (self.energy_uj or 0) + energy_uj
        self.held_idle_uj = (self.held_idle_uj or 0) + held_idle_uj

    def use(self, to_utc_ns: int) -> GpuUse:
        """Return it as the ledger has it; `to_utc_ns` added to a monotonic time is the wall's."""
        place = self.hold.place
        return GpuUse(
            device=place.device,
            instance=place.instance,
            index=place.index,
            model=place.model,
            profile=place.profile,
            source=str(place.source),
            held_ns=self.held_ns,
            allocated_ns=self.allocated_ns,
            place_ns=self.place_ns,
            unknown_ns=self.unknown_ns,
            busy_ns=self.busy_ns,
            held_idle_ns=self.held_idle_ns,
            energy_uj=self.energy_uj,
            held_idle_uj=self.held_idle_uj,
            memory_peak_bytes=self.memory_peak_bytes,
            memory_total_bytes=self.memory_total_bytes,
            idle_since_ns=None if self.idle_since_ns is None else max(0, self.idle_since_ns + to_utc_ns),
        )
