"""`/proc/diskstats`: what block devices did since boot (Documentation/admin-guide/iostats.rst)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import counter, excerpt

SECTOR_BYTES = 512
"""The unit of this file, whatever the device's own sector is."""
_FEWEST_WORDS = 14
_PARTITION_WORDS = 7  # kernels before 2.6.25 wrote four counters for a partition


@dataclass(frozen=True, slots=True)
class DiskReading:
    """Totals of one block device since boot."""

    device: str
    """As `/dev` has it, e.g. `nvme0n1` or `cciss/c0d0`."""
    read_operations: int
    read_sectors: int
    write_operations: int
    write_sectors: int
    busy_ms: int
    """Time with a request in flight; wraps at 2^32 ms."""


def parse_diskstats(text: str, place: str = "proc/diskstats") -> Sequence[DiskReading]:
    """Return one reading per line, partitions included. Raises SourceError."""
    return [_reading(line, place) for line in text.split("\n") if line and len(line.split()) != _PARTITION_WORDS]


def _reading(line: str, place: str) -> DiskReading:
    words = line.split()
    if len(words) < _FEWEST_WORDS:
        raise SourceError(f"{place}: expected at least {_FEWEST_WORDS} words in a line, found {excerpt(line)}")
    read_operations, _, read_sectors, _, write_operations, _, write_sectors, _, _, busy_ms = (
        counter(word, place) for word in words[3:13]
    )
    return DiskReading(words[2], read_operations, read_sectors, write_operations, write_sectors, busy_ms)
