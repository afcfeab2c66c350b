"""Host lists as schedulers write them: `n[01-03,5],m1`, `rack[0-1]_blade[0-1]`."""

import re
from collections.abc import Iterator
from itertools import product

from kwhere.core.errors import SourceError

MOST_NODES = 100_000
NOWHERE = frozenset({"", "none assigned", "(null)", "none", "n/a", "unknown"})
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_PLAIN = re.compile(r"[^\s,\[\]]*")


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return the names in order; empty where none is assigned. Raises SourceError for what is no such list."""
    words = text.strip()
    if words.lower() in NOWHERE:
        return ()
    names: list[str] = []
    for part in map(str.strip, _parts(words)):
        names += _names(part, MOST_NODES - len(names), text)
    return tuple(names)


def expand_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of `9-11,13,16-20`, and of `0-15:4`, every fourth. Raises SourceError."""
    found: list[int] = []
    for word in text.split(","):
        range_, colon, step = word.partition(":")
        if colon and not (step.isascii() and step.isdigit() and int(step[:9]) > 0 and len(step) <= 9 and "-" in range_):
            raise _wrong(text, f"the step of {word!r}")
        for first, last, _ in _ranges(range_, text):
            numbers = range(first, last + 1, int(step or 1))
            if len(numbers) > MOST_NODES - len(found):
                raise _wrong(text, f"more than {MOST_NODES} numbers")
            found += numbers
    return tuple(found)


def _parts(text: str) -> Iterator[str]:
    """Yield what stands between commas outside of brackets."""
    depth, begin = 0, 0
    for index, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[begin:index]
            begin = index + 1
        if depth not in (0, 1):
            raise _wrong(text, "brackets that do not pair")
    if depth:
        raise _wrong(text, "a bracket that does not end")
    yield text[begin:]


def _names(part: str, left: int, text: str) -> list[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)
    if not part or not all(_PLAIN.fullmatch(piece) for piece in pieces[::2]):
        raise _wrong(text, f"{part!r}")
    if len(pieces) == 1:
        count = 1
    else:
        count = 1
        for inner in pieces[1::2]:
            count *= sum(last - first + 1 for first, last, _ in _ranges(inner, text))
    if count > left:
        raise _wrong(text, f"more than {MOST_NODES} names")
    choices = [[piece] if index % 2 == 0 else _padded(piece, text) for index, piece in enumerate(pieces)]
    return ["".join(words) for words in product(*choices)]


def _padded(inner: str, text: str) -> list[str]:
    return [f"{number:0{width}d}" for first, last, width in _ranges(inner, text) for number in range(first, last + 1)]


def _ranges(inner: str, text: str) -> Iterator[tuple[int, int, int]]:
    """Yield first, last and width of each range."""
    for word in inner.split(","):
        found = _RANGE.fullmatch(word)
        if found is None:
            raise _wrong(text, f"{word!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise _wrong(text, f"the range {word!r}")
        yield first, last, len(found[1])


def _wrong(text: str, found: str) -> SourceError:
    return SourceError(f"node list {text[:80]!r}: expected names such as n[01-03,5], found {found[:80]}")
