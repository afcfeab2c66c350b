"""Text files of the amdgpu driver below a GPU's PCI device (Documentation/gpu/amdgpu)."""

import re
from dataclasses import dataclass

from kwhere.core.errors import SourceError
from kwhere.kernel.numbers import excerpt

DRIVER = "amdgpu"
_LEVEL = re.compile(r"(?:[0-9]{1,3}|S): {0,8}([0-9]{1,6}) ?[Mm][Hh][Zz] ?(\*?)", re.ASCII)
_COUNT = re.compile(r"(ue|ce|de): ([0-9]{1,20})", re.ASCII)
_PARTITIONS = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": 8}
_MEGA = 1_000_000


@dataclass(frozen=True, slots=True)
class DpmClock:
    """One clock's levels; None is not told."""

    current_hz: int | None
    max_hz: int | None


@dataclass(frozen=True, slots=True)
class RasCounts:
    """Errors of one block since the driver was loaded; None is not told."""

    corrected: int | None
    uncorrected: int | None


def parse_dpm(text: str, place: str) -> DpmClock:
    """Return a clock out of `pp_dpm_sclk` and its like: lines `1: 1725Mhz *`, the star marks the current one.

    A sleeping clock shows `S: 19Mhz *`. A file without lines tells nothing. Raises SourceError for other text.
    """
    levels: list[int] = []
    current: int | None = None
    for line in text.replace("\0", "").splitlines():
        if not line.strip():
            continue
        found = _LEVEL.fullmatch(line.strip())
        if found is None:
            raise SourceError(f"{place}: expected a line like `1: 1725Mhz *`, found {excerpt(line)}")
        clock_hz = int(found[1]) * _MEGA
        levels.append(clock_hz)
        current = clock_hz if found[2] else current
    return DpmClock(current, max(levels, default=None))


def parse_ras(text: str, place: str) -> RasCounts:
    """Return the counts of `ras/BLOCK_err_count`: lines `ue: 0` and `ce: 0`. Raises SourceError for other text."""
    counts: dict[str, int] = {}
    for line in text.replace("\0", "").splitlines():
        found = _COUNT.fullmatch(line.strip())
        if found is None and line.strip():
            raise SourceError(f"{place}: expected `ue: N`, `ce: N` or `de: N`, found {excerpt(line)}")
        if found is not None:
            counts[found[1]] = int(found[2])
    return RasCounts(counts.get("ce"), counts.get("ue"))


def parse_unique_id(text: str) -> str | None:
    """Return 16 hexadecimal digits in lower case; None for anything else, and for an id of zeros."""
    word = text.strip().lower().removeprefix("0x")
    if re.fullmatch(r"[0-9a-f]{1,16}", word, re.ASCII) is None or not word.strip("0"):
        return None
    return word.rjust(16, "0")


def partition_count(mode: str) -> int | None:
    """Return into how many compute partitions a mode such as `CPX` divides a whole GPU; None for an unknown word.

    CPX makes one partition of each compute die: 8 of an MI300X, 6 of an MI300A. The topology tells how many there are.
    """
    return _PARTITIONS.get(mode.strip().upper())
