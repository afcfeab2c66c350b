"""Which devices are shown: dcgm-exporter's `-d`, `-s` and `-p`."""

import re
from dataclasses import dataclass
from enum import StrEnum

from kwhere.core.errors import ConfigError
from kwhere.devices.gpu import GpuSnapshot

_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
_MOST = 4096


class Choice(StrEnum):
    """The letter of a choice."""

    FLEX = "f"
    """A GPU as a whole, or its instances where it is divided."""
    GPUS = "g"
    INSTANCES = "i"


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """What is shown. `ids` None: all of that kind."""

    kind: Choice = Choice.FLEX
    ids: frozenset[int] | None = None

    def takes_gpu(self, index: int, *, is_divided: bool) -> bool:
        """Return whether the GPU is shown as a whole."""
        if self.kind is Choice.FLEX:
            return not is_divided
        return self.kind is Choice.GPUS and (self.ids is None or index in self.ids)

    def takes_instance(self, ordinal: int) -> bool:
        """Return whether an instance is shown, by its number in the order of GPUs and instances."""
        return self.kind is Choice.FLEX or (self.kind is Choice.INSTANCES and (self.ids is None or ordinal in self.ids))


def absent_of(choice: DeviceChoice, found: GpuSnapshot) -> str:
    """Return the numbers that were chosen and that nothing here bears, as `99, 101`; empty where all are here."""
    if choice.ids is None:
        return ""
    here = {state.device.index for state in found.devices}
    if choice.kind is Choice.INSTANCES:
        here = set(range(sum(len(state.device.instances) for state in found.devices)))
    return ", ".join(map(str, sorted(choice.ids - here)))


def parse_choice(text: str, place: str) -> DeviceChoice:
    """Return the choice that `f`, `g`, `g:0,2-3`, `i` or `i:-1` names. Raises ConfigError that names `place`."""
    letter, colon, ids = text.strip().partition(":")
    if letter not in tuple(Choice):
        raise ConfigError(f"{place}: expected f, g or i, with ids after a colon as in g:0,2-3, found {text[:60]!r}")
    kind = Choice(letter)
    if not colon:
        return DeviceChoice(kind)
    if kind is Choice.FLEX:
        raise ConfigError(f"{place}: no range can be specified with the flex option 'f', found {text[:60]!r}")
    if ids.strip() == "-1":
        return DeviceChoice(kind)
    found: set[int] = set()
    for part in ids.split(","):
        item = _RANGE.fullmatch(part.strip())
        first, last = (int(item[1]), int(item[2] or item[1])) if item else (1, 0)
        if first > last or last > _MOST:
            raise ConfigError(f"{place}: expected numbers and ranges as in 0,2-3, found {part[:60]!r}")
        found.update(range(first, last + 1))
    return DeviceChoice(kind, frozenset(found))
