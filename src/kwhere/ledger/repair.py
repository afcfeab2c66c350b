"""A slot with a number that no store can hold: the number becomes unknown, the slot and its other entries live on."""

from dataclasses import replace

from kwhere.ledger.gpu_uses import NUMBER_NAMES
from kwhere.ledger.rows import NUMBER_COLUMNS, Entry, Slot
from kwhere.ledger.wire import LARGEST_INTEGER


def without_bad_numbers(slot: Slot) -> tuple[Slot, tuple[str, ...]]:
    """Return the slot with such numbers as None, and where they stood. Energy is left alone: the books must close."""
    places: list[str] = []
    entries = tuple(_repaired(entry, places) for entry in slot.entries)
    busy = slot.node_busy_ns
    if not _is_good(busy):
        places.append("node_busy_ns")
        busy = None
    return replace(slot, entries=entries, node_busy_ns=busy), tuple(places)


def _repaired(entry: Entry, places: list[str]) -> Entry:
    bad = [name for name in NUMBER_COLUMNS if not _is_good(getattr(entry.figures, name))]
    if not all(_is_good(getattr(use, name)) for use in entry.gpus for name in NUMBER_NAMES):
        places.append(f"{entry.key.manager} {entry.key.run} gpus" if entry.key else f"{entry.kind} gpus")
        entry = replace(entry, gpus=())
    if not bad:
        return entry
    run = f"{entry.key.manager} {entry.key.run}" if entry.key else str(entry.kind)
    places += [f"{run} {name}: {getattr(entry.figures, name)!r}" for name in bad]
    figures = replace(entry.figures)
    for name in bad:
        setattr(figures, name, None)
    return replace(entry, figures=figures)


def _is_good(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= LARGEST_INTEGER)
