"""What a stranger sees of the samples: no names if the site says so, and nothing that moves faster than once a second.

Fine-grained energy gives secrets away across users (CVE-2020-8694).
"""

import hashlib
import hmac
import re
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from kwhere.collectors.runner import CollectorRunner
from kwhere.core.clock import Clock
from kwhere.core.errors import NotFound
from kwhere.core.metrics import Sample
from kwhere.core.quantities import NANOSECONDS_PER_SECOND

HOLD_NS = NANOSECONDS_PER_SECOND
_BUSY_SECONDS = 5.0
_NAMING_LABELS = frozenset({"user", "project", "name"})
_BEGAN = re.compile(r"@[0-9]+(\.[A-Za-z0-9_.-]*)?")
_PROCESS_LABELS = ("unit", "run")


class HeldSamples:
    """Each collector's samples as of its last run, for a second: whoever asks, however often, whatever is selected."""

    def __init__(self, runner: CollectorRunner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock
        self._locks = {name: threading.Lock() for name in runner.names}
        self._held: dict[str, tuple[int, list[Sample]]] = {}

    def collect(self, names: Collection[str]) -> list[Sample]:
        """Return the samples of the collectors named, of all without names. Raises NotFound."""
        for name in names:
            if name not in self._runner.names:
                raise NotFound(f"collector {name}: expected one of {', '.join(self._runner.names)}")
        return [sample for name in self._runner.names if not names or name in names for sample in self._fresh(name)]

    def _fresh(self, name: str) -> list[Sample]:
        if not self._locks[name].acquire(timeout=_BUSY_SECONDS):
            # it hangs on behalf of an earlier scrape: the runner says so, and nothing else of it
            return self._runner.collect((name,))
        try:
            return self._held_or_taken(name)
        finally:
            self._locks[name].release()

    def _held_or_taken(self, name: str) -> list[Sample]:
        now_ns = self._clock.monotonic_ns()
        taken_ns, samples = self._held.get(name, (None, []))
        if taken_ns is None or now_ns - taken_ns >= HOLD_NS:
            samples = self._runner.collect((name,))
            self._held[name] = (now_ns, samples)
        return samples


class NameRemover:
    """Takes user, project and name out of samples; process groups, whose id is `user:comm`, get a keyed pseudonym."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def without_names(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples as a stranger may see them."""
        return [
            sample if labels == sample.labels else replace(sample, labels=labels)
            for sample in samples
            for labels in (self._labels(sample.spec.labels, sample.labels),)
        ]

    def _labels(self, names: Sequence[str], values: tuple[str, ...]) -> tuple[str, ...]:
        if not _NAMING_LABELS.isdisjoint(names):
            values = tuple("" if name in _NAMING_LABELS else value for name, value in zip(names, values, strict=True))
        if "manager" in names and values[names.index("manager")] == "process":
            unit = values[names.index("unit")] if "unit" in names else ""
            return tuple(
                self._pseudonym(value, unit) if name in _PROCESS_LABELS else value
                for name, value in zip(names, values, strict=True)
            )
        return values

    def _pseudonym(self, value: str, unit: str) -> str:
        """The group is hidden, the second it began stays: `user:comm@123` becomes `3f2a…@123`."""
        began = value.removeprefix(unit) if _BEGAN.fullmatch(value.removeprefix(unit)) else ""
        group = unit if began else value
        return hmac.new(self._key, group.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16] + began
