"""What a slot must be to be booked; what it is not goes to quarantine with the reason. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from kwhere.core.errors import IntakeRefused
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, joules
from kwhere.core.terms import Component
from kwhere.ledger.columns import ColumnLine, EntryColumns
from kwhere.ledger.gpu_uses import SUM_NAMES as GPU_SUMS
from kwhere.ledger.gpu_uses import GpuUse
from kwhere.ledger.pages import ENERGY_COLUMN_NAMES, PageHeader
from kwhere.ledger.rows import ENERGY_COLUMNS, NUMBER_COLUMNS, Slot

AHEAD_NS = 120 * NANOSECONDS_PER_SECOND
"""How far a slot may end in our future."""
LONGEST_NS = 31 * 86_400 * NANOSECONDS_PER_SECOND
"""Agents keep 14 days: no slot and no meter's span is longer, and a forged one would fill a million buckets."""
CPU_TOLERANCE_PERCENT = 102
LARGEST_FIGURE = 2**58
"""Of one entry in one slot; 1000 CPUs for three days are less. Many of them still add up within 64 bits."""
_FIGURES = tuple(name for name in (*ENERGY_COLUMN_NAMES, *NUMBER_COLUMNS) if not name.endswith("_byte_seconds"))
"""Byte-seconds are kept as KiB-seconds and so have room."""
LONGEST_TEXTS = {"manager": 64, "unit": 512, "run": 600, "user": 255, "project": 255, "node_name": 255}
"""As the tables have them: SQLite would take more, PostgreSQL refuse the page for ever."""
LONGEST_GPU_TEXTS = {"device": 128, "instance": 128, "model": 255, "profile": 64, "source": 32}
LARGEST_GPU_INDEX = 2**31 - 1
LONGEST_WORDS = {
    "node": 255,
    "machine_id": 128,
    "boot_id": 64,
    "epoch": 64,
    "version": 64,
    "idle_policy": 32,
    "parent": 512,
}
LARGEST_CPUS = 2**20
_ENERGIES = tuple((component, f"{component}_{part}_uj") for component, part in ENERGY_COLUMNS)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a node can have used at most."""

    cpus: int
    p_max_mw: dict[str, int]
    ceiling_mw: int
    node_names: frozenset[str]

    @classmethod
    def of(cls, header: PageHeader, ceiling_mw: int) -> "Limits":
        """Return the limits that a page's header states, capped by the target group's ceiling."""
        return cls(header.cpus, header.p_max_mw, ceiling_mw, frozenset(header.node_names) | {header.node})


def fault_of(held: ColumnLine, limits: Limits, now_ns: int) -> str | None:
    """Return why a slot cannot be booked; None if it can."""
    slot, entries = held.line.slot, held.entries
    checks = (
        _future(slot, now_ns),
        _length(slot),
        _foreign(entries, limits),
        _power(slot, limits),
        _cpu(slot, entries, limits),
        _size(entries),
        _names(entries),
        _closure(held),
    )
    return "; ".join(reason for reason in checks if reason is not None) or None


def _future(slot: Slot, now_ns: int) -> str | None:
    ahead_ns = slot.end_ns - now_ns
    return f"ends {ahead_ns / 1e9:.0f} s in the future" if ahead_ns > AHEAD_NS else None


def _length(slot: Slot) -> str | None:
    spans_ns = [control.span_ns for control in slot.controls]
    longest_ns = max(slot.end_ns - slot.start_ns, slot.monotonic_ns, *spans_ns, 0)
    return f"is {longest_ns / 86_400e9:.0f} days long" if longest_ns > LONGEST_NS else None


def _foreign(entries: EntryColumns, limits: Limits) -> str | None:
    foreign = {name for name in entries.texts["node_name"] if name} - limits.node_names
    return f"rows of foreign nodes: {', '.join(sorted(foreign)[:3])}" if foreign else None


def _power(slot: Slot, limits: Limits) -> str | None:
    length_ns = slot.end_ns - slot.start_ns
    for control in slot.controls:
        p_max_mw = min(limits.p_max_mw.get(control.component, limits.ceiling_mw), limits.ceiling_mw)
        most_uj = p_max_mw * max(length_ns, control.span_ns, slot.monotonic_ns) // 1_000_000
        if control.energy_uj > most_uj:
            return (
                f"{control.component}: at most {joules(most_uj):.0f} J expected at {p_max_mw / 1000:.0f} W,"
                f" found {joules(control.energy_uj):.0f} J"
            )
    return None


def _cpu(slot: Slot, entries: EntryColumns, limits: Limits) -> str | None:
    used_ns = _total(entries.figures["cpu_user_ns"]) + _total(entries.figures["cpu_system_ns"])
    length_ns = max(slot.end_ns - slot.start_ns, slot.monotonic_ns)
    most_ns = limits.cpus * (length_ns * CPU_TOLERANCE_PERCENT // 100 + NANOSECONDS_PER_SECOND)
    if used_ns <= most_ns:
        return None
    return f"at most {most_ns / 1e9:.0f} CPU seconds expected of {limits.cpus} CPUs, found {used_ns / 1e9:.0f}"


def _size(entries: EntryColumns) -> str | None:
    largest = max((max(filter(None, entries.figures[name]), default=0) for name in _FIGURES), default=0)
    if any(use.index > LARGEST_GPU_INDEX for use in _gpus(entries)):
        return "a GPU's index beyond reason"
    gpu = max((getattr(use, name) or 0 for use in _gpus(entries) for name in GPU_SUMS), default=0)
    return "a figure beyond reason" if max(largest, gpu) > LARGEST_FIGURE else None


def _gpus(entries: EntryColumns) -> Iterator[GpuUse]:
    return chain.from_iterable(entries.gpus)


def _names(entries: EntryColumns) -> str | None:
    for name, most in LONGEST_TEXTS.items():
        longest = max((_bytes(text) for text in entries.texts[name] if text), default=0)
        if longest > most:
            return f"{name}: at most {most} bytes expected, found {longest}"
    for name, most in LONGEST_GPU_TEXTS.items():
        longest = max((_bytes(getattr(use, name)) for use in _gpus(entries)), default=0)
        if longest > most:
            return f"gpu {name}: at most {most} bytes expected, found {longest}"
    return None


def _bytes(text: str) -> int:
    """Return the length in UTF-8: an index of PostgreSQL counts bytes."""
    return len(text) if text.isascii() else len(text.encode())


def check_header(header: PageHeader) -> None:
    """Raise IntakeRefused where a header's words are longer than any real one's, and than what a database keeps."""
    for name, most in LONGEST_WORDS.items():
        if _bytes(getattr(header, name) or "") > most:
            raise IntakeRefused(f"header {name}: at most {most} bytes expected")
    if not 0 < header.slot_seconds <= LONGEST_NS // NANOSECONDS_PER_SECOND or header.cpus > LARGEST_CPUS:
        raise IntakeRefused(f"header: {header.slot_seconds} s per slot on {header.cpus} CPUs cannot be")


def residuals(held: ColumnLine) -> dict[Component, int]:
    """Return, per component that does not close, the control's microjoules less the entries'; {} is balance."""
    slot, entries = held.line.slot, held.entries
    rest = {control.component: control.energy_uj for control in slot.controls}
    for component, name in _ENERGIES:
        energy_uj = _total(entries.figures[name])
        if energy_uj:
            rest[component] = rest.get(component, 0) - energy_uj
    return {component: energy_uj for component, energy_uj in rest.items() if energy_uj}


def _closure(held: ColumnLine) -> str | None:
    open_ends = [f"{component} by {uj} µJ" for component, uj in sorted(residuals(held).items())]
    return f"does not balance: {', '.join(open_ends)}" if open_ends else None


def _total(values: Sequence[int | None]) -> int:
    return sum(filter(None, values))
