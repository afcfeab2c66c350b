"""Whether the dies of one socket are counters of their own or mirrors of one."""

from collections.abc import Sequence

from kwhere.core.counters import modulus_of

SAME_WITHIN_UJ = 5_000_000
"""Mirrors are read one after another: 10 ms of 500 W apart at most, unless the reader was put to sleep in between."""
DISAGREEMENTS_NEEDED = 3
_GENUINE_DIES = frozenset({"GenuineIntel"})


class MirrorWatch:
    """Judges the dies of one socket over time; one equal value proves nothing, one unequal one neither.

    On Intel (Cascade Lake-AP) dies are genuine. On AMD Zen 1 and 2 the kernel shows one register under several names.
    """

    def __init__(self, cpu_vendor: str | None) -> None:
        self._genuine = cpu_vendor in _GENUINE_DIES
        self._agreed_once = False
        self._disagreements = 0

    def are_mirrors(self, counters_uj: Sequence[int], range_uj: int | None) -> bool:
        """Return whether these simultaneous readings are one counter, in the light of all readings before."""
        if self._genuine:
            return False
        if len(counters_uj) < 2:  # a die that cannot be read changes no verdict
            pass
        elif _agree(counters_uj, range_uj):
            self._agreed_once = True
            self._disagreements = 0
        else:
            self._disagreements += 1
        return self._agreed_once and self._disagreements < DISAGREEMENTS_NEEDED


def _agree(counters_uj: Sequence[int], range_uj: int | None) -> bool:
    apart = max(counters_uj) - min(counters_uj)
    modulus = modulus_of(range_uj, max(counters_uj))
    return apart <= SAME_WITHIN_UJ or (modulus is not None and modulus - apart <= SAME_WITHIN_UJ)
