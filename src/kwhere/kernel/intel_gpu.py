"""Intel's GPUs by sysfs: which energy counter is the card's, clocks of i915 and xe, memory of boards."""

import re
from dataclasses import dataclass

from kwhere.kernel.drm import DRM, DrmCard, hwmon_directories, names_in, number_of, word_of
from kwhere.kernel.hostfs import HostFS

DRIVERS = ("i915", "xe")
_MEGA = 1_000_000
_TILE = re.compile(r"tile[0-9]{1,2}", re.ASCII)
_GT = re.compile(r"gt[0-9]{1,2}", re.ASCII)
_CARD_LABELS = ("card", "")
"""xe counts the card and, inside it, the package; without a label the first counter is the card's."""


@dataclass(frozen=True, slots=True)
class IntelSensors:
    """Paths of a GPU's sensors; empty where it has none, as graphics inside a processor have none."""

    energy: str = ""
    hwmon: str = ""
    channel: int = 1
    """Number of the energy counter, and of the power limits that belong to it."""


@dataclass(frozen=True, slots=True)
class IntelClocks:
    """Of the fastest engine group."""

    current_hz: int | None
    max_hz: int | None


def find_sensors(fs: HostFS, card: DrmCard) -> IntelSensors:
    """Return the card's own sensors. Chips such as `i915_gt0` count a tile, which the card's counter holds already."""
    own = [path for name, path in hwmon_directories(fs, card.place) if name in DRIVERS]
    for hwmon in own:
        counters = {word_of(fs, f"{hwmon}/energy{n}_label"): n for n in (2, 1) if fs.exists(f"{hwmon}/energy{n}_input")}
        for label in (*_CARD_LABELS, "pkg"):
            if label in counters:
                number = counters[label]
                return IntelSensors(f"{hwmon}/energy{number}_input", hwmon, number)
    return IntelSensors(hwmon=own[0] if own else "")


def read_clocks(fs: HostFS, card: DrmCard) -> IntelClocks:
    """Return the actual clock, 0 while it rests, else the one that was asked for."""
    places = [f"{DRM}/{card.card}"] if card.card else []
    found = [(number_of(fs, f"{place}/gt_act_freq_mhz"), number_of(fs, f"{place}/gt_max_freq_mhz")) for place in places]
    if all(clock is None for clock, _ in found):
        found += [(number_of(fs, f"{place}/gt_cur_freq_mhz"), None) for place in places]
    for tile in (name for name in names_in(fs, card.place) if _TILE.fullmatch(name)):
        for group in (name for name in names_in(fs, f"{card.place}/{tile}") if _GT.fullmatch(name)):
            place = f"{card.place}/{tile}/{group}/freq0"
            actual = number_of(fs, f"{place}/act_freq")
            found.append(
                (number_of(fs, f"{place}/cur_freq") if actual is None else actual, number_of(fs, f"{place}/max_freq"))
            )
    return IntelClocks(_largest([clock for clock, _ in found]), _largest([highest for _, highest in found]))


def read_memory(fs: HostFS, card: DrmCard) -> tuple[int | None, int | None]:
    """Return total and free bytes of a board's memory, where the driver tells them."""
    place = f"{DRM}/{card.card}"
    if not card.card:
        return None, None
    return number_of(fs, f"{place}/lmem_total_bytes"), number_of(fs, f"{place}/lmem_avail_bytes")


def _largest(clocks_mhz: list[int | None]) -> int | None:
    return max((clock * _MEGA for clock in clocks_mhz if clock is not None), default=None)
