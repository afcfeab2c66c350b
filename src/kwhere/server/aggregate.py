"""Slots summed per unit run and 5-minute bucket. Pure: no I/O, no clock."""

import json
from collections.abc import Sequence
from operator import attrgetter

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, EntryKind, Flag, Method
from kwhere.database.flags import to_bits
from kwhere.database.schema import FIGURE_COLUMNS, PEAK_COLUMN, SHARE_NAMES
from kwhere.database.sums import NodeBucket, PageSums, RunKey, RunNames, RunSums, SlotSums, Values
from kwhere.energy.emissions import BUCKET_NS, spread
from kwhere.ledger.pages import SlotLine
from kwhere.ledger.rows import ENERGY_COLUMNS, NUMBER_COLUMNS, Entry, Figures, Slot

_numbers = attrgetter(*(name for name in NUMBER_COLUMNS if name != PEAK_COLUMN), PEAK_COLUMN)
_ENERGIES = len(ENERGY_COLUMNS)
_KIB = tuple(at for at, name in enumerate(FIGURE_COLUMNS) if name.endswith("_kib_seconds"))
_COMPONENTS = tuple(Component)
_SHARES = len(SHARE_NAMES)
_FRESH_SLOTS = 3
"""A unit has no power now once three slots have passed without it."""


def aggregate(lines: Sequence[SlotLine], sums: PageSums, extra_flags: frozenset[Flag] = frozenset()) -> None:
    """Add checked slots to `sums`; `extra_flags` are the server's own, for all of them."""
    for line in lines:
        sums.slots.append(_add_slot(line, to_bits(line.slot.flags | extra_flags), sums))


def figures_of(figures: Figures) -> Values:
    """Return figures in the order of `schema.FIGURE_COLUMNS`; byte-seconds become KiB-seconds."""
    energy = figures.energy_uj.get
    values: Values = [*map(energy, ENERGY_COLUMNS), *_numbers(figures)]
    for at in _KIB:
        value = values[at]
        if value is not None:
            values[at] = value >> 10
    return values


def add(values: Values, more: Values) -> Values:
    """Return the sum of two; the larger of the peaks; None where neither was measured."""
    summed = [b if a is None else a if b is None else a + b for a, b in zip(values, more, strict=True)]
    peaks = [peak for peak in (values[-1], more[-1]) if peak is not None]
    summed[-1] = max(peaks, default=None)
    return summed


def spread_values(values: Values, start_ns: int, end_ns: int) -> list[tuple[int, Values]]:
    """Return (bucket start, share) of each figure by time: largest remainders, ties to the earlier; peaks whole."""
    first = start_ns // BUCKET_NS * BUCKET_NS
    second = first + BUCKET_NS
    if end_ns <= second:
        return [(first, values)]
    if end_ns <= second + BUCKET_NS:
        early, late = _halves(values, second - start_ns, end_ns - start_ns)
        return [(first, early), (second, late)]
    columns = [None if value is None else [share for _, share in spread(value, start_ns, end_ns)] for value in values]
    starts = range(first, end_ns, BUCKET_NS)
    shares = [[None if column is None else column[at] for column in columns] for at in range(len(starts))]
    for share in shares:
        share[-1] = values[-1]
    return list(zip(starts, shares, strict=True))


