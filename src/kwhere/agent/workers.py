"""Blocking work beside an event loop, in threads that never keep the process from ending."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

ResultT = TypeVar("ResultT")


class WorkersBusyError(Exception):
    """All workers have been at work for too long; one of them may hang in the kernel."""


class Workers:
    """At most `limit` calls at once; one that waits longer than `patience_seconds` gives up."""

    def __init__(self, limit: int, patience_seconds: float) -> None:
        self._free = asyncio.Semaphore(limit)
        self._patience_seconds = patience_seconds

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Return what `work` returns. Raises WorkersBusyError, or what `work` raises."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience_seconds)
        except TimeoutError:
            raise WorkersBusyError from None
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ResultT] = loop.create_future()
        threading.Thread(target=self._work, args=(loop, done, work), name="kwhere-http-worker", daemon=True).start()
        return await done

    def _work(
        self, loop: asyncio.AbstractEventLoop, done: "asyncio.Future[ResultT]", work: Callable[[], ResultT]
    ) -> None:
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, work())
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            settle = partial(done.set_exception, error)
        # the loop may be gone when a hung call comes back
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._finish, done, settle)

    def _finish(self, done: "asyncio.Future[ResultT]", settle: Callable[[], None]) -> None:
        self._free.release()
        if not done.cancelled():
            settle()
