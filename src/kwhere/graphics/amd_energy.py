"""AMD's energy accumulator: its unit, which boards have it, and whether it is alive."""

from kwhere.core.quantities import NANOSECONDS_PER_SECOND
from kwhere.devices.gpu_fields import Absence

_UJ_BY_1024 = 15_625
"""2^-16 J is 15625/1024 uJ exactly; AMD's library takes 15.3, which is 0.27 % too much (amdsmi issue 38)."""
FIRST_INSTINCT_REVISION = 4
_INSTINCT = (range(0x7380, 0x7391), range(0x7400, 0x7420))
"""PCI ids of MI100 and of MI200. Later boards are known by their tables."""
_TWO_DIES = frozenset({0x7408, 0x740C})
"""MI250 and MI250X: two dies in one package, each a GPU of its own; one measures both."""
DEAD_NS = 10 * NANOSECONDS_PER_SECOND


def accumulated_uj(accumulator: int) -> int:
    """Return an accumulator of 2^-16 J in microjoules, cut off."""
    return accumulator * _UJ_BY_1024 // 1024


def tells_energy(device_id: int, revision: int | None) -> bool:
    """Return whether the accumulator of a board counts 2^-16 J. Of Radeon boards the unit is not documented.

    An id of 0 is not known: a library of ROCm answered for it.
    """
    known = not device_id or any(device_id in ids for ids in _INSTINCT)
    return known or (revision is not None and revision >= FIRST_INSTINCT_REVISION)


def has_two_dies(device_id: int) -> bool:
    """Return whether a board holds two GPUs that are measured as one."""
    return device_id in _TWO_DIES


class DeviceClock:
    """Tells a table that the driver or the library handed out again from a new one, by the time in it."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._since_ns = 0

    def advances(self, device_time: int | None, now_ns: int) -> bool:
        """Return whether the device's time is another than before; one that tells none is always new."""
        if device_time is None or device_time != self._last:
            self._last, self._since_ns = device_time, now_ns
            return True
        return False

    def is_dead(self, now_ns: int) -> bool:
        """Return whether it has stood still for so long that nothing more is to be hoped for."""
        return self._last is not None and now_ns - self._since_ns >= DEAD_NS


class Accumulator:
    """One GPU's accumulator; 0 is not a state that a running GPU can be in."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self.worked = False
        """Whether it ever told an energy."""

    def energy_uj(self, raw: int | None, revision: int | None) -> int | Absence:
        """Return the energy, or why it is not known: `unsupported` for good, `blank` for this time."""
        if not tells_energy(self._device_id, revision):
            return Absence.UNSUPPORTED
        if not raw:
            return Absence.BLANK if self.worked else Absence.UNSUPPORTED
        self.worked = True
        return accumulated_uj(raw)