def _halves(values: Values, early_ns: int, whole_ns: int) -> tuple[Values, Values]:
    # Largest remainders over two buckets is rounding half up in favour of the earlier.
    early: Values = [None if value is None else (2 * value * early_ns + whole_ns) // (2 * whole_ns) for value in values]
    late: Values = [
        None if value is None or share is None else value - share for value, share in zip(values, early, strict=True)
    ]
    early[-1] = late[-1] = values[-1]
    return early, late


class _Tally:
    """Energy of one slot, or of its share in one bucket, by whom it went to."""

    def __init__(self) -> None:
        self.by_kind = {kind: [0] * _ENERGIES for kind in EntryKind}

    def add(self, kind: EntryKind, values: Values) -> None:
        energies = self.by_kind[kind]
        for at in range(_ENERGIES):
            value = values[at]
            if value:
                energies[at] += value

    def balance(self) -> list[int]:
        """Return energies in the order of `schema.BALANCE_COLUMNS`."""
        units, system = self.by_kind[EntryKind.UNIT], self.by_kind[EntryKind.SYSTEM]
        unallocated = self.by_kind[EntryKind.UNALLOCATED]
        balance: list[int] = []
        for at in range(0, _ENERGIES, 2):
            balance += (units[at], units[at + 1], system[at] + system[at + 1], unallocated[at] + unallocated[at + 1])
        return balance

    def measured_uj(self, measured: Sequence[bool]) -> int:
        return sum(energies[at] for energies in self.by_kind.values() for at in range(_ENERGIES) if measured[at])


def _add_slot(line: SlotLine, flags: int, sums: PageSums) -> SlotSums:
    slot = line.slot
    whole, tallies = _Tally(), {start_ns: _Tally() for start_ns, _ in spread_values([None], slot.start_ns, slot.end_ns)}
    for entry in slot.entries:
        values = figures_of(entry.figures)
        shares = spread_values(values, slot.start_ns, slot.end_ns)
        whole.add(entry.kind, values)
        for start_ns, share in shares:
            tallies[start_ns].add(entry.kind, share)
        _add_run(entry, values, shares, slot, flags, sums)
    _add_buckets(slot, tallies, sums)
    known = {control.component for control in slot.controls}
    balance = tuple(value if _COMPONENTS[at // _SHARES] in known else None for at, value in enumerate(whole.balance()))
    return _slot_sums(line, flags, balance)


def _add_buckets(slot: Slot, tallies: dict[int, _Tally], sums: PageSums) -> None:
    real = {control.component for control in slot.controls if control.method is not Method.MODELLED}
    measured = [component in real for component, _ in ENERGY_COLUMNS]
    for start_ns, tally in tallies.items():
        covered_ns = min(slot.end_ns, start_ns + BUCKET_NS) - max(slot.start_ns, start_ns)
        bucket = sums.buckets.setdefault(start_ns, NodeBucket(0, 0, [0] * (len(_COMPONENTS) * _SHARES)))
        bucket.accounted_ns += covered_ns
        bucket.measured_uj += tally.measured_uj(measured)
        bucket.balance = [old + new for old, new in zip(bucket.balance, tally.balance(), strict=True)]


def _add_run(
    entry: Entry, values: Values, shares: Sequence[tuple[int, Values]], slot: Slot, flags: int, sums: PageSums
) -> None:
    key = RunKey(entry.kind, entry.key.manager, entry.key.unit, entry.key.run) if entry.key else RunKey(entry.kind)
    run = sums.runs.get(key)
    names = RunNames(entry.name, entry.user, entry.project, entry.node_name, entry.labels)
    if run is None:
        run = sums.runs[key] = RunSums(names, slot.start_ns, slot.end_ns, 0, 0, 0, [None] * len(values))
    length_ns = slot.end_ns - slot.start_ns
    if slot.end_ns >= run.end_ns:
        energy_uj = sum(value for value in values[:_ENERGIES] if value)
        run.names = names if run.names == names else names.after(run.names)
        run.end_ns = slot.end_ns
        run.power_uw = energy_uj * NANOSECONDS_PER_SECOND // length_ns
        run.power_until_ns = slot.end_ns + _FRESH_SLOTS * length_ns
    run.flags |= flags | to_bits(entry.flags) if entry.flags else flags
    run.total = add(run.total, values)
    for start_ns, share in shares:
        held = run.buckets.get(start_ns)
        run.buckets[start_ns] = share if held is None else add(held, share)


def _slot_sums(line: SlotLine, flags: int, balance: tuple[int | None, ...]) -> SlotSums:
    slot = line.slot
    return SlotSums(
        seq=slot.seq,
        start_ns=slot.start_ns,
        end_ns=slot.end_ns,
        digest=line.digest,
        flags=flags,
        line=line.raw,
        controls=json.dumps({c.component: [c.energy_uj, c.span_ns, c.method, c.source] for c in slot.controls}),
        balance=balance,
        methods=json.dumps({c.component: [c.method, c.source] for c in slot.controls}),
    )
