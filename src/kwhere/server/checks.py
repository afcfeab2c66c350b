"""What a slot must be to be booked; what it is not goes to quarantine with the reason. Pure."""

from dataclasses import dataclass
from operator import attrgetter

from kwhere.core.quantities import NANOSECONDS_PER_SECOND, joules
from kwhere.ledger.closure import residuals
from kwhere.ledger.pages import PageHeader
from kwhere.ledger.rows import NUMBER_COLUMNS, Slot

AHEAD_NS = 120 * NANOSECONDS_PER_SECOND
"""How far a slot may end in our future."""
CPU_TOLERANCE_PERCENT = 102
LARGEST_FIGURE = 2**58
"""Of one entry in one slot; 1000 CPUs for three days are less. Many of them still add up within 64 bits."""
_figures = attrgetter(*(name for name in NUMBER_COLUMNS if not name.endswith("_byte_seconds")))
"""Byte-seconds are kept as KiB-seconds and so have room."""


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


def fault_of(slot: Slot, limits: Limits, now_ns: int) -> str | None:
    """Return why `slot` cannot be booked; None if it can."""
    checks = (_future(slot, now_ns), _foreign(slot, limits), _power(slot, limits), _cpu(slot, limits), _size(slot))
    found = [reason for reason in (*checks, _closure(slot)) if reason is not None]
    return "; ".join(found) or None


def _future(slot: Slot, now_ns: int) -> str | None:
    ahead_ns = slot.end_ns - now_ns
    return f"ends {ahead_ns / 1e9:.0f} s in the future" if ahead_ns > AHEAD_NS else None


def _foreign(slot: Slot, limits: Limits) -> str | None:
    foreign = {entry.node_name for entry in slot.entries if entry.node_name} - limits.node_names
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


def _cpu(slot: Slot, limits: Limits) -> str | None:
    used_ns = sum((e.figures.cpu_user_ns or 0) + (e.figures.cpu_system_ns or 0) for e in slot.entries)
    length_ns = max(slot.end_ns - slot.start_ns, slot.monotonic_ns)
    most_ns = limits.cpus * (length_ns * CPU_TOLERANCE_PERCENT // 100 + NANOSECONDS_PER_SECOND)
    if used_ns <= most_ns:
        return None
    return f"at most {most_ns / 1e9:.0f} CPU seconds expected of {limits.cpus} CPUs, found {used_ns / 1e9:.0f}"


def _size(slot: Slot) -> str | None:
    for entry in slot.entries:
        if max((value or 0 for value in _figures(entry.figures)), default=0) > LARGEST_FIGURE:
            return "a figure beyond reason"
    return None


def _closure(slot: Slot) -> str | None:
    rest = residuals(slot)
    if not rest:
        return None
    return "does not balance: " + ", ".join(f"{component} by {uj} µJ" for component, uj in sorted(rest.items()))
