"""Nodes, racks and people as CSV, read strictly: the site can mend what is wrong, so it is told where. Pure."""

from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import TypeVar

from kwhere.core.csv_rows import CsvRow, csv_rows
from kwhere.core.errors import SourceError
from kwhere.core.inventory import (
    InventoryNode,
    InventoryRack,
    Person,
    parse_language,
    parse_mail,
    parse_watts,
    plain,
)

NODE_COLUMNS = ("node", "cluster", "rack", "type", "power_limit_watts", "meter", "retired_at")
RACK_COLUMNS = ("rack", "cluster", "power_limit_watts")
PEOPLE_COLUMNS = ("user", "cluster", "full_name", "mail", "language", "opt_out")
_MOST_NAME = 255
_TRUE, _FALSE = ("yes", "true", "1", "on"), ("no", "false", "0", "off")
_YEARS = range(1970, 2101)

T = TypeVar("T")


def parse_nodes(text: str, place: str, cluster: str | None = None) -> tuple[InventoryNode, ...]:
    """Return the nodes; `cluster` where a row names none. Raises SourceError that names line and column."""

    def node(row: CsvRow) -> InventoryNode:
        return InventoryNode(
            name=_name(row, "node"),
            cluster=_cell(row, "cluster") or cluster,
            rack=_short(row, "rack"),
            type=_short(row, "type"),
            power_limit_watts=_parsed(row, "power_limit_watts", parse_watts),
            meter=_short(row, "meter"),
            retired_at=_parsed(row, "retired_at", parse_day_or_time),
        )

    return _each_once(text, place, ("node", NODE_COLUMNS), node, lambda found: (found.cluster, found.name))


def parse_racks(text: str, place: str, cluster: str | None = None) -> tuple[InventoryRack, ...]:
    """Return the racks; `cluster` where a row names none. Raises SourceError that names line and column."""

    def rack(row: CsvRow) -> InventoryRack:
        watts = _parsed(row, "power_limit_watts", parse_watts)
        return InventoryRack(_name(row, "rack"), _cell(row, "cluster") or cluster, watts)

    return _each_once(text, place, ("rack", RACK_COLUMNS), rack, lambda found: (found.cluster, found.name))


def parse_people(text: str, place: str, cluster: str | None = None) -> tuple[Person, ...]:
    """Return the people; `cluster` where a row names none. Raises SourceError that names line and column."""

    def person(row: CsvRow) -> Person:
        return Person(
            user=_name(row, "user"),
            cluster=_cell(row, "cluster") or cluster,
            full_name=_short(row, "full_name"),
            mail=_parsed(row, "mail", parse_mail),
            language=_parsed(row, "language", parse_language),
            opted_out=_parsed(row, "opt_out", parse_yes),
        )

    return _each_once(text, place, ("user", PEOPLE_COLUMNS), person, lambda found: (found.cluster, found.user))


def parse_yes(word: str) -> bool | None:
    """Return whether a word says yes; None for an empty one. Raises ValueError."""
    found = word.strip().lower()
    if not found:
        return None
    if found not in (*_TRUE, *_FALSE):
        raise ValueError(f"expected yes or no, found {word[:40]!r}")
    return found in _TRUE


def parse_day_or_time(word: str) -> datetime | None:
    """Return the beginning of a day, in UTC, or a time with its offset; None for an empty word. Raises ValueError."""
    if not word:
        return None
    try:
        found = datetime.fromisoformat(word)
        if found.tzinfo is None and len(word) > len("2026-01-31"):
            raise ValueError
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"expected 2026-01-31 or 2026-01-31T12:00:00+01:00, found {word[:40]!r}") from None
    if found.year not in _YEARS:
        raise ValueError(f"expected a time between 1970 and 2100, found {word[:40]!r}")
    return found


def _each_once(
    text: str,
    place: str,
    columns: tuple[str, tuple[str, ...]],
    read: Callable[[CsvRow], T],
    key: Callable[[T], Hashable],
) -> tuple[T, ...]:
    found: dict[Hashable, T] = {}
    for row in csv_rows(text, place, (columns[0],), columns[1]):
        item = read(row)
        if key(item) in found:
            raise SourceError(f"{row.place}: expected each {columns[0]} once, found {row.cells[columns[0]]!r} again")
        found[key(item)] = item
    return tuple(found.values())


def _cell(row: CsvRow, column: str) -> str:
    return row.cells.get(column, "")


def _name(row: CsvRow, column: str) -> str:
    found = _short(row, column)
    if found is None:
        raise SourceError(f"{row.place}: {column}: expected a name, found nothing")
    return found


def _short(row: CsvRow, column: str) -> str | None:
    found = plain(_cell(row, column))
    if found is not None and len(found.encode("utf-8", "replace")) > _MOST_NAME:
        raise SourceError(f"{row.place}: {column}: expected at most {_MOST_NAME} bytes, found {found[:40]!r}…")
    return found


def _parsed(row: CsvRow, column: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(_cell(row, column))
    except ValueError as error:
        raise SourceError(f"{row.place}: {column}: {error}") from error
