"""A running agent: what starts, in which order it stops, and one exposition without a loop. Builds nothing itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from kwhere.agent.sampler import SamplerThread
from kwhere.collectors.runner import CollectorRunner
from kwhere.core.metrics import Sample
from kwhere.sampling.snapshot import attach
from kwhere.sampling.step import Sampler
from kwhere.sampling.totals import StepCounts, Totals

log = structlog.get_logger(__name__)


class Face(Protocol):
    """Something that serves while the agent runs: HTTP, the local socket."""

    def start(self) -> None:
        """Begin to serve."""
        ...

    def stop(self) -> None:
        """End serving, soon."""
        ...


@dataclass(slots=True)
class Agent:
    """An agent put together by `apps`. `start` once, `stop` once; or `once` alone."""

    sampler: Sampler
    thread: SamplerThread
    runner: CollectorRunner
    close: Sequence[Callable[[], None]] = ()
    """What gives back files at the end, in this order."""
    faces: list[Face] = field(default_factory=list)
    """Started after the first step, stopped before the last."""

    def start(self, first_step_seconds: float = 5.0) -> None:
        """Start sampling, then serving. Raises what a face raises; then nothing runs any more."""
        self.thread.start()
        self.thread.wait_for_step(first_step_seconds)
        started: list[Face] = []
        try:
            for face in self.faces:
                face.start()
                started.append(face)
        except BaseException:
            for face in reversed(started):
                face.stop()
            self._end()
            raise

    def stop(self) -> None:
        """Stop serving, close the slot and give everything back; takes less than two seconds."""
        in_time = self.thread.stop()
        if not in_time:
            log.error("sampler did not end in time; the open slot comes back from the counters at the next start")
        for face in reversed(self.faces):
            face.stop()
        self._end(stopped=True)

    def once(self, next_moment: Callable[[], None]) -> list[Sample]:
        """Return the samples of two steps; `next_moment` waits, or turns a recorded host's page, between them."""
        attach(self.sampler, StepCounts)
        try:
            self.sampler.step()
            next_moment()
            self.sampler.step()
            return self.runner.collect()
        finally:
            self._end(stopped=True)

    def totals(self) -> Totals | None:
        """Return what collectors see; None before the first step."""
        return self.sampler.parts.board.snapshot()

    def _end(self, *, stopped: bool = False) -> None:
        if not stopped:
            self.thread.stop()
        self.runner.close()
        for close in self.close:
            close()
