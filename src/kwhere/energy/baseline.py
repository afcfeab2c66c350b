"""What a domain draws when it does nothing: configured, else learned from quiet hours, else from the model's table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kwhere.core.quantities import NANOSECONDS_PER_SECOND

WINDOW_NS = 300 * NANOSECONDS_PER_SECOND
DAY_NS = 86_400 * NANOSECONDS_PER_SECOND
MEMORY_NS = 7 * DAY_NS
MOST_WINDOWS = MEMORY_NS // WINDOW_NS
FEWEST_WINDOWS = 3
QUIET_UTILISATION = 0.05
PERCENTILE = 0.10
LARGEST_RISE_PER_DAY = 0.01


class IdleOrigin(StrEnum):
    """Where an idle power comes from; TABLE is flagged `idle_table` on what it splits."""

    CONFIGURED = "configured"
    LEARNED = "learned"
    TABLE = "table"
    MODEL = "model"
    GIVEN = "given"
    """The source has split already: a guest's hypervisor."""


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """Mean power over five quiet minutes that ended at `end_utc_ns`."""

    end_utc_ns: int
    mean_uw: int


@dataclass(frozen=True, slots=True)
class BaselineState:
    """What must survive a restart."""

    windows: Sequence[QuietWindow] = ()
    learned_uw: int | None = None
    learned_utc_ns: int = 0


def idle_of(windows: Sequence[QuietWindow]) -> int | None:
    """Return the 10th percentile (nearest rank) of the windows' means in microwatts; None with fewer than three."""
    if len(windows) < FEWEST_WINDOWS:
        return None
    means = sorted(window.mean_uw for window in windows)
    return means[max(0, math.ceil(PERCENTILE * len(means)) - 1)]


class IdleBaseline:
    """Idle power of one domain. Never 0 before it has learned; what it learns is in force from the next slot."""

    def __init__(self, table_uw: int, configured_uw: int | None = None, *, learns: bool = True) -> None:
        """`learns` False is for modelled domains, whose idle power is the model's own."""
        self._table_uw = max(1, table_uw)
        self._configured_uw = configured_uw
        self._learns = learns and configured_uw is None
        self._windows: list[QuietWindow] = []
        self._learned_uw: int | None = None
        self._learned_utc_ns = 0
        self._next_uw: int | None = None
        self._energy_uj = 0
        self._span_ns = 0
        self._busy_ns = 0.0
        self._quiet_known = True
        self._modelled = not learns

    @property
    def idle_uw(self) -> int:
        """Return the idle power in force, microwatts."""
        if self._configured_uw is not None:
            return self._configured_uw
        return self._table_uw if self._learned_uw is None else self._learned_uw

    @property
    def origin(self) -> IdleOrigin:
        """Return where the idle power in force comes from."""
        if self._configured_uw is not None:
            return IdleOrigin.CONFIGURED
        if self._modelled:
            return IdleOrigin.MODEL
        return IdleOrigin.TABLE if self._learned_uw is None else IdleOrigin.LEARNED

    def observe(self, energy_uj: int, span_ns: int, utilisation: float | None, utc_ns: int) -> None:
        """Take in one span of the domain with its own utilisation (0..1); None, not known, is not quiet."""
        if not self._learns or span_ns <= 0:
            return
        self._energy_uj += energy_uj
        self._span_ns += span_ns
        if utilisation is None:
            self._quiet_known = False
        else:
            self._busy_ns += utilisation * span_ns
        if self._span_ns >= WINDOW_NS:
            self._close_window(utc_ns)

    def interrupt(self) -> None:
        """Drop the window under way: the domain had a gap."""
        self._start_window()

    def start_slot(self) -> None:
        """Put what was learned in force; closed slots keep what they were split with."""
        if self._next_uw is not None:
            self._learned_uw = self._next_uw
            self._next_uw = None

    def saved(self) -> BaselineState:
        """Return what to keep across a restart."""
        learned_uw = self._learned_uw if self._next_uw is None else self._next_uw
        return BaselineState(tuple(self._windows), learned_uw, self._learned_utc_ns)

    def restore(self, state: BaselineState) -> None:
        """Take up what an earlier process learned."""
        if self._learns:
            self._windows = list(state.windows)[-MOST_WINDOWS:]
            self._learned_uw = state.learned_uw
            self._learned_utc_ns = state.learned_utc_ns

    def _close_window(self, utc_ns: int) -> None:
        if self._quiet_known and self._busy_ns < QUIET_UTILISATION * self._span_ns:
            mean_uw = self._energy_uj * NANOSECONDS_PER_SECOND // self._span_ns
            self._windows.append(QuietWindow(utc_ns, mean_uw))
            self._learn(utc_ns)
        self._start_window()

    def _start_window(self) -> None:
        self._energy_uj = 0
        self._span_ns = 0
        self._busy_ns = 0.0
        self._quiet_known = True

    def _learn(self, utc_ns: int) -> None:
        """Set what is in force from the next slot: it falls at once and rises by at most 1 % a day."""
        recent = [window for window in self._windows if utc_ns - window.end_utc_ns < MEMORY_NS]
        self._windows = recent[-MOST_WINDOWS:]
        found = idle_of(self._windows)
        if found is None:
            return
        before = self._learned_uw if self._next_uw is None else self._next_uw
        if before is None:
            self._next_uw = max(1, found)
        else:
            days = max(0, utc_ns - self._learned_utc_ns) / DAY_NS
            ceiling = before + math.floor(before * LARGEST_RISE_PER_DAY * days)
            self._next_uw = max(1, min(found, ceiling))
        self._learned_utc_ns = utc_ns
