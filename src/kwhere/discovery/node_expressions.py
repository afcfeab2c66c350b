"""Host lists as schedulers write them: `n[01-03,5],m1`, `rack[0-1]_blade[0-1]`, and numbers of tasks alike."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from kwhere.core.errors import SourceError

MOST_NODES = 100_000
NOWHERE = frozenset({"", "none assigned", "(null)", "null", "none", "(none)", "n/a", "unknown", "(unknown)"})
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18})(?:([:/])([0-9]{1,9}))?)?")
_PLAIN = re.compile(r"[\w.-]*")
"""Host names and their pieces; what else a scheduler may put there is no name."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A text, and what it should be, for messages."""

    text: str
    kind: str
    example: str
    step: str
    """What stands before the step of a range."""

    def wrong(self, found: str) -> SourceError:
        return SourceError(f"{self.kind} {self.text[:80]!r}: expected {self.example}, found {found[:80]}")


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return the names in order, each once; empty where none is assigned. Raises SourceError for what is no such list.

    A range may have a step, as ClusterShell writes it: `n[0-10/2]`.
    """
    words = text.strip()
    if words.lower() in NOWHERE:
        return ()
    wanted = _Wanted(text, "node list", "names such as n[01-03,5]", "/")
    names: list[str] = []
    for part in map(str.strip, _parts(words, wanted)):
        names += _names(part, MOST_NODES - len(names), wanted)
    return tuple(dict.fromkeys(names))


def expand_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of `9-11,13,16-20`, and of `0-15:4`, every fourth. Raises SourceError."""
    wanted = _numbers(text)
    ranges = [numbers for numbers, _ in _ranges(text, wanted)]
    if sum(map(_length, ranges)) > MOST_NODES:
        raise wanted.wrong(f"more than {MOST_NODES} numbers")
    return tuple(number for numbers in ranges for number in numbers)


def count_numbers(text: str) -> int:
    """Return how many numbers `expand_numbers` would, of any size. Raises SourceError."""
    return sum(_length(numbers) for numbers, _ in _ranges(text, _numbers(text)))


def _numbers(text: str) -> _Wanted:
    return _Wanted(text, "numbers", "such as 9-11,13,16-20", ":")


def _length(numbers: range) -> int:
    """`len` takes no more than a machine word."""
    return (numbers.stop - 1 - numbers.start) // numbers.step + 1


def _parts(text: str, wanted: _Wanted) -> Iterator[str]:
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
            raise wanted.wrong("brackets that do not pair")
    if depth:
        raise wanted.wrong("a bracket that does not end")
    yield text[begin:]


def _names(part: str, left: int, wanted: _Wanted) -> list[str]:
    pieces = re.split(r"\[([^\]]*)\]", part)
    if not re.search(r"\w", part) or not all(_PLAIN.fullmatch(piece) for piece in pieces[::2]):
        raise wanted.wrong(repr(part))
    choices = [list(_ranges(inner, wanted)) for inner in pieces[1::2]]
    count = 1
    for ranges in choices:
        count *= sum(_length(numbers) for numbers, _ in ranges)
    if count > left:
        raise wanted.wrong(f"more than {MOST_NODES} names")
    words = [[piece] if index % 2 == 0 else _padded(choices[index // 2]) for index, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*words)]


def _padded(ranges: Sequence[tuple[range, int]]) -> list[str]:
    return [f"{number:0{width}d}" for numbers, width in ranges for number in numbers]


def _ranges(inner: str, wanted: _Wanted) -> Iterator[tuple[range, int]]:
    """Yield each range with the width of its numbers."""
    for word in inner.split(","):
        found = _RANGE.fullmatch(word)
        if found is None or (found[3] and found[3] != wanted.step):
            raise wanted.wrong(repr(word))
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[4] or 1)
        if last < first:
            raise wanted.wrong(f"the range {word!r}")
        if step == 0:
            raise wanted.wrong(f"the step of {word!r}")
        yield range(first, last + 1, step), len(found[1])
