"""Slots summed per unit run and 5-minute bucket. Pure: no I/O, no clock."""

import json
from collections.abc import Iterator, Sequence

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.core.terms import Component, EntryKind, Flag, Method
from kwhere.database.flags import to_bits
from kwhere.database.schema import BALANCE_COLUMNS, FIGURE_COLUMNS, PEAK_COLUMNS
from kwhere.database.sums import GpuSums, NodeBucket, PageSums, RunKey, RunNames, RunSums, SlotSums, Values
from kwhere.energy.emissions import BUCKET_NS, spread
from kwhere.ledger.columns import ColumnLine, EntryColumns
from kwhere.ledger.gpu_uses import GpuUse, Place
from kwhere.ledger.pages import SlotLine
from kwhere.ledger.rows import ENERGY_COLUMNS, Slot

_ENERGIES = len(ENERGY_COLUMNS)
_PEAKS = -len(PEAK_COLUMNS)
_KIB_SUFFIX = "_kib_seconds"
_COMPONENTS = tuple(Component)
_SHARES = len(BALANCE_COLUMNS) // len(_COMPONENTS)
_FLAGS = {str(flag): to_bits([flag]) for flag in Flag}
_FRESH_SLOTS = 3
"""A unit has no power now once three slots have passed without it."""

Figures = list[Sequence[int | None]]
"""Columns in the order of `schema.FIGURE_COLUMNS`; the last are peaks, which are no sums."""


def aggregate(lines: Sequence[ColumnLine], sums: PageSums, extra_flags: frozenset[Flag] = frozenset()) -> None:
    """Add checked slots to `sums`; `extra_flags` are the server's own, for all of them."""
    for held in lines:
        flags = to_bits(held.line.slot.flags | extra_flags)
        sums.slots.append(_add_slot(held, flags, sums))


def figures_of(entries: EntryColumns) -> Figures:
    """Return figures in the order of `schema.FIGURE_COLUMNS`; byte-seconds become KiB-seconds."""
    columns: Figures = []
    for name in FIGURE_COLUMNS:
        if name.endswith(_KIB_SUFFIX):
            held = entries.figures[name.removesuffix(_KIB_SUFFIX) + "_byte_seconds"]
            columns.append([None if value is None else value >> 10 for value in held])
        else:
            columns.append(entries.figures[name])
    return columns


def spread_columns(columns: Figures, start_ns: int, end_ns: int) -> list[tuple[int, Figures]]:
    """Return (bucket start, shares) of each figure by time: largest remainders, ties to the earlier; peaks whole."""
    first = start_ns // BUCKET_NS * BUCKET_NS
    second = first + BUCKET_NS
    if end_ns <= second:
        return [(first, columns)]
    if end_ns <= second + BUCKET_NS:
        early, late = _halves(columns, second - start_ns, end_ns - start_ns)
        return [(first, early), (second, late)]
    pieces = [[_spread(value, start_ns, end_ns) for value in column] for column in columns]
    buckets: list[tuple[int, Figures]] = []
    for at, begin_ns in enumerate(range(first, end_ns, BUCKET_NS)):
        shares: Figures = [[None if piece is None else piece[at] for piece in column] for column in pieces]
        shares[_PEAKS:] = columns[_PEAKS:]
        buckets.append((begin_ns, shares))
    return buckets


def _spread(value: int | None, start_ns: int, end_ns: int) -> list[int] | None:
    return None if value is None else [share for _, share in spread(value, start_ns, end_ns)]


