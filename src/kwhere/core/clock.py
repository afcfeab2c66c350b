"""Clocks: what time it is, injected everywhere so that tests bring their own."""

import time
from typing import Protocol


class Clock(Protocol):
    """Three readings in integer nanoseconds."""

    def monotonic_ns(self) -> int:
        """Return CLOCK_MONOTONIC: never steps, stands still in suspend."""
        ...

    def boottime_ns(self) -> int:
        """Return CLOCK_BOOTTIME: like monotonic, but runs on in suspend. Zero is the boot."""
        ...

    def utc_ns(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC; may step."""
        ...


class SystemClock:
    """The kernel's clocks."""

    def monotonic_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def boottime_ns(self) -> int:
        """Return CLOCK_BOOTTIME."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def utc_ns(self) -> int:
        """Return CLOCK_REALTIME."""
        return time.time_ns()
