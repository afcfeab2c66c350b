"""A journal made by hand: slots with known figures, served as pages by the real wire format."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kwhere.core.terms import Component, EntryKind, Flag, Method, Part
from kwhere.core.unit import UnitKey
from kwhere.ledger.columns import ColumnPage, decode_column_page
from kwhere.ledger.pages import COLUMNS, FORMAT, PageHeader
from kwhere.ledger.rows import Control, Entry, Figures, Slot
from kwhere.ledger.wire import digest, encode_page, encode_slot

SECOND_NS = 1_000_000_000
T0_NS = 1_764_000_000 * SECOND_NS
"""2025-11-24 16:00:00 UTC: a full hour."""


def key(unit: str, manager: str = "slurm", start_s: int = 1_764_000_000) -> UnitKey:
    return UnitKey(manager, unit, f"{unit}@{start_s}")


def figures(
    dynamic_uj: int, idle_uj: int, *, cpu_ns: int = 0, component: Component = Component.CPU, **more: int | None
) -> Figures:
    energy = {(component, Part.DYNAMIC): dynamic_uj, (component, Part.IDLE): idle_uj}
    return Figures(energy, cpu_user_ns=cpu_ns, cpu_system_ns=0, **more)


def unit(unit_key: UnitKey, numbers: Figures, **names: object) -> Entry:
    flags = frozenset({Flag(str(names.pop("flag")))}) if "flag" in names else frozenset()
    return Entry(EntryKind.UNIT, unit_key, numbers, flags=flags, **names)  # type: ignore[arg-type]


def system(numbers: Figures) -> Entry:
    return Entry(EntryKind.SYSTEM, None, numbers)


def unallocated(numbers: Figures) -> Entry:
    return Entry(EntryKind.UNALLOCATED, None, numbers)


def controls(entries: Sequence[Entry], span_ns: int, method: Method = Method.MODELLED) -> tuple[Control, ...]:
    sums: dict[Component, int] = {}
    for entry in entries:
        for (component, _), energy_uj in entry.figures.energy_uj.items():
            sums[component] = sums.get(component, 0) + energy_uj
    return tuple(Control(c, uj, span_ns, method, "model") for c, uj in sorted(sums.items()))


@dataclass
class HandJournal:
    """Slots of one agent, appended by a test."""

    node: str = "n1"
    node_names: tuple[str, ...] = ()
    """What slurmds on it are called; empty: as the node."""
    machine_id: str = "machine-1"
    boot_id: str = "boot-1"
    parent: str | None = None
    cpus: int = 10
    slot_seconds: int = 60
    p_max_mw: dict[str, int] = field(default_factory=lambda: {str(c): 1_000_000 for c in Component})
    epochs: list[str] = field(default_factory=lambda: [str(uuid.uuid4())])
    lines: dict[str, list[bytes]] = field(default_factory=dict)
    oldest: dict[str, int] = field(default_factory=dict)
    end_ns: int = T0_NS
    last_digest: str | None = None
    control_uj: int = 0
    """All energy of all slots, summed here and nowhere else."""

    def append(
        self,
        entries: Sequence[Entry],
        *,
        seconds: int | None = None,
        start_ns: int | None = None,
        method: Method = Method.MODELLED,
        flags: frozenset[Flag] = frozenset(),
        control: tuple[Control, ...] | None = None,
    ) -> Slot:
        """Append a slot that begins where the last ended and closes by itself."""
        length_ns = (self.slot_seconds if seconds is None else seconds) * SECOND_NS
        begin_ns = self.end_ns if start_ns is None else start_ns
        epoch = self.epochs[-1]
        lines = self.lines.setdefault(epoch, [])
        slot = Slot(
            seq=len(lines) + 1,
            start_ns=begin_ns,
            end_ns=begin_ns + length_ns,
            monotonic_ns=length_ns,
            controls=controls(entries, length_ns, method) if control is None else control,
            entries=tuple(entries),
            flags=flags,
        )
        self.control_uj += sum(item.energy_uj for item in slot.controls)
        self.add_line(encode_slot(slot, self.last_digest))
        self.end_ns = slot.end_ns
        return slot

    def add_line(self, line: bytes) -> None:
        self.lines.setdefault(self.epochs[-1], []).append(line)
        self.last_digest = digest(line)

    def new_epoch(self) -> str:
        self.epochs.append(str(uuid.uuid4()))
        return self.epochs[-1]

    def prune(self, epoch: str, before_seq: int) -> None:
        self.oldest[epoch] = before_seq

    def header(self, epoch: str, last: int | None) -> PageHeader:
        lines = self.lines.get(epoch, [])
        following = self.epochs[self.epochs.index(epoch) + 1 :]
        newest = len(lines) or None
        at_end = last == newest
        after = f"{following[0]}:0" if following and at_end else (f"{epoch}:{last}" if last else None)
        return PageHeader(
            format=FORMAT,
            node=self.node,
            node_names=self.node_names or (self.node,),
            machine_id=self.machine_id,
            boot_id=self.boot_id,
            parent=self.parent,
            epoch=epoch,
            oldest=self.oldest.get(epoch, 1) if newest else None,
            newest=newest,
            epochs=tuple(self.epochs),
            next=after,
            slot_seconds=self.slot_seconds,
            idle_policy="allocation",
            cpus=self.cpus,
            p_max_mw=self.p_max_mw,
            columns=COLUMNS,
            version="0.1.0",
        )

    def body(self, after: str | None = None, limit: int = 1000) -> bytes:
        """Return the page an agent would serve."""
        epoch, seq = (self.epochs[0], 0) if after is None else (after.split(":")[0], int(after.split(":")[1]))
        first = max(seq + 1, self.oldest.get(epoch, 1))
        lines = self.lines.get(epoch, [])[first - 1 : first - 1 + limit]
        last = first - 1 + len(lines)
        header = self.header(epoch, last if lines else len(self.lines.get(epoch, [])) or None)
        if not lines:
            header = replace(header, next=header.next if header.next and header.next.endswith(":0") else None)
        return encode_page(header, lines)

    def page(self, after: str | None = None, limit: int = 1000) -> ColumnPage:
        return decode_column_page(self.body(after, limit))
