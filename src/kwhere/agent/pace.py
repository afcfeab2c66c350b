"""When the next step is due: a schedule that does not drift, and slows down over its CPU budget."""

from dataclasses import dataclass

from kwhere.core.quantities import NANOSECONDS_PER_SECOND

LONGEST_INTERVAL_NS = 60 * NANOSECONDS_PER_SECOND
LATE_SHARE = 10
"""A step is late when it begins more than an interval / this behind its time."""
WINDOW_STEPS = 30
"""CPU use is judged over this many steps, so that one full reading of all units does not count as a habit."""


@dataclass(slots=True)
class Pace:
    """Schedules steps on the monotonic clock. Pure: time comes in, nothing sleeps."""

    interval_ns: int
    budget_ratio: float
    late: int = 0
    missed: int = 0
    factor: int = 1
    """Steps are this many intervals apart; above 1 the sampler has slowed down."""
    _due_ns: int | None = None
    _cpu_ns: int = 0
    _steps: int = 0

    @property
    def step_ns(self) -> int:
        """Return the time between two steps as it is now."""
        return min(self.interval_ns * self.factor, max(self.interval_ns, LONGEST_INTERVAL_NS))

    def begin(self, now_ns: int) -> None:
        """Note that a step begins now."""
        if self._due_ns is None:
            self._due_ns = now_ns
        behind_ns = now_ns - self._due_ns
        if behind_ns > self.step_ns // LATE_SHARE:
            self.late += 1
        self.missed += max(0, behind_ns // self.step_ns)
        self._due_ns += max(0, behind_ns // self.step_ns) * self.step_ns

    def end(self, now_ns: int, cpu_ns: int) -> int:
        """Note the end of a step that took `cpu_ns` of CPU; return nanoseconds to wait for the next."""
        assert self._due_ns is not None
        self._cpu_ns += cpu_ns
        self._steps += 1
        if self._steps >= WINDOW_STEPS:
            self._judge()
        self._due_ns += self.step_ns
        return max(0, self._due_ns - now_ns)

    def spent(self, cpu_ns: int) -> None:
        """Note CPU time of a step out of turn: it counts against the budget and moves no schedule."""
        self._cpu_ns += cpu_ns

    def _judge(self) -> None:
        used_ns, allowed_ns = self._cpu_ns, self.budget_ratio * self._steps * self.step_ns
        self._cpu_ns = self._steps = 0
        if used_ns > allowed_ns and self.step_ns < LONGEST_INTERVAL_NS:
            self.factor *= 2
        elif self.factor > 1 and used_ns * 3 < allowed_ns:  # a third: half the interval is twice the use
            self.factor //= 2
