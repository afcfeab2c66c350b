"""Cray's power management counters, `/sys/cray/pm_counters`: text with unit and the device's own time.

A file holds `123 J 1690000000123456 us`; some (freshness, startup, generation) a bare number. All files of a set belong
together while `freshness` is the same before and after.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwhere.core.errors import NoData, SourceError, Unavailable
from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.kernel.hostfs import HostFS, KeptFile
from kwhere.kernel.numbers import counter, excerpt

PM_DIRECTORY = "sys/cray/pm_counters"
ATTEMPTS = 3
_ENERGY = re.compile(r"(?:(?P<part>cpu|memory|accel)(?P<number>\d{1,3})?_)?energy")
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class PmCounter:
    """One file: a value in joules or watts as the device says it, times a million."""

    micro: int
    unit: str
    """`J`, `W`, `us`, …; empty where the file has none."""
    device_us: int | None
    """When the device took it; its clock is not ours and may be set."""


@dataclass(frozen=True, slots=True)
class PmSet:
    """Energy counters of one moment, in microjoules by file."""

    freshness: int
    startup: int
    """Another one: the counters began anew."""
    energy: Mapping[str, PmCounter]


@dataclass(frozen=True, slots=True)
class PmFile:
    """An energy file and what it counts: `part` is "" (the node), cpu, memory or accel; `number` "" means all."""

    name: str
    part: str
    number: str


def find_energy_files(fs: HostFS) -> list[PmFile]:
    """Return the energy files, by name. Raises Unavailable where there are no such counters."""
    found = []
    for name in fs.list_dir(PM_DIRECTORY):
        match = _ENERGY.fullmatch(name)
        if match:
            found.append(PmFile(name, match["part"] or "", match["number"] or ""))
    return found


def parse_pm_counter(text: str, place: str) -> PmCounter:
    """Return what a file says. Raises SourceError for anything but `VALUE [UNIT [TIME us]]`."""
    words = text.split()
    if not 1 <= len(words) <= 4 or (len(words) == 4 and words[3] != "us"):
        raise SourceError(f"{place}: expected a value, its unit and its time, found {excerpt(text)}")
    device_us = counter(words[2], place) if len(words) > 2 else None
    return PmCounter(_micro(words[0], place), words[1] if len(words) > 1 else "", device_us)


class PmReader:
    """Reads a set of energy files, kept open."""

    def __init__(self, fs: HostFS, names: Sequence[str]) -> None:
        """Open nothing yet: accelerators may come and go."""
        self._fs = fs
        self._names = tuple(names)
        self._files: dict[str, KeptFile] = {}

    def read(self) -> PmSet:
        """Return energy counters that belong together; a file that cannot be read is left out.

        Raises NoData where the device wrote anew during every attempt, Unavailable, SourceError.
        """
        for _ in range(ATTEMPTS):
            before = self._number("freshness")
            energy = {name: found for name in self._names if (found := self._energy(name)) is not None}
            startup = self._number("startup", missing=0)
            if self._number("freshness") == before:
                return PmSet(before, startup, energy)
        raise NoData(f"{self._fs.path(PM_DIRECTORY)}: new values came during each of {ATTEMPTS} readings")

    def close(self) -> None:
        """Give back file descriptors."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _energy(self, name: str) -> PmCounter | None:
        try:
            found = self._counter(name)
        except (Unavailable, SourceError):
            return None
        return found if found.unit == "J" else None

    def _number(self, name: str, missing: int | None = None) -> int:
        try:
            return self._counter(name).micro // _MICRO
        except Unavailable:
            if missing is None:
                raise
            return missing

    def _counter(self, name: str) -> PmCounter:
        path = f"{PM_DIRECTORY}/{name}"
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._fs.keep(path)
        return parse_pm_counter(file.read().decode("ascii", "replace"), str(self._fs.path(path)))


def read_power_cap_uw(fs: HostFS) -> int | None:
    """Return the node's power cap in microwatts; None where there is none (the device says 0)."""
    path = f"{PM_DIRECTORY}/power_cap"
    try:
        found = parse_pm_counter(fs.read_word(path), str(fs.path(path)))
    except (Unavailable, SourceError):
        return None
    return found.micro or None


def _micro(word: str, place: str) -> int:
    """Return a value, whole or with a fraction, times a million. Raises SourceError."""
    whole, point, rest = word.partition(".")
    if point and not (rest.isascii() and rest.isdigit()):
        raise SourceError(f"{place}: expected a value of 0 or more, found {excerpt(word)}")
    return counter(whole, place) * MICROJOULES_PER_JOULE + int(rest[:6].ljust(6, "0"))
