"""The proxy's BMCs: each asked by one question at a time, its answers kept for a moment, left alone after a failure."""

import asyncio
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from kwhere.agent.workers import Workers, WorkersBusyError
from kwhere.core.errors import ConfigError, SourceError, Unavailable
from kwhere.devices.redfish_client import RedfishClient

MAX_PATHS = 64
"""Answers kept for one BMC."""
MAX_WAITING = 16
"""Questions that wait for one BMC; more are refused."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
CLOSE_SECONDS = 1.5
_OF_THE_RESOURCE = frozenset({"not_found", "permission", "nonsense"})
"""Failures of one resource; any other is the BMC's, which is then left alone for a while."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a question brought: a body, or the reason why not and how long to wait."""

    body: bytes = b""
    reason: str = ""
    detail: str = ""
    """For the proxy's log; it may name addresses that callers need not know."""
    retry_after_seconds: float | None = None


class RedfishTarget:
    """One BMC; used on the loop's thread, asked on workers' threads."""

    def __init__(
        self,
        build: Callable[[], RedfishClient],
        workers: Workers,
        *,
        refresh_seconds: float,
        budget_seconds: float,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`build` is called at the first question, and again until it succeeds. Raises Unavailable, ConfigError."""
        self._build = build
        self._workers = workers
        self._refresh_seconds = refresh_seconds
        self._budget_seconds = budget_seconds
        self._monotonic_ns = monotonic_ns
        self._client: RedfishClient | None = None
        self._kept: OrderedDict[str, tuple[int, Outcome]] = OrderedDict()
        self._flights: dict[str, asyncio.Task[Outcome]] = {}
        self._turn = asyncio.Lock()
        self._in_use = threading.Lock()
        self._failures = 0
        self._paused: tuple[int, Outcome] | None = None

    async def get(self, path: str) -> Outcome:
        """Return what the BMC says of `path`, now or a moment ago; one question for however many callers."""
        now_ns = self._monotonic_ns()
        known = self._kept.get(path)
        if known is not None and now_ns < known[0]:
            return known[1]
        flight = self._flights.get(path)
        if flight is None:
            if len(self._flights) >= MAX_WAITING:
                return Outcome(reason="busy", retry_after_seconds=self._refresh_seconds)
            flight = self._flights[path] = asyncio.create_task(self._fly(path))
        # one caller that goes away does not end the question of the others
        return await asyncio.shield(flight)

    def close(self) -> None:
        """End the session; after a question under way."""
        with self._in_use:
            if self._client is not None:
                self._client.close()

    async def _fly(self, path: str) -> Outcome:
        try:
            async with self._turn:
                outcome = self._pause() or await self._asked(path)
        finally:
            del self._flights[path]
        self._keep(path, outcome)
        return outcome

    async def _asked(self, path: str) -> Outcome:
        try:
            outcome = await self._workers.run(lambda: self._ask(path))
        except WorkersBusyError:
            return Outcome(
                reason="busy", detail="all workers ask other BMCs", retry_after_seconds=self._refresh_seconds
            )
        if not outcome.reason or outcome.reason in _OF_THE_RESOURCE:
            self._failures = 0
            return outcome
        self._failures += 1
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 8), LONGEST_PAUSE_SECONDS)
        pause = max(pause, outcome.retry_after_seconds or 0.0)
        outcome = replace(outcome, retry_after_seconds=pause)
        self._paused = self._monotonic_ns() + int(pause * 1e9), outcome
        return outcome

    def _pause(self) -> Outcome | None:
        """Return the failure for which the BMC is left alone; None: it may be asked."""
        if self._paused is None:
            return None
        until_ns, outcome = self._paused
        left_ns = until_ns - self._monotonic_ns()
        if left_ns <= 0:
            self._paused = None
            return None
        return replace(outcome, retry_after_seconds=left_ns / 1e9)

    def _keep(self, path: str, outcome: Outcome) -> None:
        self._kept[path] = self._monotonic_ns() + int(self._refresh_seconds * 1e9), outcome
        self._kept.move_to_end(path)
        if len(self._kept) > MAX_PATHS:
            self._kept.popitem(last=False)

    def _ask(self, path: str) -> Outcome:
        with self._in_use:
            try:
                if self._client is None:
                    self._client = self._build()
                self._client.begin(self._budget_seconds)
                return Outcome(json.dumps(self._client.get(path)).encode())
            except Unavailable as error:
                return Outcome(b"", error.reason, str(error), error.retry_after_seconds)
            except ConfigError as error:
                return Outcome(b"", "credentials", str(error))
            except (SourceError, RecursionError) as error:
                return Outcome(b"", "nonsense", str(error))


def close_targets(targets: "list[RedfishTarget]") -> None:
    """End every session, all at once, within a moment; one that hangs is left to its BMC."""
    threads = [threading.Thread(target=target.close, daemon=True) for target in targets]
    deadline = time.monotonic() + CLOSE_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
