"""The thread that steps: on time, within its budget, and out of it in under two seconds."""

import threading
import time
from collections.abc import Callable

import structlog

from kwhere.agent.pace import Pace
from kwhere.core.clock import Clock
from kwhere.core.failure_memory import FailureMemory
from kwhere.core.quantities import NANOSECONDS_PER_SECOND, seconds
from kwhere.sampling.snapshot import attach
from kwhere.sampling.step import Sampler, StepResult
from kwhere.sampling.totals import StepCounts

STOP_SECONDS = 1.5

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
        self._stepped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._failures = FailureMemory()
        self._steps = 0
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
        return self._stepped.wait(timeout_seconds)

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Close the slot and end the thread. Return whether it ended in time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def counts(self) -> StepCounts:
        """Return how the stepping goes; from any thread."""
        pace = self._pace
        return StepCounts(
            steps=self._steps,
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
        while True:
            wait_ns = self._step_once(self._sampler.step)
            self._stepped.set()
            if self._stop.wait(seconds(wait_ns)):
                break
        self._step_once(self._sampler.finish)

    def _step_once(self, step: Callable[[], StepResult]) -> int:
        """Do one step; return nanoseconds to wait for the next."""
        began_ns, cpu_ns = self._clock.monotonic_ns(), self._cpu_time_ns()
        self._pace.begin(began_ns)
        try:
            self._tell(step())
        except Exception as error:  # noqa: BLE001 - the sampler's runner: a fault must not end the account
            self._failed += 1
            self._told("step", f"{type(error).__name__}: {error}")
        self._steps += 1
        ended_ns = self._clock.monotonic_ns()
        self._last_step_ns = ended_ns - began_ns
        factor = self._pace.factor
        wait_ns = self._pace.end(ended_ns, self._cpu_time_ns() - cpu_ns)
        if self._pace.factor != factor:
            interval = self._pace.step_ns / NANOSECONDS_PER_SECOND
            log.warning("sampler changed its pace", interval_seconds=interval, slowed=self._pace.factor > 1)
        return wait_ns

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
