"""What the viewer of `kwhere top` chose, and how a key changes it. Pure: a key in, a choice out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from kwhere.local.top_history import TopRow

ENTER = ("\r", "\n")
ESCAPE = "\x1b"
BACKSPACE = ("\x7f", "\x08")
DOWN = ("\x1b[B", "\x1bOB", "j")
UP = ("\x1b[A", "\x1bOA", "k")
PAGE_DOWN = ("\x1b[6~", " ")
PAGE_UP = ("\x1b[5~",)
QUIT = ("q", "Q", "\x03", "\x04")
_PAGE_ROWS = 10


class SortKey(Enum):
    """What the table is sorted by; the value is the key pressed."""

    POWER = "p"
    ENERGY = "e"
    CPUS = "c"
    GPUS = "g"
    MEMORY = "m"
    NAME = "n"


@dataclass(frozen=True, slots=True)
class Choice:
    """How the table is shown."""

    sort: SortKey = SortKey.POWER
    reverse: bool = False
    """Against the usual order: largest first, names from A."""
    filter: str = ""
    """Only units whose manager, user or name holds this, whatever the case."""
    typing: str | None = None
    """The filter being typed; None while keys are commands."""
    totals: bool = False
    """Whether energy is since the unit began rather than since the view began."""
    offset: int = 0
    """Rows scrolled past."""
    help: bool = False
    over: bool = False


def press(choice: Choice, key: str) -> Choice:
    """Return the choice after a key; one that means nothing changes nothing."""
    if choice.typing is not None:
        return _type(choice, choice.typing, key)
    if key in QUIT:
        return replace(choice, over=True)
    if key in [sort.value for sort in SortKey]:
        return replace(choice, sort=SortKey(key), offset=0)
    if key == ESCAPE:
        return replace(choice, filter="", help=False, offset=0)
    moved = _moved(key)
    if moved:
        return replace(choice, offset=max(0, choice.offset + moved))
    commands = {
        "r": replace(choice, reverse=not choice.reverse, offset=0),
        "/": replace(choice, typing=choice.filter),
        "t": replace(choice, totals=not choice.totals),
        "h": replace(choice, help=not choice.help),
        "?": replace(choice, help=not choice.help),
    }
    return commands.get(key, choice)


def chosen_rows(rows: Iterable[TopRow], choice: Choice) -> list[TopRow]:
    """Return the rows to show, sorted; what is unknown comes last either way."""
    wanted = (choice.typing if choice.typing is not None else choice.filter).lower()
    shown = [row for row in rows if wanted in f"{row.manager} {row.user or ''} {row.label}".lower()]
    shown.sort(key=lambda row: (row.label.lower(), row.manager))
    if choice.sort is SortKey.NAME:
        return shown[::-1] if choice.reverse else shown
    known = [row for row in shown if sort_value(row, choice) is not None]
    unknown = [row for row in shown if sort_value(row, choice) is None]
    known.sort(key=lambda row: sort_value(row, choice) or 0.0, reverse=not choice.reverse)
    return known + unknown


def sort_value(row: TopRow, choice: Choice) -> float | None:
    """Return the figure of a row that the table is sorted by; None where it is unknown."""
    energy = row.total_joules if choice.totals else row.energy_joules
    values = {
        SortKey.POWER: row.power_watts,
        SortKey.ENERGY: energy,
        SortKey.CPUS: row.cpus,
        SortKey.GPUS: row.gpus,
        SortKey.MEMORY: row.memory_bytes,
    }
    return values.get(choice.sort)


def split_keys(text: str) -> list[str]:
    """Return the keys in what a terminal sent: an escape sequence is one key."""
    keys: list[str] = []
    rest = text
    while rest:
        size = _sequence_length(rest) if rest[0] == ESCAPE else 1
        keys.append(rest[:size])
        rest = rest[size:]
    return keys


def _sequence_length(text: str) -> int:
    if len(text) > 1 and text[1] not in "[O":
        return 1
    for index, character in enumerate(text[2:], 2):
        if "@" <= character <= "~":
            return index + 1
    return len(text)


def _type(choice: Choice, typed: str, key: str) -> Choice:
    if key in ENTER:
        return replace(choice, filter=typed, typing=None, offset=0)
    if key == ESCAPE:
        return replace(choice, typing=None)
    if key == "\x03":
        return replace(choice, over=True)
    if key in BACKSPACE:
        return replace(choice, typing=typed[:-1])
    if key.isprintable() and len(key) == 1:
        return replace(choice, typing=typed + key, offset=0)
    return choice


def _moved(key: str) -> int:
    steps = ((DOWN, 1), (UP, -1), (PAGE_DOWN, _PAGE_ROWS), (PAGE_UP, -_PAGE_ROWS))
    return next((step for keys, step in steps if key in keys), 0)
