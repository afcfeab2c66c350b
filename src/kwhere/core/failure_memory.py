"""When a failure that repeats is worth a line in the log: on change, then hourly with a count, never in a flood."""

from dataclasses import dataclass

QUIET_NS = 3_600 * 1_000_000_000
NEVER_NS = 1 << 62
BURST = 40
"""Lines that may come at once: everything may break at the start."""
REFILL_NS = 1_800 * 1_000_000_000
"""One more line per half hour: what changes or comes and goes all the time is told 48 times a day."""


@dataclass(slots=True)
class _Failure:
    text: str
    told_ns: int
    repeats: int = 0
    is_told: bool = True
    is_over: bool = False


class FailureMemory:
    """Remembers what failed last and how; one subject, one line. Not thread-safe."""

    def __init__(self, quiet_ns: int = QUIET_NS) -> None:
        """A failure that stays the same is told again after `quiet_ns`; with NEVER_NS only `repeated` counts it."""
        self._quiet_ns = quiet_ns
        self._failures: dict[str, _Failure] = {}
        self._tokens = BURST
        self._refilled_ns: int | None = None
        self._summed_ns: int | None = None

    def failed(self, subject: str, text: str, now_ns: int) -> int | None:
        """Return how often `subject` failed alike since it was last told; None: it need not be told now."""
        self._refill(now_ns)
        known = self._failures.get(subject)
        if known is None or known.text != text:
            return self._changed(subject, text, now_ns)
        known.repeats += 1
        known.is_over = False
        if now_ns - known.told_ns < self._quiet_ns:
            return None
        repeats, known.repeats, known.told_ns, known.is_told = known.repeats, 0, now_ns, True
        return repeats

    def recovered(self, subject: str) -> bool:
        """Return whether that is news: `subject` failed, that was told, and it does not come and go all the time."""
        known = self._failures.get(subject)
        if known is None or known.is_over:
            return False
        known.is_over = True
        is_news, known.is_told = known.is_told and self._take(), False
        return is_news

    def repeated(self, now_ns: int) -> dict[str, int]:
        """Return, once an hour, how often each subject failed without being told, for one line about all of them."""
        if self._summed_ns is None:
            self._summed_ns = now_ns
        if now_ns - self._summed_ns < QUIET_NS:
            return {}
        self._summed_ns = now_ns
        counts = {subject: failure.repeats for subject, failure in self._failures.items() if failure.repeats}
        for failure in self._failures.values():
            failure.repeats = 0
        return counts

    def _changed(self, subject: str, text: str, now_ns: int) -> int | None:
        if self._take():
            self._failures[subject] = _Failure(text, now_ns)
            return 1
        before = self._failures.get(subject)
        repeats = before.repeats + 1 if before else 1
        self._failures[subject] = _Failure(text, now_ns, repeats, is_told=False)
        return None

    def _take(self) -> bool:
        if self._tokens == 0:
            return False
        self._tokens -= 1
        return True

    def _refill(self, now_ns: int) -> None:
        if self._refilled_ns is None:
            self._refilled_ns = now_ns
        fresh = max(0, now_ns - self._refilled_ns) // REFILL_NS
        self._refilled_ns += fresh * REFILL_NS
        self._tokens = min(BURST, self._tokens + fresh)
