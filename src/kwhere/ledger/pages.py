"""A page of the ledger as it travels: `GET /ledger?after=EPOCH:SEQ&limit=SLOTS` → ndjson, a header line, then slots.

Lines of slots are canonical: JSON without spaces, keys in the order below, integers only; `prev` is the SHA-256
(hex) of the previous slot's line as served, without its newline, across epochs too, null in a new journal.

    {"seq", "prev", "start", "end", "monotonic_ns", "flags", "control", "entries"}

`start` and `end` are UTC nanoseconds. `control` is an object {component: {"uj", "span_ns", "method", "source"}} plus
"node_busy_ns". `entries` is a list of lists in the header's `columns`.
"""

from dataclasses import dataclass, field

from kwhere.core.terms import Component, Part
from kwhere.ledger.rows import NUMBER_COLUMNS, Slot

FORMAT = 1

ENERGY_COLUMN_NAMES: tuple[str, ...] = tuple(f"{c}_{p}_uj" for c in Component for p in Part)
COLUMNS: tuple[str, ...] = (
    "entry",
    "manager",
    "unit",
    "run",
    "name",
    "user",
    "project",
    "node_name",
    "labels",
    "flags",
    *ENERGY_COLUMN_NAMES,
    *NUMBER_COLUMNS,
    "gpus",
)
"""Columns of an entry. `labels` is an object, `flags` and `gpus` (gpu_uses.py) lists, all else a string, an integer or
null."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has read: the last slot it holds. Written `EPOCH:SEQ`; seq 0 is the start of an epoch."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.seq}"


@dataclass(frozen=True, slots=True)
class PageHeader:
    """Line 1 of a page: who speaks, what it still holds, how to read the rest."""

    format: int
    node: str
    node_names: tuple[str, ...]
    machine_id: str
    boot_id: str
    parent: str | None
    """`<hypervisor node>/<VM uuid>` when this guest is fed by its host."""
    epoch: str
    """Epoch of the slots of this page."""
    oldest: int | None
    """Oldest and newest seq of that epoch still held; None while it has none."""
    newest: int | None
    epochs: tuple[str, ...]
    """All epochs held, in order."""
    next: str | None
    """The next `after`: same epoch, or `<following epoch>:0` at its end; None if nothing was read."""
    slot_seconds: int
    idle_policy: str
    cpus: int
    p_max_mw: dict[str, int]
    """Largest plausible power per component, milliwatts."""
    columns: tuple[str, ...]
    version: str


@dataclass(frozen=True, slots=True)
class SlotLine:
    """A decoded slot with what the chain needs."""

    slot: Slot
    prev: str | None
    digest: str
    """SHA-256 of the line as served, without newline."""
    unknown: dict[str, list[object]] = field(default_factory=dict)
    """Values of columns this version does not know, by column, one per entry."""
    raw: bytes = b""
    """The line as served, without newline."""


@dataclass(frozen=True, slots=True)
class Page:
    """A header and its slots in order."""

    header: PageHeader
    lines: tuple[SlotLine, ...]
