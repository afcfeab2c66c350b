"""Slots and their rows as they are booked, stored, served and taken in: integers only, None where not measured."""

from dataclasses import dataclass, field

from kwhere.core.terms import Component, EntryKind, Flag, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.ledger.gpu_uses import GpuUse

ENERGY_COLUMNS: tuple[tuple[Component, Part], ...] = tuple((c, p) for c in Component for p in Part)
"""Order of energy columns everywhere: cpu dynamic, cpu idle, dram dynamic, …, other idle."""


@dataclass(slots=True)
class Figures:
    """What one entry used in one slot. Sums add; peaks take the larger. None is not measured."""

    energy_uj: dict[tuple[Component, Part], int] = field(default_factory=dict)
    """Microjoules per component and part; a component that nothing measures is absent."""
    cpu_user_ns: int | None = None
    cpu_system_ns: int | None = None
    cpu_allocated_ns: int | None = None
    """Allocated CPU time: CPUs x time."""
    memory_allocated_byte_seconds: int | None = None
    gpu_allocated_ns: int | None = None
    memory_byte_seconds: int | None = None
    memory_peak_bytes: int | None = None
    gpu_busy_ns: int | None = None
    gpu_memory_byte_seconds: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    io_read_operations: int | None = None
    io_write_operations: int | None = None
    network_receive_bytes: int | None = None
    network_transmit_bytes: int | None = None
    throttled_ns: int | None = None
    gpu_unknown_ns: int | None = None
    """GPU time held of which nobody knows whether it was used."""
    gpu_held_idle_ns: int | None = None
    """GPU time held while nothing of the unit ran there."""
    gpu_held_idle_uj: int | None = None
    """What of the GPU energy fell to it meanwhile."""
    gpu_memory_peak_bytes: int | None = None
    """Most GPU memory at one moment, over all GPUs of the unit on this node."""


NUMBER_COLUMNS: tuple[str, ...] = (
    "cpu_user_ns",
    "cpu_system_ns",
    "cpu_allocated_ns",
    "memory_allocated_byte_seconds",
    "gpu_allocated_ns",
    "memory_byte_seconds",
    "memory_peak_bytes",
    "gpu_busy_ns",
    "gpu_memory_byte_seconds",
    "io_read_bytes",
    "io_write_bytes",
    "io_read_operations",
    "io_write_operations",
    "network_receive_bytes",
    "network_transmit_bytes",
    "throttled_ns",
    "gpu_unknown_ns",
    "gpu_held_idle_ns",
    "gpu_held_idle_uj",
    "gpu_memory_peak_bytes",
)
"""Names of the plain number columns of `Figures`, in wire order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a slot: a unit run, `system` or `unallocated` (these two have no key)."""

    kind: EntryKind
    key: UnitKey | None
    figures: Figures
    name: str | None = None
    user: str | None = None
    project: str | None = None
    node_name: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    flags: frozenset[Flag] = frozenset()
    gpus: tuple[GpuUse, ...] = ()
    """By device and instance."""


@dataclass(frozen=True, slots=True)
class Control:
    """What the meters said of one component in one slot, summed by other code than the split's."""

    component: Component
    energy_uj: int
    span_ns: int
    """Length of the meter spans that ended in this slot; may exceed the slot's."""
    method: Method
    source: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A closed UTC span of one node's account. For each control: sum of entries' energy == control.energy_uj."""

    seq: int
    """From 1 within its epoch."""
    start_ns: int
    """UTC nanoseconds since 1970; [start, end)."""
    end_ns: int
    monotonic_ns: int
    """Length by the monotonic clock."""
    controls: tuple[Control, ...]
    entries: tuple[Entry, ...]
    node_busy_ns: int | None = None
    """Busy CPU time of the whole node in this slot (user, nice, system, irq, softirq)."""
    flags: frozenset[Flag] = frozenset()
