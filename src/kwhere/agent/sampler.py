"""The thread that steps: on time, within its budget, and out of it in under two seconds."""

import threading
import time
from collections.abc import Callable
from functools import partial

import structlog

from kwhere.agent.pace import Pace
from kwhere.core.clock import Clock
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, seconds
from kwhere.sampling.snapshot import attach
from kwhere.sampling.step import Sampler, StepResult
from kwhere.sampling.totals import StepCounts

STOP_SECONDS = 1.5
STEP_NOW_SECONDS = 0.5
STEPS_APART_NS = 100_000_000
"""A step out of turn comes at least this long after the one before, and not before this many times its length."""
STEPS_APART_FACTOR = 20

log = structlog.get_logger(__name__)


class SamplerThread:
    """Runs one sampler. A step that fails is counted and told; the next one catches up."""

    def __init__(
        self, sampler: Sampler, pace: Pace, clock: Clock, cpu_time_ns: Callable[[], int] = time.thread_time_ns
    ) -> None:
        self._sampler = sampler
        self._pace = pace
        self._clock = clock
        self._cpu_time_ns = cpu_time_ns
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._failures = FailureMemory()
        self._begun = 0
        self._ended = 0
        self._began_ns = 0
        self._failed = 0
        self._last_step_ns = 0
        attach(sampler, self.counts)

    @property
    def alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start stepping."""
        self._thread.start()

    def wait_for_step(self, timeout_seconds: float) -> bool:
        """Return whether a first step was done within `timeout_seconds`."""
        return self._wait_for(1, timeout_seconds)

    def step_now(self, timeout_seconds: float = STEP_NOW_SECONDS) -> bool:
        """Do a step out of turn, soon; return whether one that began after this call has ended in time.

        For a unit that is about to go: what it used until now is then read, not estimated.
        """
        with self._moved:
            wanted = self._begun + 1
        self._wake.set()
        return self._wait_for(wanted, timeout_seconds)

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Close the slot and end the thread. Return whether it ended in time."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def counts(self) -> StepCounts:
        """Return how the stepping goes; from any thread."""
        pace = self._pace
        return StepCounts(
            steps=self._ended,
            late=pace.late,
            missed=pace.missed,
            failed=self._failed,
            last_step_ns=self._last_step_ns,
            interval_ns=pace.step_ns,
            read_errors=self._sampler.read_errors,
            unbalanced_slots=self._sampler.unbalanced_slots,
            slowed=pace.factor > 1,
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            due_ns = self._step_once(self._sampler.step) + self._clock.monotonic_ns()
            while self._wake.wait(seconds(max(0, due_ns - self._clock.monotonic_ns()))):
                self._wake.clear()
                if self._stop.is_set() or self._stop.wait(seconds(self._breather_ns())):
                    break
                self._pace.spent(self._timed(partial(self._sampler.step, closely=True)))
        self._step_once(self._sampler.finish)

    def _breather_ns(self) -> int:
        """Return how long to wait before a step out of turn, so that whoever asks for many cannot keep us busy."""
        apart_ns = max(STEPS_APART_NS, self._last_step_ns * STEPS_APART_FACTOR)
        return max(0, self._began_ns + apart_ns - self._clock.monotonic_ns())

    def _wait_for(self, step: int, timeout_seconds: float) -> bool:
        with self._moved:
            return self._moved.wait_for(lambda: self._ended >= step, timeout_seconds)

    def _step_once(self, step: Callable[[], StepResult]) -> int:
        """Do one step in turn; return nanoseconds to wait for the next."""
        self._pace.begin(self._clock.monotonic_ns())
        factor = self._pace.factor
        cpu_ns = self._timed(step)
        wait_ns = self._pace.end(self._clock.monotonic_ns(), cpu_ns)
        if self._pace.factor != factor:
            interval = self._pace.step_ns / NANOSECONDS_PER_SECOND
            log.warning("sampler changed its pace", interval_seconds=interval, slowed=self._pace.factor > 1)
        return wait_ns

    def _timed(self, step: Callable[[], StepResult]) -> int:
        """Do one step; return the CPU time it took."""
        self._began_ns, cpu_ns = self._clock.monotonic_ns(), self._cpu_time_ns()
        with self._moved:
            self._begun += 1
        try:
            self._tell(step())
        except Exception as error:  # noqa: BLE001 - the sampler's runner: a fault must not end the account
            self._failed += 1
            self._told("step", f"{type(error).__name__}: {error}")
        self._last_step_ns = self._clock.monotonic_ns() - self._began_ns
        with self._moved:
            self._ended = self._begun
            self._moved.notify_all()
        return self._cpu_time_ns() - cpu_ns

    def _tell(self, result: StepResult) -> None:
        if result.journal_error is not None:
            self._told("journal", str(result.journal_error))
        elif result.slot is not None and self._failures.recovered("journal"):
            log.info("journal takes slots again")
        if result.read_errors:
            self._told("read", "; ".join(result.read_errors))
        elif self._failures.recovered("read"):
            log.info("readings are back")
        if result.unbalanced_uj:
            found = {str(component): rest for component, rest in result.unbalanced_uj.items()}
            log.error("slot does not balance", residual_microjoules=found)

    def _told(self, subject: str, text: str) -> None:
        repeats = self._failures.failed(subject, text, self._clock.monotonic_ns())
        if repeats is not None:
            log.error("sampler failed", subject=subject, error=text, times=repeats)
