"""When a failure that repeats is worth a line in the log: on change, then hourly with a count."""

from dataclasses import dataclass

QUIET_NS = 3_600 * 1_000_000_000


@dataclass(slots=True)
class _Failure:
    text: str
    told_ns: int
    repeats: int


class FailureMemory:
    """Remembers what failed last and how; one subject, one line. Not thread-safe."""

    def __init__(self, quiet_ns: int = QUIET_NS) -> None:
        self._quiet_ns = quiet_ns
        self._failures: dict[str, _Failure] = {}

    def failed(self, subject: str, text: str, now_ns: int) -> int | None:
        """Return how often `subject` failed alike since it was last told; None: it need not be told now."""
        known = self._failures.get(subject)
        if known is None or known.text != text:
            self._failures[subject] = _Failure(text, now_ns, 0)
            return 1
        known.repeats += 1
        if now_ns - known.told_ns < self._quiet_ns:
            return None
        repeats, known.repeats, known.told_ns = known.repeats, 0, now_ns
        return repeats

    def recovered(self, subject: str) -> bool:
        """Return whether `subject` had failed before; it starts afresh."""
        return self._failures.pop(subject, None) is not None
