"""The counters file: which fields are shown, of what type and with what help, in dcgm-exporter's CSV."""

import csv
import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from kwhere.core.errors import ConfigError
from kwhere.dcgm.fields import FIELDS, LEGACY, XID_FIELDS, Field, find
from kwhere.dcgm.known_names import BINARY, WITHOUT_SOURCE

MAX_BYTES = 1 << 20
_COLUMNS = 3
_NEAR = 3
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)


class CounterType(StrEnum):
    """The second column: what the TYPE line says, whatever the values do; a label is put on every series."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    LABEL = "label"


class Computed(StrEnum):
    """Metrics that the exporter computes itself."""

    XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
    CLOCK_EVENTS = "DCGM_EXP_CLOCK_EVENTS_COUNT"
    HEALTH = "DCGM_EXP_GPU_HEALTH_STATUS"
    P2P = "DCGM_EXP_P2P_STATUS"


@dataclass(frozen=True, slots=True)
class Counter:
    """One row."""

    name: str
    kind: CounterType
    help: str
    line: int = 0
    field: Field | None = None
    """None: computed here, or without a source."""
    computed: Computed | None = None

    @property
    def is_xid(self) -> bool:
        """Return whether it shows the last XID, whose meaning is added."""
        return LEGACY.get(self.name, self.name) in XID_FIELDS


@dataclass(frozen=True, slots=True)
class CounterSet:
    """What a counters file asks for."""

    counters: tuple[Counter, ...]
    """In the file's order, without labels."""
    labels: tuple[Counter, ...]
    """By name."""
    absent: tuple[str, ...] = ()
    """Fields that exist in DCGM and have no source here."""
    repeated: tuple[str, ...] = ()
    """Names that stand there more than once; the first row counts."""
    refused: tuple[str, ...] = ()
    """Why rows were left out that would make the whole page unreadable, each with its place."""


class _Refused(Exception):  # noqa: N818 - a row's fate, told by raising
    """A row that cannot be shown; the others can."""


def read_counters(path: Path | None) -> CounterSet:
    """Return the counters of a file, or the default ones. Raises ConfigError that names file and line."""
    if path is None:
        return parse_counters(default_text().encode(), "default counters")
    place = f"collectors: {path}"
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read ({error.strerror})") from error
    return parse_counters(content, place)


def default_text() -> str:
    """Return the counters file that comes along."""
    return files("kwhere.dcgm").joinpath("default_counters.csv").read_text()


def parse_counters(content: bytes, place: str) -> CounterSet:
    """Return the counters of a file's content. Raises ConfigError that names the line."""
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{place}: expected at most {MAX_BYTES} bytes")
    found: dict[str, Counter] = {}
    repeated: list[str] = []
    refused: list[str] = []
    for number, line in _lines(content, place):
        where = f"{place}: line {number}"
        try:
            counter = _counter(_columns(line, where), number, where)
        except _Refused as error:
            refused.append(f"{where}: {error}")
            continue
        if counter.name in found:
            repeated.append(counter.name)
        else:
            found[counter.name] = counter
    if not found and refused:
        raise ConfigError("\n".join(refused))
    if not found:
        raise ConfigError(f"{place}: expected at least one row `FIELD, type, help`, found none")
    return CounterSet(
        counters=tuple(one for one in found.values() if one.kind is not CounterType.LABEL),
        labels=tuple(
            sorted((one for one in found.values() if one.kind is CounterType.LABEL), key=lambda one: one.name)
        ),
        absent=tuple(one.name for one in found.values() if not one.field and one.computed in (None, Computed.P2P)),
        repeated=tuple(dict.fromkeys(repeated)),
        refused=tuple(refused),
    )


def _lines(content: bytes, place: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are rows, with their numbers."""
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            line = raw.decode().strip("\r \t")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{place}: line {number}: expected UTF-8, found byte {raw[error.start]:#04x}") from None
        if line and not line.startswith("#"):
            yield number, line


def _columns(line: str, where: str) -> list[str]:
    try:
        rows = list(csv.reader([line], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ConfigError(f"{where}: malformed CSV record: {error}") from None
    columns = [column.strip(" \t") for column in (rows[0] if len(rows) == 1 else [])]
    if len(columns) != _COLUMNS:
        raise ConfigError(
            f"{where}: expected three columns `FIELD, type, help`, found {len(columns)};"
            " a help with a comma needs quotes"
        )
    return columns


def _counter(columns: list[str], number: int, where: str) -> Counter:
    name, kind, text = columns
    computed = Computed(name) if name in tuple(Computed) else None
    field = find(name)
    if name in BINARY:
        raise _Refused(f"{name} is a structure, no number: it cannot be shown")
    if field is None and computed is None and name not in WITHOUT_SOURCE:
        raise ConfigError(f"{where}: {_refusal(name)}")
    if kind not in tuple(CounterType):
        raise ConfigError(f"{where}: expected a type of {', '.join(CounterType)}, found {kind[:40]!r}")
    if field is not None and field.is_text and kind != CounterType.LABEL:
        raise _Refused(f"{name} is a text: expected the type label, found {kind}")
    if kind == CounterType.LABEL and (computed is not None or (field is not None and field.link is not None)):
        raise ConfigError(f"{where}: {name} cannot be a label")
    return Counter(name, CounterType(kind), text, number, field, computed)


def _refusal(name: str) -> str:
    shown = name[:80]
    if not _NAME.fullmatch(name):
        return f"could not find DCGM field {shown!r}: no name of a metric"
    near = difflib.get_close_matches(name[:80], list(_every_name()), _NEAR)
    return f"could not find DCGM field {shown!r}" + (f"; near: {', '.join(near)}" if near else "")


def _every_name() -> Iterable[str]:
    yield from FIELDS
    yield from LEGACY
    yield from Computed
    yield from WITHOUT_SOURCE
