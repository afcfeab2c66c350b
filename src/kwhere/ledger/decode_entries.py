"""Reading the entries of a slot by the columns that the page's header names."""

from collections.abc import Sequence
from functools import lru_cache

from kwhere.core.errors import WireError
from kwhere.core.terms import EntryKind, Flag
from kwhere.core.unit import UnitKey
from kwhere.ledger.decode_gpus import read_gpus
from kwhere.ledger.json_values import excerpt, integer, optional_text, text, text_list
from kwhere.ledger.pages import COLUMNS, ENERGY_COLUMN_NAMES
from kwhere.ledger.rows import ENERGY_COLUMNS, NUMBER_COLUMNS, Entry, Figures
from kwhere.ledger.wire import LARGEST_INTEGER

_REQUIRED = ("entry", "manager", "unit", "run")
_KINDS = {str(kind): kind for kind in EntryKind}
_FLAGS = {str(flag): flag for flag in Flag}
_NO_FLAGS: frozenset[Flag] = frozenset()


@lru_cache(maxsize=64)
def entry_reader(columns: tuple[str, ...]) -> "EntryReader":
    """Return the reader of entries with these columns. Raises WireError if they cannot be."""
    return EntryReader(columns)


class EntryReader:
    """Knows where each column of an entry stands; columns it does not know are kept as they are."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        missing = [name for name in _REQUIRED if name not in columns]
        if missing or len(set(columns)) != len(columns):
            raise WireError(f"columns: expected each once, {', '.join(_REQUIRED)} among them, found {excerpt(columns)}")
        self._width = len(columns)
        self._at = {name: position for position, name in enumerate(columns)}
        self._energy = [
            (column, self._at[name])
            for column, name in zip(ENERGY_COLUMNS, ENERGY_COLUMN_NAMES, strict=True)
            if name in self._at
        ]
        self._numbers = [(name, self._at[name]) for name in NUMBER_COLUMNS if name in self._at]
        self._integers = [position for _, position in self._energy] + [position for _, position in self._numbers]
        self._unknown = [name for name in columns if name not in COLUMNS]

    def read(self, rows: object, place: str) -> tuple[tuple[Entry, ...], dict[str, list[object]]]:
        """Return the entries and, per unknown column, its values. Raises WireError."""
        if not isinstance(rows, list):
            raise WireError(f"{place} entries: expected a list, found {excerpt(rows)}")
        entries = tuple(self._entry(row, f"{place} entry {number}") for number, row in enumerate(rows))
        identities = {(entry.kind, entry.key) for entry in entries}
        if len(identities) != len(entries):
            raise WireError(f"{place} entries: expected each unit run, system and unallocated once")
        return entries, self._unknown_values(rows)

    def _entry(self, row: object, place: str) -> Entry:
        if not isinstance(row, list) or len(row) != self._width:
            found = f"{len(row)}" if isinstance(row, list) else excerpt(row)
            raise WireError(f"{place}: expected {self._width} columns, found {found}")
        kind = _KINDS.get(row[self._at["entry"]]) if isinstance(row[self._at["entry"]], str) else None
        if kind is None:
            raise WireError(
                f"{place} entry: expected one of {', '.join(_KINDS)}, found {excerpt(row[self._at['entry']])}"
            )
        return Entry(
            kind=kind,
            key=self._key(row, kind, place),
            figures=self._figures(row, place),
            name=self._text(row, "name", place),
            user=self._text(row, "user", place),
            project=self._text(row, "project", place),
            node_name=self._text(row, "node_name", place),
            labels=_labels(self._value(row, "labels"), place),
            flags=_flags(self._value(row, "flags"), place),
            gpus=read_gpus(self._value(row, "gpus"), place),
        )

    def _key(self, row: Sequence[object], kind: EntryKind, place: str) -> UnitKey | None:
        words = [row[self._at[name]] for name in ("manager", "unit", "run")]
        if kind is not EntryKind.UNIT:
            if words != [None, None, None]:
                raise WireError(f"{place}: expected no unit on {kind}, found {excerpt(words)}")
            return None
        if not all(words):
            raise WireError(f"{place}: expected manager, unit and run, found {excerpt(words)}")
        manager, unit, run = (text(word, place) for word in words)
        return UnitKey(manager, unit, run)

    def _figures(self, row: Sequence[object], place: str) -> Figures:
        for position in self._integers:
            value = row[position]
            if value is not None and (type(value) is not int or not 0 <= value <= LARGEST_INTEGER):
                integer(value, f"{place} {self._name(position)}")
        energy = {column: row[position] for column, position in self._energy if row[position] is not None}
        return Figures(energy, **{name: row[position] for name, position in self._numbers})  # type: ignore[arg-type]

    def _name(self, position: int) -> str:
        return next(name for name, at in self._at.items() if at == position)

    def _value(self, row: Sequence[object], column: str) -> object:
        position = self._at.get(column)
        return None if position is None else row[position]

    def _text(self, row: Sequence[object], column: str, place: str) -> str | None:
        value = self._value(row, column)
        return None if value is None else optional_text(value, f"{place} {column}")

    def _unknown_values(self, rows: Sequence[Sequence[object]]) -> dict[str, list[object]]:
        unknown = {name: [row[self._at[name]] for row in rows] for name in self._unknown}
        words = [[word for word in self._value(row, "flags") or () if word not in _FLAGS] for row in rows]  # type: ignore[attr-defined]
        if any(words):
            unknown["flags"] = list(words)
        return unknown


def _labels(value: object, place: str) -> tuple[tuple[str, str], ...]:
    if not value and (value is None or isinstance(value, dict)):
        return ()
    if not isinstance(value, dict):
        raise WireError(f"{place} labels: expected an object, found {excerpt(value)}")
    return tuple((text(name, f"{place} labels"), text(item, f"{place} labels")) for name, item in value.items())


def _flags(value: object, place: str) -> frozenset[Flag]:
    if value is None or value == []:
        return _NO_FLAGS
    return frozenset(_FLAGS[word] for word in text_list(value, f"{place} flags") if word in _FLAGS)
