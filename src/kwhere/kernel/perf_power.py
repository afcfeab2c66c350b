"""The perf unit `power`: RAPL as 64-bit counters that count while they are open (Linux events/rapl.c).

`event_source/devices/power` says it all: `type`, `cpumask` (one CPU per package or die), `events/energy-pkg` with its
`.scale` and `.unit`, `format/event`.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kwhere.core.errors import SourceError, Unavailable
from kwhere.core.quantities import MICROJOULES_PER_JOULE
from kwhere.kernel.hostfs import HostFS
from kwhere.kernel.numbers import counter, cpu_list, excerpt
from kwhere.kernel.perf_event import EventCounter

PMU_DIRECTORY = "sys/bus/event_source/devices/power"
_DEVICE = "sys/devices/power"
"""Where the link leads: all there is in a tree that was copied without links."""
EVENTS = ("energy-pkg", "energy-ram", "energy-psys")
"""Cores and the graphics part lie inside the package; `power_core` is a unit of its own and not read."""
_SCALE = re.compile(r"\d{1,20}(?:\.\d{1,60})?(?:[eE][-+]?\d{1,2})?")
_TERM = re.compile(r"([a-z0-9_]+)(?:=(0x[0-9a-fA-F]{1,16}|\d{1,20}))?")
_BITS = re.compile(r"config:(\d{1,2})(?:-(\d{1,2}))?")

Opener = Callable[[int, int, int], int]
"""From type, config and CPU to a descriptor; raises as `perf_event.open_event` does."""


@dataclass(frozen=True, slots=True)
class PowerEvent:
    """One energy event of the unit."""

    name: str
    config: int
    joules_per_count: Fraction

    def microjoules(self, count: int) -> int:
        """Return `count` in whole microjoules, rounded down: of the whole count, so that nothing drifts."""
        scaled = count * self.joules_per_count.numerator * MICROJOULES_PER_JOULE
        return scaled // self.joules_per_count.denominator


@dataclass(frozen=True, slots=True)
class PowerUnit:
    """The unit as the kernel describes it."""

    kind: int
    cpus: tuple[int, ...]
    events: Mapping[str, PowerEvent]


def find_power_unit(fs: HostFS) -> PowerUnit:
    """Return the unit and those of its events that we use. Raises Unavailable: absent, permission; SourceError."""
    root = _DEVICE if fs.exists(_DEVICE) and not fs.exists(PMU_DIRECTORY) else PMU_DIRECTORY
    kind = counter(fs.read_word(f"{root}/type"), str(fs.path(f"{root}/type")))
    mask = fs.path(f"{root}/cpumask")
    cpus = cpu_list(fs.read_word(f"{root}/cpumask"), str(mask))
    if not cpus:
        raise SourceError(f"{mask}: expected at least one CPU, found none")
    events = {name: _event(fs, root, name) for name in EVENTS if fs.exists(f"{root}/events/{name}")}
    if not events:
        raise Unavailable("absent", f"{fs.path(root)}/events: expected energy-pkg, found none of {', '.join(EVENTS)}")
    return PowerUnit(kind, cpus, events)


class PowerCounter:
    """One event on one CPU, open. It counts from its opening on, for the whole package of that CPU."""

    __slots__ = ("_counter", "_event", "_place", "cpu")

    def __init__(self, unit: PowerUnit, event: PowerEvent, cpu: int, opener: Opener) -> None:
        """Open the event. Raises Unavailable (permission, unsupported), SourceError."""
        self.cpu = cpu
        self._event = event
        self._place = f"power/{event.name}/ on CPU {cpu}"
        self._counter: EventCounter | None = EventCounter(opener(unit.kind, event.config, cpu), self._place)

    def read_microjoules(self) -> int:
        """Return microjoules since the opening. Raises Unavailable, SourceError."""
        if self._counter is None:
            raise Unavailable("absent", f"{self._place}: closed")
        return self._event.microjoules(self._counter.read())

    def close(self) -> None:
        """Give back the descriptor."""
        if self._counter is not None:
            os.close(self._counter.descriptor)
            self._counter = None


def parse_config(text: str, bits_of: Callable[[str], str], place: str) -> int:
    """Return the `config` that an event's text asks for, e.g. `event=0x02`; `bits_of` gives the format of a term.

    Raises SourceError for anything but terms within `config`.
    """
    config = 0
    for piece in text.split(","):
        term = _TERM.fullmatch(piece.strip())
        if term is None:
            raise SourceError(f"{place}: expected terms like event=0x02, found {excerpt(text)}")
        bits = _BITS.fullmatch(bits_of(term[1]).strip())
        if bits is None:
            raise SourceError(f"{place}: expected a term within config, found {excerpt(piece)}")
        first, value = int(bits[1]), 1 if term[2] is None else int(term[2], 0 if term[2][:2] == "0x" else 10)
        last = int(bits[2]) if bits[2] is not None else first
        if not first <= last < 64 or value >= 1 << (last - first + 1):
            raise SourceError(f"{place}: expected a value of bits {first} to {last}, found {excerpt(piece)}")
        config |= value << first
    return config


def parse_scale(text: str, place: str) -> Fraction:
    """Return joules per count, exactly, e.g. 2^-32 for `2.3283064365386962890625e-10`. Raises SourceError."""
    if not _SCALE.fullmatch(text):
        raise SourceError(f"{place}: expected a scale, found {excerpt(text)}")
    scale = Fraction(text)
    if scale <= 0:
        raise SourceError(f"{place}: expected a scale above 0, found {excerpt(text)}")
    return scale


def _event(fs: HostFS, root: str, name: str) -> PowerEvent:
    path = f"{root}/events/{name}"
    unit = fs.read_word(f"{path}.unit")
    if unit != "Joules":
        raise SourceError(f"{fs.path(path)}.unit: expected Joules, found {excerpt(unit)}")
    place = str(fs.path(path))
    config = parse_config(fs.read_word(path), lambda term: _bits_of(fs, root, term), place)
    return PowerEvent(name, config, parse_scale(fs.read_word(f"{path}.scale"), f"{place}.scale"))


def _bits_of(fs: HostFS, root: str, term: str) -> str:
    try:
        return fs.read_word(f"{root}/format/{term}")
    except Unavailable:
        return ""
