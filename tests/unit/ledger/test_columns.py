"""Reading by columns agrees with reading by entries: the same figures, the same refusals."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.journals import HandJournal, figures, key, system, unallocated, unit

from kwhere.core.errors import WireError
from kwhere.core.terms import Component, EntryKind
from kwhere.ledger.columns import decode_column_page
from kwhere.ledger.decode import decode_page
from kwhere.ledger.pages import COLUMNS, ENERGY_COLUMN_NAMES
from kwhere.ledger.rows import ENERGY_COLUMNS, NUMBER_COLUMNS


def a_journal() -> HandJournal:
    journal = HandJournal()
    for number in range(3):
        journal.append(
            [
                unit(key("é%2F"), figures(5 + number, 4, cpu_ns=7, memory_peak_bytes=None), user="zoë", flag="gap"),
                unit(key("b"), figures(1, 2, component=Component.GPU, gpu_busy_ns=9), labels=(("kube_pod", "p"),)),
                system(figures(3, 3)),
                unallocated(figures(0, 1)),
            ]
        )
    return journal


def test_columns_hold_what_the_entries_hold() -> None:
    body = a_journal().body()

    by_entry, by_column = decode_page(body), decode_column_page(body)

    assert by_column.header == by_entry.header
    for line, columns in zip(by_entry.lines, by_column.lines, strict=True):
        entries, held = line.slot.entries, columns.entries
        assert list(held.kinds) == [str(entry.kind) for entry in entries]
        assert list(held.texts["user"]) == [entry.user for entry in entries]
        assert list(held.texts["run"]) == [entry.key.run if entry.key else None for entry in entries]
        for column, name in zip(ENERGY_COLUMNS, ENERGY_COLUMN_NAMES, strict=True):
            assert list(held.figures[name]) == [entry.figures.energy_uj.get(column) for entry in entries]
        for name in NUMBER_COLUMNS:
            assert list(held.figures[name]) == [getattr(entry.figures, name) for entry in entries]
        assert (columns.line.digest, columns.line.raw, columns.line.prev) == (line.digest, line.raw, line.prev)
        assert columns.line.slot.controls == line.slot.controls


def _set(column: str, value: object) -> Callable[[list[Any]], None]:
    def change(rows: list[Any]) -> None:
        rows[0][COLUMNS.index(column)] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("cpu_dynamic_uj", -1),
        _set("cpu_dynamic_uj", 1.5),
        _set("cpu_dynamic_uj", True),
        _set("cpu_dynamic_uj", 2**63),
        _set("cpu_user_ns", "7"),
        _set("entry", "other"),
        _set("entry", None),
        _set("entry", ["unit"]),
        _set("entry", "system"),
        _set("run", None),
        _set("unit", ""),
        _set("user", 7),
        _set("user", "a\0b"),
        _set("user", "\ud800"),
        _set("labels", []),
        _set("labels", {"a": 1}),
        _set("labels", {"a": "\0"}),
        _set("flags", "gap"),
        _set("flags", [1]),
        lambda rows: rows.append(rows[0]),
        lambda rows: rows[0].append(1),
        lambda rows: rows[0].pop(),
        lambda rows: rows.append({}),
    ],
)
def test_what_one_refuses_the_other_refuses_in_the_same_words(change: Callable[[list[Any]], None]) -> None:
    journal = a_journal()
    epoch = journal.epochs[0]
    record = json.loads(journal.lines[epoch].pop())
    change(record["entries"])
    journal.lines[epoch].append(json.dumps(record).encode())

    with pytest.raises(WireError) as by_entry:
        decode_page(journal.body())
    with pytest.raises(WireError) as by_column:
        decode_column_page(journal.body())

    assert str(by_column.value) == str(by_entry.value)


def test_a_slot_without_entries_has_empty_columns() -> None:
    journal = HandJournal()
    journal.append([])

    (line,) = decode_column_page(journal.body()).lines

    assert list(line.entries.kinds) == []
    assert list(line.entries.figures["cpu_user_ns"]) == []


def test_a_column_that_the_page_does_not_carry_is_not_measured() -> None:
    journal = HandJournal()
    journal.append([system(figures(1, 2))])
    header, line, _ = journal.body().split(b"\n")
    facts, record = json.loads(header), json.loads(line)
    place = COLUMNS.index("gpu_busy_ns")
    facts["columns"].pop(place)
    record["entries"][0].pop(place)

    page = decode_column_page(b"\n".join([json.dumps(facts).encode(), json.dumps(record).encode(), b""]))

    assert list(page.lines[0].entries.figures["gpu_busy_ns"]) == [None]
    assert list(page.lines[0].entries.kinds) == [EntryKind.SYSTEM]
