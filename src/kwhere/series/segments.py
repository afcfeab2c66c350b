"""Files of the embedded store: what their names say, which still count, which are damaged."""

import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

_NAME = re.compile(r"([mhqd])-(\d+)-(\d+)-(-?\d+)-(-?\d+)-([0-9a-f]{8})\.parquet")
_MAGIC = b"PAR1"
_SMALLEST = 12
UNFINISHED = ".unfinished-"
SET_ASIDE = ".damaged"


class Level(IntEnum):
    """How much a file holds; merged upwards."""

    MINUTE = 0
    HOUR = 1
    QUARTER = 2
    DAY = 3

    @property
    def letter(self) -> str:
        """Return the letter in the file's name."""
        return "mhqd"[self]


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable file: which flushes are in it, from when to when (ms, both included), and its CRC-32."""

    directory: Path
    level: Level
    first: int
    last: int
    start_ms: int
    end_ms: int
    checksum: int = 0

    @property
    def path(self) -> Path:
        """Return where it is."""
        facts = f"{self.first:010d}-{self.last:010d}-{self.start_ms}-{self.end_ms}-{self.checksum:08x}"
        return self.directory / f"{self.level.letter}-{facts}.parquet"

    def overlaps(self, start_ms: int, end_ms: int) -> bool:
        """Return whether samples of [start, end) may be in it."""
        return self.start_ms < end_ms and start_ms <= self.end_ms


def find_segments(directory: Path) -> tuple[list[Segment], list[Segment]]:
    """Return the segments that count, in order, and those that a merged one replaces."""
    found = [segment for name in sorted(os.listdir(directory)) if (segment := _parse(directory, name))]
    kept = [s for s in found if not any(_replaces(other, s) for other in found)]
    return sorted(kept, key=lambda s: s.first), [s for s in found if s not in kept]


def _parse(directory: Path, name: str) -> Segment | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    first, last, start_ms, end_ms = (int(word) for word in match.groups()[1:5])
    return Segment(directory, Level("mhqd".index(match[1])), first, last, start_ms, end_ms, int(match[6], 16))


def _replaces(other: Segment, segment: Segment) -> bool:
    return other.level > segment.level and other.first <= segment.first and segment.last <= other.last


def is_whole(path: Path) -> bool:
    """Return whether a file begins and ends as Parquet does, with a footer that fits into it."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(4)
            file.seek(max(0, size - 8))
            tail = file.read(8)
    except OSError:
        return False
    return size >= _SMALLEST and head == tail[4:] == _MAGIC and int.from_bytes(tail[:4], "little") <= size - _SMALLEST


def set_aside(path: Path) -> Path:
    """Rename a damaged file so that nobody reads it again and nothing is lost; return its new name."""
    aside = path.with_name(path.name + SET_ASIDE)
    path.rename(aside)
    return aside


def remove(paths: Iterable[Path]) -> None:
    """Delete files; those that are gone already are well gone."""
    for path in paths:
        path.unlink(missing_ok=True)


def publish(unfinished: Path, segment: Segment) -> Segment:
    """Make a finished file appear under its name, whole or not at all, surviving a power loss; return it so named."""
    finished = replace(segment, checksum=checksum_of(unfinished))
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.rename(finished.path)
    descriptor = os.open(segment.directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return finished


def checksum_of(path: Path) -> int:
    """Return the CRC-32 of a file. Raises OSError."""
    checksum = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return checksum
