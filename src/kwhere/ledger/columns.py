"""A page read by columns: what the server sums up, without an object per entry.

Whatever is not as it should be is read once more entry by entry, for the error that names its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.errors import WireError
from kwhere.core.terms import EntryKind
from kwhere.ledger.decode import decode_frame, decode_lines
from kwhere.ledger.decode_entries import entry_reader
from kwhere.ledger.decode_gpus import read_gpus
from kwhere.ledger.gpu_uses import GpuUse
from kwhere.ledger.pages import ENERGY_COLUMN_NAMES, PageHeader, SlotLine
from kwhere.ledger.rows import NUMBER_COLUMNS, Slot
from kwhere.ledger.wire import LARGEST_INTEGER

_INTEGERS = frozenset({int, type(None)})
_TEXTS = frozenset({str, type(None)})
_KINDS = frozenset(str(kind) for kind in EntryKind)
_UNIT = str(EntryKind.UNIT)
_NO_KEY = (None, None, None)
_TEXT_COLUMNS = ("manager", "unit", "run", "name", "user", "project", "node_name")
_FIGURES = (*ENERGY_COLUMN_NAMES, *NUMBER_COLUMNS)


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The entries of one slot, column by column, all of one length. What a page does not carry is all None."""

    kinds: Sequence[str]
    texts: Mapping[str, Sequence[str | None]]
    """`manager`, `unit`, `run`, `name`, `user`, `project`, `node_name`."""
    labels: Sequence[dict[str, str] | None]
    flags: Sequence[list[str] | None]
    figures: Mapping[str, Sequence[int | None]]
    """Energy and number columns under their wire names."""
    gpus: Sequence[tuple[GpuUse, ...]]


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A slot with its entries in columns; those of `line.slot` are left out."""

    line: SlotLine
    entries: EntryColumns

    @property
    def slot(self) -> Slot:
        """Return the slot, without its entries."""
        return self.line.slot


@dataclass(frozen=True, slots=True)
class ColumnPage:
    """A header and its slots in order."""

    header: PageHeader
    lines: tuple[ColumnLine, ...]


def decode_column_page(body: bytes) -> ColumnPage:
    """Return a whole page by columns; checked like `decode_page`. Raises WireError."""
    entries: list[EntryColumns] = []

    def decode(line: bytes, columns: Sequence[str]) -> SlotLine:
        frame, rows = decode_frame(line)
        entries.append(_read(rows, tuple(columns), f"slot {frame.slot.seq}"))
        return frame

    header, lines = decode_lines(body, decode)
    return ColumnPage(header, tuple(map(ColumnLine, lines, entries)))


def _read(rows: object, columns: tuple[str, ...], place: str) -> EntryColumns:
    if isinstance(rows, list) and all(type(row) is list and len(row) == len(columns) for row in rows):
        found = _columns(rows, columns, place)
        if _is_sound(found):
            return found
    entry_reader(columns).read(rows, place)
    raise WireError(f"{place}: its entries are not what the format says")


def _columns(rows: list[list[object]], columns: tuple[str, ...], place: str) -> EntryColumns:
    width = len(rows)
    by_name: dict[str, Sequence[object]] = dict(zip(columns, zip(*rows, strict=True), strict=False)) if rows else {}
    nothing = (None,) * width

    def column(name: str) -> Sequence[object]:
        return by_name.get(name, nothing)

    return EntryColumns(
        kinds=column("entry"),  # type: ignore[arg-type]
        texts={name: column(name) for name in _TEXT_COLUMNS},  # type: ignore[misc]
        labels=column("labels"),  # type: ignore[arg-type]
        flags=column("flags"),  # type: ignore[arg-type]
        figures={name: column(name) for name in _FIGURES},  # type: ignore[misc]
        gpus=[
            () if value is None else read_gpus(value, f"{place} entry {n}") for n, value in enumerate(column("gpus"))
        ],
    )


def _is_sound(entries: EntryColumns) -> bool:
    return (
        all(map(_are_integers, entries.figures.values()))
        and all(map(_are_texts, entries.texts.values()))
        and all(type(kind) is str for kind in entries.kinds)
        and set(entries.kinds) <= _KINDS
        and _are_distinct(entries)
        and all(map(_is_labels, entries.labels))
        and all(map(_is_flags, entries.flags))
    )


def _are_integers(values: Sequence[object]) -> bool:
    kinds = set(map(type, values))
    if not kinds <= _INTEGERS:
        return False
    if len(kinds) == 2:
        values = [value for value in values if value is not None]
    elif int not in kinds:
        return True
    return min(values) >= 0 and max(values) <= LARGEST_INTEGER  # type: ignore[type-var, operator]


def _are_texts(values: Sequence[object]) -> bool:
    if not _TEXTS.issuperset(map(type, values)):
        return False
    return _is_clean("".join(filter(None, values)))  # type: ignore[arg-type]


def _is_clean(words: str) -> bool:
    if "\0" in words:
        return False
    try:
        return words.isascii() or bool(words.encode())
    except UnicodeEncodeError:
        return False


def _are_distinct(entries: EntryColumns) -> bool:
    """Each unit run, `system` and `unallocated` once; units have all of their key and the others none."""
    words = [entries.texts[name] for name in ("manager", "unit", "run")]
    keys = set(zip(entries.kinds, *words, strict=True))
    for kind, manager, unit, run in keys:
        key = (manager, unit, run)
        if not all(key) if kind == _UNIT else key != _NO_KEY:
            return False
    return len(keys) == len(entries.kinds)


def _is_labels(value: object) -> bool:
    if value is None or value == {}:
        return True
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        return False
    return _is_clean("".join([*value, *value.values()]))


def _is_flags(value: object) -> bool:
    return value is None or (type(value) is list and all(type(word) is str and _is_clean(word) for word in value))