def _halves(columns: Figures, early_ns: int, whole_ns: int) -> tuple[Figures, Figures]:
    # Largest remainders over two buckets is rounding half up in favour of the earlier.
    early: Figures = []
    late: Figures = []
    for column in columns[:_PEAKS]:
        first = [None if v is None else (2 * v * early_ns + whole_ns) // (2 * whole_ns) for v in column]
        early.append(first)
        late.append([None if v is None or e is None else v - e for v, e in zip(column, first, strict=True)])
    return [*early, *columns[_PEAKS:]], [*late, *columns[_PEAKS:]]


def add(values: Values, more: Values) -> Values:
    """Return the sum of two; the larger of each peak; None where neither was measured."""
    summed = [b if a is None else a if b is None else a + b for a, b in zip(values, more, strict=True)]
    for at in range(_PEAKS, 0):
        a, b = values[at], more[at]
        summed[at] = a if b is None or (a is not None and a > b) else b
    return summed


def _add_slot(held: ColumnLine, flags: int, sums: PageSums) -> SlotSums:
    slot, entries = held.line.slot, held.entries
    columns = figures_of(entries)
    known = [column.count(None) < len(column) for column in columns]
    sums.measured = [old or new for old, new in zip(sums.measured, known, strict=True)] if sums.measured else known
    shares = spread_columns(columns, slot.start_ns, slot.end_ns)
    runs = list(_runs(entries, columns, slot, flags, sums))
    for start_ns, share in shares:
        rows = zip(*share, strict=True) if runs else ()
        for run, values in zip(runs, rows, strict=True):
            before = run.buckets.get(start_ns)
            run.buckets[start_ns] = values if before is None else add(before, values)
        _add_bucket(slot, start_ns, _tally(entries.kinds, share), sums)
    return _slot_sums(held.line, flags, _tally(entries.kinds, columns))


def _runs(entries: EntryColumns, columns: Figures, slot: Slot, flags: int, sums: PageSums) -> Iterator[RunSums]:
    """Yield the sums of each entry in order, its totals and newest power already added."""
    texts = entries.texts
    keys = zip(entries.kinds, texts["manager"], texts["unit"], texts["run"], strict=True)
    names = zip(texts["name"], texts["user"], texts["project"], texts["node_name"], entries.labels, strict=True)
    length_ns = slot.end_ns - slot.start_ns
    until_ns = slot.end_ns + _FRESH_SLOTS * length_ns
    rows = zip(*columns, strict=True) if entries.kinds else iter(())
    for words, called, flag_words, gpus, values in zip(keys, names, entries.flags, entries.gpus, rows, strict=True):
        run = sums.runs.get(words)  # type: ignore[call-overload]
        if run is None:
            key = RunKey(*(word or "" for word in words))
            run = sums.runs.get(key) or _open(key, RunNames(*called), slot, sums)
        elif called != run.names:
            run.names = RunNames(*called).after(run.names)
        if slot.end_ns >= run.end_ns:
            run.end_ns = slot.end_ns
            run.power_uw = sum(filter(None, values[:_ENERGIES])) * NANOSECONDS_PER_SECOND // length_ns
            run.power_until_ns = until_ns
        run.flags |= flags | _bits(flag_words) if flag_words else flags
        for use in gpus:
            _add_gpu(run.gpus, use, slot)
        run.total = values if run.total is None else add(run.total, values)
        yield run


def _add_gpu(gpus: dict[Place, GpuSums], use: GpuUse, slot: Slot) -> None:
    # A meter may speak late of a GPU that was given back before this slot: it is not held in it.
    end_ns = slot.end_ns if use.held_ns else slot.start_ns
    held = gpus.get(use.place)
    if held is None:
        gpus[use.place] = GpuSums(use, slot.start_ns, end_ns)
    else:
        held.add(use, slot.start_ns, end_ns)


def _open(key: RunKey, names: RunNames, slot: Slot, sums: PageSums) -> RunSums:
    run = sums.runs[key] = RunSums(names, slot.start_ns, slot.start_ns)
    return run


def _bits(words: Sequence[str]) -> int:
    bits = 0
    for word in words:
        bits |= _FLAGS.get(word, 0)
    return bits


def _tally(kinds: Sequence[str], columns: Figures) -> list[int]:
    """Return energies in the order of `schema.BALANCE_COLUMNS`."""
    energies = [sum(filter(None, column)) for column in columns[:_ENERGIES]]
    system, unallocated = (_of_kind(kinds, kind, columns) for kind in (EntryKind.SYSTEM, EntryKind.UNALLOCATED))
    balance: list[int] = []
    for at in range(0, _ENERGIES, 2):
        dynamic, idle = (energies[i] - system[i] - unallocated[i] for i in (at, at + 1))
        balance += (dynamic, idle, system[at] + system[at + 1], unallocated[at] + unallocated[at + 1])
    return balance


def _of_kind(kinds: Sequence[str], kind: EntryKind, columns: Figures) -> list[int]:
    if kind not in kinds:
        return [0] * _ENERGIES
    at = kinds.index(kind)
    return [column[at] or 0 for column in columns[:_ENERGIES]]


def _add_bucket(slot: Slot, start_ns: int, balance: Sequence[int], sums: PageSums) -> None:
    real = {control.component for control in slot.controls if control.method is not Method.MODELLED}
    bucket = sums.buckets.setdefault(start_ns, NodeBucket(0, 0, [0] * len(BALANCE_COLUMNS)))
    bucket.accounted_ns += min(slot.end_ns, start_ns + BUCKET_NS) - max(slot.start_ns, start_ns)
    bucket.measured_uj += sum(energy_uj for at, energy_uj in enumerate(balance) if _COMPONENTS[at // _SHARES] in real)
    bucket.balance = [old + new for old, new in zip(bucket.balance, balance, strict=True)]


def _slot_sums(line: SlotLine, flags: int, balance: Sequence[int]) -> SlotSums:
    slot = line.slot
    known = {control.component for control in slot.controls}
    return SlotSums(
        seq=slot.seq,
        start_ns=slot.start_ns,
        end_ns=slot.end_ns,
        digest=line.digest,
        flags=flags,
        line=line.raw,
        controls=json.dumps({c.component: [c.energy_uj, c.span_ns, c.method, c.source] for c in slot.controls}),
        balance=tuple(value if _COMPONENTS[at // _SHARES] in known else None for at, value in enumerate(balance)),
        methods=json.dumps({c.component: [c.method, c.source] for c in slot.controls}),
    )
