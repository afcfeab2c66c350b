"""A strict reader of the Prometheus text format 0.0.4 that remembers the series of the last page.

Stricter than Prometheus nowhere that an honest page would notice: one line that is no sample, comment or blank refuses
the page, with its number, since what else is wrong in it cannot be known.
"""

import re
from typing import NamedTuple

from kwhere.core.errors import SourceError

Labels = tuple[tuple[str, str], ...]

_HEAD = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(\{.*\})?")
_WORDS = re.compile(r"[^ \t]+")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\["\\n])*)"[ \t]*(,?)')
_ESCAPE = re.compile(r'\\(["\\n])')
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n"}
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.I
)
_TIMESTAMP = re.compile(r"-?[0-9]{1,15}")
_EXCERPT = 80


class ParsedSample(NamedTuple):
    """One sample of a page; `labels` are sorted by name, without empty values."""

    name: str
    labels: Labels
    value: float
    time_ms: int | None


class ExpositionParser:
    """Reads page after page of one target; labels of a series that stays are parsed once. Not thread-safe.

    `added` labels go onto every sample; a label of that name in the page becomes `exported_…`, as in a scrape of
    Prometheus.
    """

    def __init__(self, added: Labels = ()) -> None:
        self._added = dict(added)
        self._known: dict[str, tuple[str, Labels]] = {}

    def parse(self, page: bytes) -> list[ParsedSample]:
        """Return the samples of a page in its order. Raises SourceError with the number of the first bad line."""
        try:
            text = page.decode()
        except UnicodeDecodeError as error:
            place = error.start
            raise SourceError(f"exposition: expected UTF-8, found byte {page[place]:#x} at {place}") from error
        known = self._known
        seen: dict[str, tuple[str, Labels]] = {}
        samples = []
        for number, padded in enumerate(text.split("\n"), 1):
            line = padded.strip(" \t\r")
            if not line or line[0] == "#":
                continue
            end = line.rfind("}") + 1
            head = line[:end] if end else _WORDS.findall(line)[0]
            series = seen.get(head)
            if series is None:
                series = seen[head] = known.get(head) or self._series(head, number)
            value, time_ms = _value(line[len(head) :], number)
            samples.append(ParsedSample(series[0], series[1], value, time_ms))
        self._known = seen
        return samples

    def _series(self, head: str, number: int) -> tuple[str, Labels]:
        match = _HEAD.fullmatch(head)
        if match is None:
            raise _bad(number, "a metric name and labels", head)
        labels = dict(self._added)
        own = _parse_labels(match[2], number) if match[2] else {}
        for name, value in own.items():
            labels[f"exported_{name}" if name in self._added else name] = value
        return match[1], tuple(sorted((name, value) for name, value in labels.items() if value))


def _parse_labels(text: str, number: int) -> dict[str, str]:
    """Return the labels of `{…}`."""
    labels: dict[str, str] = {}
    place, last = 1, len(text) - 1
    while text[place:last].strip(" \t"):
        match = _LABEL.match(text, place, last)
        if match is None or (not match[3] and match.end() != last):
            raise _bad(number, 'labels as name="value"', text[place:])
        if match[1] in labels:
            raise _bad(number, "each label once", match[1])
        labels[match[1]] = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], match[2]) if "\\" in match[2] else match[2]
        place = match.end()
    return labels


def _value(rest: str, number: int) -> tuple[float, int | None]:
    words = _WORDS.findall(rest)
    if not 1 <= len(words) <= 2:
        raise _bad(number, "a value and at most a timestamp", rest)
    if not _NUMBER.fullmatch(words[0]):
        raise _bad(number, "a number", words[0])
    if len(words) == 1:
        return float(words[0]), None
    if not _TIMESTAMP.fullmatch(words[1]):
        raise _bad(number, "a timestamp in milliseconds", words[1])
    return float(words[0]), int(words[1])


def _bad(number: int, expected: str, found: str) -> SourceError:
    return SourceError(f"exposition line {number}: expected {expected}, found {found[:_EXCERPT]!r}")


def parse_exposition(page: bytes) -> list[ParsedSample]:
    """Return the samples of one page. Raises SourceError with the number of the first bad line."""
    return ExpositionParser().parse(page)
